"""Levels and zeros are told on the side that has them, and noise only if nothing else explains a change."""

from __future__ import annotations

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.comparison.kinds_held_out import as_trained, on_grid

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs
from modelkin.comparison.record import Relation
from modelkin.comparison.relation import RelationFinding, TensorChange
from modelkin.comparison.relation.facing import FacingTensors
from modelkin.comparison.relation.lattice import find_lattice
from modelkin.comparison.relation.measure import Block, measure
from modelkin.comparison.relation.steps import stored_steps
from modelkin.document.language import load_language
from modelkin.source import MemorySource
from modelkin.tensors import decode, encode

Stored = tuple[StoredAs, StoredAs]


def compared(candidate: Checkpoint, base: Checkpoint, stored: Stored = ("BF16", "BF16")) -> Relation:
    return mk.compare(
        candidate=MemorySource(candidate.files(stored[0]), name="candidate"),
        base=MemorySource(base.files(stored[1]), name="base"),
        options=mk.CompareOptions(fetch=mk.FetchOptions(use_store=False)),
    ).relation


def findings(relation: Relation) -> dict[str, RelationFinding]:
    return {item.kind: item for item in relation.findings}


def in_a_format(values: np.ndarray, dtype: str) -> np.ndarray:
    return decode(encode(values, dtype), dtype, values.size).reshape(values.shape).astype(np.float32)


def changed(
    candidate: np.ndarray, base: np.ndarray, dtypes: tuple[str, str] = ("BF16", "BF16")
) -> TensorChange:
    facing = FacingTensors(
        candidate="a", base="b", role="mlp_up", component="mlp", layer=0, base_layer=0, expert=None
    )
    sides = [in_a_format(side, dtype) for side, dtype in zip((candidate, base), dtypes, strict=True)]
    block = Block(facing=facing, candidate=sides[0], base=sides[1], dtypes=dtypes, whole=True)
    found = measure(block, seed=0)
    assert found is not None
    return found


WIDTHS = pytest.mark.parametrize("width", [96, 1024])


def drawn(width: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((96, width)).astype(np.float32) * np.float32(0.02)
    return in_a_format(values, "BF16")


def quantised(values: np.ndarray, bits: int = 4, group: int = 32) -> np.ndarray:
    blocks = values.reshape(len(values), -1, group)
    step = np.abs(blocks).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 1)
    return np.asarray((np.round(blocks / step) * step).reshape(values.shape), np.float32)


# -- what was trained before it was quantised


def test_a_fine_tune_on_levels_is_a_fine_tune_and_has_no_parent():
    coarse = on_grid(zoo_model("finetune-light"), bits=4, group=32, symmetric=True)
    relation = compared(coarse, zoo_model("base"), ("F16", "BF16"))
    assert relation.kind == "fine-tune"
    assert relation.direction.parent is None
    assert {"on-levels", "levels-made-up", "fine-tune"} <= set(findings(relation))


def test_an_adapter_below_a_level_is_not_called_a_copy():
    """Only matrices on levels changed: a quantiser that makes up for its errors leaves as much."""
    base = zoo_model("base")
    adapted = derive.merge_low_rank(base, rank=2, size=0.1, rng=np.random.default_rng(3))
    relation = compared(on_grid(adapted, bits=4, group=32, symmetric=True), base, ("F16", "BF16"))
    assert relation.kind == "unknown"
    assert relation.direction.parent is None
    told = findings(relation)["levels-made-up"]
    assert float(told.numbers["over_chance"]) > 1.3
    assert "GPTQ" in load_language("ko").tell(told.cannot_tell)


@WIDTHS
@pytest.mark.parametrize(("trained", "structured"), [(False, False), (True, True)])
def test_what_levels_leave_has_structure_only_if_more_was_done(width, trained, structured):
    base = drawn(width)
    rng = np.random.default_rng(5)
    sizes = 1 / np.sqrt(1 + np.arange(96))
    change = (rng.standard_normal((96, 96)) * sizes) @ rng.standard_normal((96, width))
    change *= 0.1 * np.linalg.norm(base) / np.linalg.norm(change)
    found = changed(quantised(base + change if trained else base), base, ("F16", "BF16"))
    assert found.what == "quantised"
    assert found.over_chance is not None
    assert (found.over_chance > 1.3) == structured


