"""Unrelated models at the sizes of the world, many of them: what a comparison says of their pairs."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field

from tests.scale.lifelike import drawn
from tests.scale.record import record

import modelkin as mk
from modelkin.comparison.methods import Tested

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


def compare_strangers(name: str, *, pairs: int, depth: str, first_seed: int = 100) -> Seen:
    """Compare so many pairs of models of a shape, and keep what came out.

    As few models as make so many pairs: they share members, as pairs of published models do.
    """
    n_models = math.ceil((1 + math.sqrt(1 + 8 * pairs)) / 2)
    seeds = itertools.combinations(range(first_seed, first_seed + n_models), 2)
    seen, began = Seen(), time.process_time()
    for one, two in itertools.islice(seeds, pairs):
        result = mk.compare(
            candidate=drawn(name, seed=one), base=drawn(name, seed=two), options=_OPTIONS[depth]
        )
        seen.pairs += 1
        if result.verdict.related:
            seen.accused.append(f"{name}: {one} and {two}, {result.verdict.log10_p}")
        seen.not_testable += result.verdict.related is None
        tests = [item for item in result.evidence if isinstance(item, Tested)]
        seen.scores += [item.z for item in tests if item.z is not None and not item.sign_free]
        seen.smallest_log10_p = min(seen.smallest_log10_p, *(item.log10_p for item in tests), 0.0)
    spread = math.sqrt(math.fsum(z * z for z in seen.scores) / max(1, len(seen.scores)))
    record(
        "strangers",
        name=f"{name}, {depth}",
        shape=name,
        depth=depth,
        pairs=seen.pairs,
        accused=len(seen.accused),
        not_testable=seen.not_testable,
        tests=len(seen.scores),
        root_mean_square_z=spread,
        largest_z=max(map(abs, seen.scores), default=0.0),
        smallest_log10_p=seen.smallest_log10_p,
        cpu_seconds=time.process_time() - began,
    )
    return seen
