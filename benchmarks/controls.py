"""Controls: what comparing with unrelated models adds to a deep comparison, in one run.

Every control is one more unrelated model: it makes a pair with the candidate, one with the base, and one with
every other control. The limit that cost is held against is that of judging all these pairs one by one.
"""

from __future__ import annotations

import argparse
import time
from math import comb

import numpy as np
from tests.scale.lifelike import Grown

import modelkin as mk
from benchmarks.tables import Table, seconds
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

SIZE = Grown(width=256, layers=4, units=512, heads=8, kv_heads=4, vocab=512)
SMALL = Grown(width=96, layers=4, units=192, heads=4, kv_heads=2, vocab=256)


def compared(
    candidate: Checkpoint, base: Checkpoint, controls: list[Checkpoint]
) -> tuple[mk.Comparison, float]:
    """Compare at depth deep; return what was found and the processor time it took, all threads."""
    held = [
        MemorySource(model.files("BF16"), name=f"org/model-{at}")
        for at, model in enumerate([candidate, base, *controls])
    ]
    began = time.process_time()
    found = mk.compare(
        candidate=held[0], base=held[1], controls=held[2:], options=mk.CompareOptions(depth="deep")
    )
    return found, time.process_time() - began


def run(*, quick: bool = False) -> str:
    """Measure; return it as Markdown."""
    size = SMALL if quick else SIZE
    base, stranger = size.drawn(seed=1), size.drawn(seed=2)
    tuned = derive.add_noise(base, size=0.05, rng=np.random.default_rng(3))
    others = [size.drawn(seed=10 + at) for at in range(2 if quick else 5)]
    compared(stranger, base, [])  # what is loaded once is not counted
    _, price = compared(stranger, base, [])
    rows = []
    for name, candidate in (("unrelated", stranger), ("fine-tune", tuned)):
        alone = price if candidate is stranger else compared(candidate, base, [])[1]
        for n in (1, len(others)):
            found, took = compared(candidate, base, others[:n])
            pairs = comb(n + 2, 2)
            rows.append(
                [
                    name,
                    found.verdict.conclusion.value,
                    str(n),
                    str(pairs),
                    seconds(alone),
                    seconds(took),
                    f"{took / (price * pairs):.2f}",
                ]
            )
    count = sum(tensor.size for tensor in base.tensors.values()) / 1e6
    columns = [
        "pair",
        "verdict",
        "controls",
        "pairs",
        "alone, CPU s",
        "with controls, CPU s",
        "of all pairs one by one",
    ]
    note = (
        f"Models of {count:.1f} M parameters, {size.width} wide, depth deep, processor time of all threads. "
        "The last column holds the time against that of as many comparisons of unrelated models as there are "
        "pairs: 1 would mean that pairs share no work."
    )
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.controls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small case, in seconds")
    print(run(quick=parser.parse_args().quick))


if __name__ == "__main__":
    main()
