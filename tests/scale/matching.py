"""Methods that look for a permutation, on strangers, with their first guard off: what their tests say then.

Of strangers too little is found for a test, so in whole comparisons none is made. Here each is made whatever
was found, on layers of equal depth: z and p are those of the null.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from unittest.mock import patch

from benchmarks.alignment_subject import Subject, Synthetic
from tests.scale.lifelike import SHAPES, drawn, lifelike_rows
from tests.scale.record import Kept, record
from tests.scale.strangers import pairs_of
from tests.support import LlamaShape

import modelkin as mk
from modelkin.comparison.layer_pairs import by_depth
from modelkin.comparison.methods import Tested, head_matching, load_method, unit_matching
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import read_parts
from modelkin.comparison.tokens import UNREAD

_DENSE, _MIXED = ("mlp-matching", "mlp-order", "head-matching"), ("expert-map", "router-matching")
WANTED: Final[Mapping[tuple[str, str], int]] = {
    **{("width 256", method): 30 for method in _DENSE},
    **{("width 1,024", method): 30 for method in _DENSE},
    **{("width 4,096, 14,336 units", method): 6 for method in _DENSE},
    **{("8 experts", method): 15 for method in _MIXED},
    **{("64 experts", method): 6 for method in _MIXED},
    **{("256 experts", method): 1 for method in _MIXED},
}
"""Pairs by shape and method."""
_FEWER = 0.75
"""Units of a candidate whose order is tested, of those of the base: equal numbers are not."""


def compare_searched(name: str, method: str) -> Kept:
    """Make the tests of one method on pairs of strangers of one shape, and keep what came out."""
    began = time.process_time()
    tests = [test for seeds in pairs_of(WANTED[name, method]) for test in _tests(name, method, seeds)]
    scores = [test.z for test in tests if test.z is not None]
    return record(
        "matching",
        name=f"{name}, {method}",
        shape=name,
        method=method,
        pairs=WANTED[name, method],
        tests=len(tests),
        root_mean_square_z=math.sqrt(math.fsum(z * z for z in scores) / len(scores)) if scores else None,
        largest_z=max(map(abs, scores), default=None),
        smallest_log10_p=min(test.log10_p for test in tests),
        cpu_seconds=time.process_time() - began,
    )


def _tests(name: str, method: str, seeds: tuple[int, int]) -> Iterator[Tested]:
    sides = [_narrowed(name, seeds[0]) if method == "mlp-order" else drawn(name, seed=seeds[0])]
    models = [mk.open_model(side) for side in (*sides, drawn(name, seed=seeds[1]))]
    opened = ModelPair(candidate=models[0], base=models[1], options=mk.CompareOptions(depth="deep"))
    pair = opened.seen(UNREAD, opened.deep_bytes())
    facing = by_depth(pair.candidate.architecture, pair.base.architecture)
    # Two layers are enough: dense first ones of a mixture have nothing to match.
    plan = load_method(method).plan(replace(pair, layer_pairs=facing[-2:]))
    with patch.object(unit_matching, "FOUND_SHARE", -1.0), patch.object(head_matching, "HEADS_FOUND", -1.0):
        for probe in itertools.islice(plan.probes, 2):
            parts = read_parts(models[0], probe.candidate), read_parts(models[1], probe.base)
            for item in probe.evaluate(*parts).evidence:
                assert isinstance(item, Tested), item
                yield item


def _narrowed(name: str, seed: int) -> Synthetic:
    shape = SHAPES[name]
    assert isinstance(shape, LlamaShape)
    subject = Subject.llama(replace(shape, mlp=int(_FEWER * shape.mlp)))
    return Synthetic(subject, seed=seed, vocabulary=1, draw=lifelike_rows, name=f"{name}, fewer {seed}")