@WIDTHS
def test_a_small_change_of_a_model_on_levels_is_told_as_that(width):
    """Levels that were there before explain nothing: the change is far smaller than they are."""
    base = in_a_format(quantised(drawn(width)), "F32")
    rng = np.random.default_rng(6)
    change = rng.standard_normal((96, 2)) @ rng.standard_normal((2, width))
    found = changed(base + 0.0002 * change, base, ("F32", "F32"))
    assert (found.what, found.rank, found.lost_in) == ("low-rank", 2, None)


# -- the other way round

LOST = {
    "quantised-copy": lambda model: on_grid(model, bits=4, group=32, symmetric=True),
    "sparse-copy": lambda model: derive.prune_by_magnitude(model, fraction=0.5),
}


@pytest.mark.more
@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("name", ["base", pytest.param("gpt2-base", marks=pytest.mark.more)])
def test_the_side_that_lost_numbers_is_named_whichever_comes_first(kind, name):
    whole = zoo_model(name)
    coarse = LOST[kind](whole)
    one, other = compared(coarse, whole), compared(whole, coarse)
    assert (one.kind, other.kind) == (kind, kind)
    assert (one.direction.parent, other.direction.parent) == ("base", "candidate")
    assert (findings(one)[kind].numbers["side"], findings(other)[kind].numbers["side"]) == (
        "candidate",
        "base",
    )
    assert "the base is the" in str(findings(other)[kind].what)
    assert "기준 모델이" in load_language("ko").tell(findings(other)[kind].what)


@WIDTHS
@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32"])
def test_levels_of_either_side_are_found_at_any_width(width, dtype):
    base = drawn(width)
    coarse = quantised(base)
    for pair, side in (((coarse, base), "candidate"), ((base, coarse), "base")):
        dtypes = (dtype, "BF16") if side == "candidate" else ("BF16", dtype)
        found = changed(*pair, dtypes)
        assert (found.what, found.lost_in, found.bits, found.group) == ("quantised", side, 4, 32)


@pytest.mark.more
def test_an_original_is_not_supported_as_a_quantised_copy_of_its_copy():
    whole = zoo_model("base")
    card = b"---\nbase_model: org/coarse\nbase_model_relation: quantized\n---\n"
    found = mk.check_card(
        MemorySource({**whole.files("BF16"), "README.md": card}, name="candidate"),
        mk.CompareOptions(fetch=mk.FetchOptions(use_store=False)),
        known={"org/coarse": MemorySource(LOST["quantised-copy"](whole).files("BF16"), name="coarse")},
    )
    (claim,) = (item for item in found.claims if item.kind == "relation")
    assert (claim.status, claim.reason.code) == ("untestable", "check-other-way")


# -- formats with few exponents


@pytest.mark.more
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda model: on_grid(model, bits=4, group=32, symmetric=True), "quantised-copy"),
        (lambda model: on_grid(model, bits=5, group=0, symmetric=False), "quantised-copy"),
        (lambda model: derive.add_noise(model, size=0.03, rng=np.random.default_rng(1)), "noise"),
        (
            lambda model: derive.merge_low_rank(model, rank=2, size=0.1, rng=np.random.default_rng(2)),
            "low-rank",
        ),
        (lambda model: as_trained(model, size=0.02, seed=3), "fine-tune"),
        (lambda model: model, "precision-copy"),
    ],
    ids=["4 bits", "5 bits", "noise", "adapter", "trained", "copy"],
)
def test_tiny_numbers_that_f16_cannot_hold_are_no_change(change, kind):
    base = zoo_model("gpt2-base")
    tiny = {name: array.copy() for name, array in base.tensors.items()}
    for array in tiny.values():
        if array.ndim == 2:
            array[0, :2] = np.float32(2.0**-30)
    base = derive.cast(base.with_tensors(tiny), "BF16")
    assert compared(change(base), base, ("F16", "BF16")).kind == kind


