"""The calibration table of docs/statistics.md: ``python -m tests.stats.calibration --pairs 2000``."""

from __future__ import annotations

import argparse

import numpy as np
from tests.stats.nulls import NULLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    heads = ("unrelated pairs", "sd of z", "Monte Carlo ≤ .05", "≤ .01", "normal tail ≤ .001")
    print("| " + " | ".join((*heads, "`log10_p` ≤ .05", "≤ .01", "K ≥ 4")) + " |")
    print("|" + " --- |" * 8)
    for name, null in NULLS.items():
        tests = null.tests(arguments.pairs, arguments.seed)
        drawn = 10.0 ** np.array([test.log10_p_monte_carlo for test in tests])
        tail = 10.0 ** np.array([test.log10_p_extrapolated for test in tests])
        used = 10.0 ** np.array([test.log10_p for test in tests])
        matched = np.array([test.n_matched for test in tests])
        sd = float(np.std([test.z for test in tests]))
        shares = (drawn <= 0.05, drawn <= 0.01, tail <= 0.001, used <= 0.05, used <= 0.01, matched >= 4)
        cells = (name, f"{sd:.2f}", *(f"{float(np.mean(share)):.4f}" for share in shares))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
