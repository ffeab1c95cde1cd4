"""Norm gains of models whose layers changed places: compared along the layers that were found to face."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.comparison.disguises import disguised
from tests.comparison.zoo_pairs import independent_pairs, members
from tests.scale.lifelike import Grown

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison import reading
from modelkin.comparison.dry_run import wanted_by_comparison
from modelkin.comparison.layer_pairs import completed
from modelkin.comparison.methods import EQUAL_VALUES, Tested, load_method
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import read_together
from modelkin.comparison.tokens import UNREAD
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

DEEP = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False, max_gap=0))
SMALL = Grown(width=64, layers=8, units=64, heads=4, kv_heads=2, vocab=64)
"""Its gains are drawn for each layer alone, so those of other layers say nothing."""
WITHOUT_FIRST = tuple(range(1, 8))
DOUBLED = tuple(layer for layer in range(8) for _ in range(2))
MOVED = (*range(2, 8), 0, 1)


@cache
def drawn(seed: int = 1, layers: int = 8) -> Checkpoint:
    return replace(SMALL, layers=layers).drawn(seed=seed)


def relaid(layers: Sequence[int]) -> Checkpoint:
    return derive.reorder_layers(drawn(), list(layers))


def with_own_gains(model: Checkpoint, *, seed: int) -> Checkpoint:
    """Draw all gains anew."""
    rng = np.random.default_rng(seed)
    new = {
        name: rng.lognormal(mean=-0.6, sigma=0.25, size=values.shape).astype(np.float32)
        for name, values in model.tensors.items()
        if values.ndim == 1
    }
    assert len(new) > 14
    return replace(model, tensors={**model.tensors, **new})


def opened(model: Checkpoint, name: str) -> mk.Model:
    return mk.open_model(MemorySource(model.files("F32"), name=name), DEEP.fetch)


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(candidate=opened(candidate, "candidate"), base=opened(base, "base"), options=DEEP)


def gains_of(result: mk.Comparison) -> list[Tested]:
    return [item for item in result.evidence if isinstance(item, Tested) and item.method == "norm-profile"]


@pytest.mark.parametrize(
    ("layers", "followed"),
    [
        (WITHOUT_FIRST, [*enumerate(WITHOUT_FIRST)]),
        pytest.param(DOUBLED, [(2 * layer, layer) for layer in range(8)], marks=pytest.mark.more),
        pytest.param(MOVED, [*enumerate(MOVED)], marks=pytest.mark.more),
    ],
    ids=["removed", "doubled", "moved"],
)
def test_gains_of_layers_that_changed_places_are_found(layers, followed):
    by_number, along = gains_of(compared(relaid(layers), drawn()))
    assert by_number.base_layers == ()
    assert by_number.log10_p > -9 > -40 > along.log10_p  # doubled layers leave the first where it was
    assert [*zip(along.layers, along.base_layers, strict=True)] == followed
    assert EQUAL_VALUES in along.flags


@pytest.mark.more
@pytest.mark.parametrize(
    "layers", [pytest.param(WITHOUT_FIRST, marks=pytest.mark.more), DOUBLED], ids=["removed", "doubled"]
)
def test_either_model_may_be_the_candidate(layers):
    one, other = compared(relaid(layers), drawn()), compared(drawn(), relaid(layers))
    (_, along), (_, back) = gains_of(one), gains_of(other)
    assert {*zip(along.layers, along.base_layers, strict=True)} == {
        *zip(back.base_layers, back.layers, strict=True)
    }
    assert back.log10_p == pytest.approx(along.log10_p, rel=0.01)
    for result in (one, other):
        norms = result.verdict.components["norms"]
        assert norms.conclusion is Conclusion.SHARED
        assert norms.effect is not None
        assert norms.effect.value == pytest.approx(1.0)  # of the test that decided, not of both


@pytest.mark.more
def test_units_may_have_changed_places_too():
    result = compared(disguised(relaid(WITHOUT_FIRST), "units"), drawn())
    assert result.verdict.components["norms"].conclusion is Conclusion.SHARED


@pytest.mark.parametrize(
    "layers",
    [WITHOUT_FIRST, *(pytest.param(layers, marks=pytest.mark.more) for layers in (DOUBLED, MOVED))],
    ids=["removed", "doubled", "moved"],
)
def test_gains_of_their_own_are_not_found_along_the_layers_either(layers):
    result = compared(with_own_gains(relaid(layers), seed=3), drawn())
    _, along = gains_of(result)
    assert along.base_layers
    assert along.log10_p > -3
    assert result.verdict.components["norms"].conclusion is Conclusion.NO_EVIDENCE
    assert result.verdict.components["mlp"].conclusion.related


def test_strangers_of_another_depth_have_no_layers_to_follow():
    result = compared(drawn(2, layers=6), drawn())
    (by_number,) = gains_of(result)
    assert by_number.base_layers == ()
    assert not result.verdict.related


@pytest.mark.more
def test_gains_of_one_layer_are_not_taken_for_all():
    one = derive.copy_parts(drawn(2), drawn(), layers={0: 7})
    result = compared(one, drawn())
    assert len(gains_of(result)[1].layers) == 7  # the base's first layer and the candidate's last are left
    assert abs(gains_of(result)[1].effect.value) < 0.25
    assert result.verdict.components["mlp"].layers == (0,)


def test_each_layer_is_in_one_pair_whichever_model_is_the_candidate():
    found = [(0, 3), (1, 3), (2, 2), (5, 0), (6, 7)]
    pairs = completed(found, range(7), range(9))
    assert pairs == ((0, 3), (1, 1), (2, 2), (4, 4), (5, 0), (6, 7))  # 3 is left, and its own is taken
    back = completed([(j, i) for i, j in found], range(9), range(7))
    assert sorted((i, j) for j, i in back) == [*pairs]
    assert completed((), range(3), range(5)) == ((0, 0), (1, 1), (2, 2))


@pytest.mark.more
def test_gains_that_were_read_are_not_read_again(monkeypatch):
    read: list[str] = []
    original = reading.read_parts

    def listening(model, parts, **how):
        for part in parts:
            if len(part.slices) == 1 and len(model.index[part.slices[0].name].shape) == 1:
                read.append(f"{model.location.ref}: {part.slices[0].name}")
        return original(model, parts, **how)

    monkeypatch.setattr(reading, "read_parts", listening)
    assert len(gains_of(compared(relaid(WITHOUT_FIRST), drawn()))) == 2
    assert read == [
        f"base: model.layers.7.{norm}.weight" for norm in ("input_layernorm", "post_attention_layernorm")
    ]


@pytest.mark.more
@pytest.mark.parametrize("layers", [WITHOUT_FIRST, DOUBLED], ids=["removed", "doubled"])
def test_a_dry_run_names_the_gains_that_may_be_followed(layers):
    models = opened(relaid(layers), "candidate"), opened(drawn(), "base")
    wanted = wanted_by_comparison(*models, DEEP).stages
    for model, slices in zip(models, wanted, strict=True):
        gains = {name for name, info in model.index.items() if len(info.shape) == 1}
        assert gains <= {item.name for item in slices}


# -- p-values along any map ----------------------------------------------------------------------------------


def along_a_map(candidate: mk.Model, base: mk.Model, *, seed: int) -> Tested | None:
    """Test gains along a random map of layers, as after a search."""
    models = ModelPair(candidate=candidate, base=base, options=DEEP)
    mine, theirs = (model.architecture.layers for model in models.models)
    rng = np.random.default_rng([71, seed])
    chosen = rng.permutation(len(theirs))[: len(mine)]
    pairs = tuple((layer, theirs[at]) for layer, at in zip(mine, chosen, strict=False))
    pair = replace(models.seen(UNREAD, 0), seed=seed, layer_pairs=pairs)
    probes = load_method("norm-profile").plan(pair).probes
    for probe, left, right in read_together(models.models, probes):
        (found,) = probe.evaluate(left, right).evidence
        assert {*zip(found.layers, found.base_layers, strict=True)} == {*pairs}
        return found if isinstance(found, Tested) else None
    return None


def calibrated(found: Sequence[Tested]) -> None:
    """P-values are below their level no more often than they say, and z has the spread of chance."""
    n = len(found)
    for alpha in (0.05, 0.2):
        rejected = sum(10**test.log10_p <= alpha for test in found)
        # The bound allows one false alarm of this test in 10^5.
        assert rejected <= n * alpha + 4.3 * math.sqrt(n * alpha * (1 - alpha))
    z = np.array([test.z for test in found])
    # Pairs share models, so z are not independent: twice the bound of independent ones.
    assert abs(z.mean()) < 2 * 4.3 / math.sqrt(n)
    assert abs(z.std() - 1) < 2 * 4.3 / math.sqrt(2 * n)
    assert np.abs(z).max() < 5.5


@pytest.mark.more
def test_gains_of_models_that_were_drawn_alone_agree_along_no_map():
    shape = Grown(width=48, layers=5, units=8, heads=2, kv_heads=1, vocab=16)
    models = [opened(replace(shape, layers=3 + seed % 5).drawn(seed=seed), str(seed)) for seed in range(21)]
    pairs = [(one, other) for number, one in enumerate(models) for other in models[:number]]
    found = [along_a_map(*pair, seed=number) for number, pair in enumerate(pairs)]
    made = [test for test in found if test is not None]
    assert len(made) == 210
    calibrated(made)


@pytest.mark.more
def test_gains_of_models_that_were_trained_alone_agree_along_no_map():
    names = sorted({name for pair in independent_pairs() for name in pair})
    models = {name: mk.open_model(members()[name].path) for name in names}
    found = [
        along_a_map(models[one], models[other], seed=number)
        for number, (one, other) in enumerate(independent_pairs())
    ]
    made = [test for test in found if test is not None]
    assert len(made) > 150
    calibrated(made)
