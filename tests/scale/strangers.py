"""Many unrelated models at realistic sizes: what a comparison says about their pairs."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.scale.lifelike import drawn
from tests.scale.record import record, recorded
from tests.scale.surveyed import Survey, joined, methods_of

import modelkin as mk
from modelkin.comparison.methods import Tested

NARROW: Final[Mapping[str, int]] = {
    "width 96": 320,
    "width 256": 240,
    "width 256, 96 layers": 20,
    "width 1,024": 210,
    "8 experts": 60,
    "GPT-2, width 1,024": 40,
}
"""Shapes and numbers of pairs at standard depth."""
WIDE: Final[Mapping[str, int]] = {
    "width 4,096, 14,336 units": 60,
    "width 4,096, 256 k tokens": 6,
    "width 5,120": 30,
    "64 experts": 16,
    "256 experts": 6,
    "GPT-2, width 5,120": 6,
}
NARROW_DEEP: Final[Mapping[str, int]] = {
    "width 96": 40,
    "width 256": 20,
    "width 256, 96 layers": 2,
    "width 1,024": 6,
    "8 experts": 4,
    "GPT-2, width 1,024": 4,
}
"""The same at deep depth."""
WIDE_DEEP: Final[Mapping[str, int]] = {
    "width 4,096, 14,336 units": 1,
    "width 4,096, 256 k tokens": 1,
    "width 5,120": 1,
    "64 experts": 2,
    "256 experts": 1,
}
WANTED: Final[Mapping[tuple[str, str], int]] = {
    **{(name, "standard"): n for name, n in {**NARROW, **WIDE}.items()},
    **{(name, "deep"): n for name, n in {**NARROW_DEEP, **WIDE_DEEP}.items()},
}
"""Pairs by shape and depth."""
_FIRST_SEED = 100
_OPTIONS = {
    depth: mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False))
    for depth in ("standard", "deep")
}


@dataclass(slots=True, kw_only=True)
class Seen:
    """What pairs of unrelated models of one shape gave."""

    pairs: int = 0
    accused: list[str] = field(default_factory=list)
    not_testable: int = 0
    scores: list[float] = field(default_factory=list)
    smallest_log10_p: float = 0.0
    cpu_seconds: float = 0.0
    methods: Survey = field(default_factory=dict)

    def add(self, name: str, depth: str, seeds: tuple[int, int]) -> None:
        """Compare one pair more."""
        began = time.process_time()
        candidate, base = (drawn(name, seed=seed) for seed in seeds)
        result = mk.compare(candidate=candidate, base=base, options=_OPTIONS[depth])
        self.pairs += 1
        if result.verdict.related:
            self.accused.append(f"{name}: {seeds[0]} and {seeds[1]}, {result.verdict.log10_p}")
        self.not_testable += result.verdict.related is None
        tests = [item for item in result.evidence if isinstance(item, Tested)]
        self.scores += [round(item.z, 4) for item in tests if item.z is not None and not item.sign_free]
        self.smallest_log10_p = min(self.smallest_log10_p, *(item.log10_p for item in tests), 0.0)
        self.methods = joined(self.methods, methods_of(result.evidence))
        self.cpu_seconds += time.process_time() - began

    def keep(self, name: str, depth: str) -> None:
        """Keep what was seen so far."""
        spread = math.sqrt(math.fsum(z * z for z in self.scores) / max(1, len(self.scores)))
        record(
            "strangers",
            name=f"{name}, {depth}",
            shape=name,
            depth=depth,
            pairs=self.pairs,
            accused=self.accused,
            not_testable=self.not_testable,
            scores=self.scores,
            tests=len(self.scores),
            root_mean_square_z=spread,
            largest_z=max(map(abs, self.scores), default=0.0),
            smallest_log10_p=self.smallest_log10_p,
            cpu_seconds=self.cpu_seconds,
            methods=self.methods,
        )


def seen_before(name: str, depth: str) -> Seen:
    """Return what this code has seen of a shape in an earlier run."""
    kept: Mapping[str, Any] | None = recorded("strangers", f"{name}, {depth}")
    if kept is None:
        return Seen()
    return Seen(
        pairs=kept["pairs"],
        accused=kept["accused"],
        not_testable=kept["not_testable"],
        scores=kept["scores"],
        smallest_log10_p=kept["smallest_log10_p"],
        cpu_seconds=kept["cpu_seconds"],
        methods=kept["methods"],
    )


def pairs_of(n: int) -> Iterator[tuple[int, int]]:
    """Yield so many pairs of as few models as make them: they share members, as published models do."""
    n_models = math.ceil((1 + math.sqrt(1 + 8 * n)) / 2)
    return itertools.islice(itertools.combinations(range(_FIRST_SEED, _FIRST_SEED + n_models), 2), n)


def compare_strangers(name: str, depth: str, *, again: bool = True, until: float = math.inf) -> Seen:
    """Compare the wanted pairs of a shape, and keep what came out.

    Parameters
    ----------
    name, depth
        Shape and depth.
    again
        Begin anew; else go on where an earlier run of the same code stopped.
    until
        CPU seconds of this process at which no other pair is begun.
    """
    seen = Seen() if again else seen_before(name, depth)
    for seeds in itertools.islice(pairs_of(WANTED[name, depth]), seen.pairs, None):
        if time.process_time() > until:
            break
        seen.add(name, depth, seeds)
        seen.keep(name, depth)
    return seen