@WIDTHS
def test_conversion_explains_no_more_than_the_finer_format_cannot_hold(width):
    base = drawn(width)
    base[0, :3] = 2.0**-30
    assert changed(base, base, ("F16", "BF16")).what == "rounded"
    moved = base * (1 + np.random.default_rng(2).choice([0, 2.0**-7], base.shape)).astype(np.float32)
    assert changed(in_a_format(moved, "BF16"), base, ("F16", "BF16")).what != "rounded"


# -- noise


@WIDTHS
@pytest.mark.parametrize(
    ("share", "moved", "what"), [(0.1, 0.0, "sparse"), (0.5, 0.02, "sparse"), (0.0, 0.02, "noise")]
)
def test_zeros_are_no_noise(width, share, moved, what):
    base = drawn(width)
    rng = np.random.default_rng(7)
    values = base * (1 + moved * rng.standard_normal(base.shape)) * (rng.random(base.shape) >= share)
    found = changed(values.astype(np.float32), base)
    assert found.what == what
    assert found.zeros == pytest.approx(share, abs=0.01)


@WIDTHS
@pytest.mark.parametrize(("share", "what"), [(0.3, "changed"), (1.0, "noise")])
def test_equal_numbers_beside_large_changes_are_no_noise(width, share, what):
    base = drawn(width)
    rng = np.random.default_rng(8)
    noise = 0.002 * rng.standard_normal(base.shape) * (rng.random(base.shape) < share)
    assert changed((base + noise).astype(np.float32), base).what == what


@WIDTHS
@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("size", [0.002, 0.03, 0.3])
@pytest.mark.parametrize("tails", ["normal", "laplace"])
def test_noise_of_any_size_and_format_is_noise(width, dtype, size, tails):
    base = drawn(width)
    noise = getattr(np.random.default_rng(9), tails)(size=base.shape)
    noise *= size * base.std() / noise.std()
    assert changed((base + noise).astype(np.float32), base, (dtype, "BF16")).what == "noise"


@pytest.mark.more
def test_zeros_with_other_changes_are_said_and_no_kind_is_named():
    base = zoo_model("base")
    rng = np.random.default_rng(10)
    thin = derive.prune_by_magnitude(base, fraction=0.5)
    moved = {
        name: (array * (1 + 0.02 * rng.standard_normal(array.shape))).astype(np.float32)
        if "proj" in name
        else array
        for name, array in thin.tensors.items()
    }
    relation = compared(thin.with_tensors(moved), base)
    assert relation.kind == "unknown"
    assert relation.direction.parent is None
    assert float(findings(relation)["zeros"].numbers["zeros"]) == pytest.approx(0.5, abs=0.01)


def test_a_pruned_fine_tune_is_a_fine_tune_with_zeros():
    tuned = derive.prune_by_magnitude(zoo_model("finetune-light"), fraction=0.5)
    relation = compared(tuned, zoo_model("base"))
    assert relation.kind == "fine-tune"
    assert {"zeros", "fine-tune"} <= set(findings(relation))


@WIDTHS
@pytest.mark.parametrize("dtype", ["BF16", "F32"])
@pytest.mark.parametrize("lines", [False, True])
def test_eight_bit_floats_with_a_scale_are_levels(width, dtype, lines):
    base = drawn(width)
    scale = np.abs(base).max(axis=1 if lines else None, keepdims=True) / 448
    coarse = in_a_format((base / scale).astype(np.float32), "F8_E4M3") * scale
    found = changed(coarse.astype(np.float32), base, (dtype, "BF16"))
    assert (found.what, found.bits, found.levels, found.lost_in) == ("quantised", 8, "float", "candidate")


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
def test_plain_numbers_are_no_eight_bit_floats(dtype):
    values = in_a_format(drawn(1024, seed=3), dtype)
    assert find_lattice(values, lambda some: stored_steps(some, dtype)) is None
