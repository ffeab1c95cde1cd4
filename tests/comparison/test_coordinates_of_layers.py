"""Models without a common token: the map that layers teach is handed on, and what was done is told in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
from tests.comparison.disguises import disguised, zoo_model
from tests.comparison.kinds_held_out import as_trained
from tests.scale.lifelike import Grown

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs
from modelkin.comparison.alignment import LearnedMap, polar_factor
from modelkin.source import MemorySource

CHANGES: Mapping[str, Callable[[Checkpoint], Checkpoint]] = {
    "copy": lambda model: model,
    "quantised-copy": derive.round_to_int8,
    "low-rank": partial(derive.merge_low_rank, rank=4, size=0.05, rng=np.random.default_rng(2)),
    "fine-tune": partial(as_trained, size=0.05, seed=10),
}
RENUMBERED = ("tokens", "units", "heads", "residual-permutation")
RNG = np.random.default_rng(5)


def compared(candidate: Checkpoint, base: Checkpoint, stored: StoredAs = "F32") -> mk.Comparison:
    """Compare two models that have no tokenizer."""
    mine, theirs = (
        MemorySource(
            {name: data for name, data in model.files(stored).items() if "token" not in name}, name=name
        )
        for name, model in (("candidate", candidate), ("base", base))
    )
    return mk.compare(
        mine, theirs, options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
    )


SIGNS = [
    pytest.param((), id="no-signs"),
    pytest.param(("residual-signs",), id="signs", marks=pytest.mark.more),
]


@pytest.mark.more
@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("kind", CHANGES)
def test_what_was_done_is_told_of_a_renumbered_copy_without_tokens(kind, signs):
    base = zoo_model("base")
    found = compared(disguised(CHANGES[kind](base), *signs, *RENUMBERED), base)
    assert found.alignment.residual == ("signed-permutation" if signs else "permutation")
    assert found.relation.kind == kind
    told = {item.kind: item.numbers for item in found.relation.findings}
    assert "reordered" in told
    assert "turned" not in told
    assert "parts-replaced" not in told
    if kind == "quantised-copy":
        assert (told[kind]["bits"], told[kind]["group"]) == (8, 96)
    if kind == "low-rank":
        assert told[kind]["rank"] == 4
    if kind == "copy":
        assert told["tables-not-subtracted"]["components"] == "embedding, head"


@pytest.mark.more
@pytest.mark.parametrize(
    ("change", "kind"), [("copy", "copy"), ("quantised-copy", "unknown"), ("fine-tune", "unknown")]
)
def test_a_rotation_known_only_from_changed_matrices_tells_nothing_but_a_copy(change, kind):
    """The map would take part of the change for its own."""
    base = zoo_model("base")
    found = compared(disguised(CHANGES[change](base), "tokens", "units", "heads", "rotation-and-gains"), base)
    assert found.verdict.related
    assert found.alignment.residual == "rotation"
    assert found.relation.kind == kind
    assert (found.relation.not_subtracted is None) == (kind == "copy")


def learned(matrix: np.ndarray) -> LearnedMap:
    return LearnedMap(matrix=matrix.astype(np.float32), fit=1.0, n_units=100, rounds=2)


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("signed", [False, True])
def test_a_map_that_is_nearly_an_order_is_told_as_one(noise, signed):
    order = RNG.permutation(64)
    signs = RNG.choice([-1.0, 1.0], size=64) if signed else np.ones(64)
    matrix = np.eye(64)[:, np.argsort(order)] * signs
    frame = learned(polar_factor(matrix + noise * RNG.normal(size=matrix.shape))).as_frame()
    assert frame.kind == ("signed-permutation" if signed else "permutation")
    assert np.array_equal(frame.as_matrix(), matrix.astype(np.float32))


def test_dimensions_without_a_sure_place_take_those_that_are_left():
    matrix = np.eye(64)[:, RNG.permutation(64)]
    turned = polar_factor(RNG.normal(size=(4, 4)))
    matrix[:, :4] = matrix[:, :4] @ turned
    frame = learned(matrix).as_frame()
    assert frame.kind in ("permutation", "signed-permutation")
    assert frame.places is not None
    assert sorted(frame.places) == list(range(64))


@pytest.mark.parametrize("shape", [(64, 64), (64, 48)])
def test_a_rotation_and_a_map_between_widths_stay_what_they_are(shape):
    frame = learned(polar_factor(RNG.normal(size=shape))).as_frame()
    assert frame.kind == "rotation"
    assert frame.matrix is not None


@pytest.mark.scale
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", CHANGES)
def test_what_was_done_is_told_at_a_width_of_1024(kind):
    base = Grown(width=1_024, layers=4, units=2_816, heads=16, kv_heads=8, vocab=4_000).drawn(seed=3)
    found = compared(disguised(CHANGES[kind](base), *RENUMBERED), base)
    assert found.relation.kind == kind
