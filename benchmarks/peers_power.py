"""The smallest shared direction that a test finds, by simulation. Rows of known cosine, equal bytes for all.

Row i of the candidate is ``c a_i + sqrt(1 - c^2) e_i`` with independent normal a and e: its cosine with row i
of the base is c, apart from chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_job import answer_job

COSINES = tuple(float(f"{10 ** (step / 8):.2g}") for step in range(-24, -1))
"""Eight per decade, from 0.001 to 0.56."""
LOG10_P = -6.0
POWER = 0.9

LayerTest = Callable[[NDArray[np.float32], NDArray[np.float32]], float]
Combine = Callable[[list[float]], float]


def rows_of_cosine(
    rng: np.random.Generator, cosine: float, shape: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Draw the rows of one layer of both models."""
    base = rng.standard_normal(shape, dtype=np.float32)
    other = rng.standard_normal(shape, dtype=np.float32)
    return np.float32(cosine) * base + np.float32(math.sqrt(1.0 - cosine**2)) * other, base


def found_share(cosine: float, job: Mapping[str, Any], test: LayerTest, combine: Combine) -> float:
    """Return the share of pairs of models in which the test finds this cosine."""
    shape = (job["rows"], job["width"])
    n_found = 0
    for pair in range(job["pairs"]):
        rng = np.random.default_rng([pair, int(cosine * 1e6)])
        layers = [test(*rows_of_cosine(rng, cosine, shape)) for _ in range(job["layers"])]
        n_found += combine(layers) < LOG10_P
    return n_found / int(job["pairs"])


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Search the smallest cosine of the scale that is found often enough; power grows with the cosine."""
    test, combine = _axis_test() if job["test"] == "modelkin" else _match_test()
    low, high = 0, len(COSINES)
    while low < high:
        middle = (low + high) // 2
        if found_share(COSINES[middle], job, test, combine) >= POWER:
            high = middle
        else:
            low = middle + 1
    chance = found_share(0.0, job, test, combine)
    return {"cosine": COSINES[low] if low < len(COSINES) else None, "found_of_strangers": chance}


def _axis_test() -> tuple[LayerTest, Combine]:
    from modelkin.comparison.methods.axis import N_PERMUTATIONS
    from modelkin.stats import AxisOptions, AxisTest, axis_test, bonferroni

    options = AxisOptions(n_permutations=N_PERMUTATIONS)  # as `compare` asks for

    def test(candidate: NDArray[np.float32], base: NDArray[np.float32]) -> float:
        found = axis_test(candidate=candidate, base=base, exchangeable=True, seed=0, options=options)
        assert isinstance(found, AxisTest)
        return found.log10_p

    return test, bonferroni  # the best layer, corrected for their number, as in a verdict


def _match_test() -> tuple[LayerTest, Combine]:
    from benchmarks.peers_phi_u import log10_p_of_match
    from modelkin.reference.tails import fisher_log10_p

    return log10_p_of_match, fisher_log10_p


if __name__ == "__main__":
    answer_job(work)
