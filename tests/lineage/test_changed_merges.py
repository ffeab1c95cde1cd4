"""Merges that were quantised, reordered or changed since are told as far as that can be; others never are."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from tests.lineage.models import loaded, source

from modelkin import MergeResult, explain_merge
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.document import load_language
from modelkin.lineage.geometry import Floats
from modelkin.lineage.levels import level_errors, piece_of_lines
from modelkin.message import say

LIGHT, SIBLING, HEAVY = "finetune-light", "finetune-sibling", "finetune-heavy"
Array = npt.NDArray[np.floating]


def on_levels(array: Array, bits: int, group: int | None) -> Floats:
    lines = array.reshape(-1, group) if group else array
    step = np.abs(lines).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    step = np.where(step > 0, step, 1)
    return np.asarray((np.round(lines / step) * step).reshape(array.shape), np.float64)


def quantised(model: Checkpoint, bits: int, group: int | None = 32) -> Checkpoint:
    made = {
        name: on_levels(array, bits, group).astype(np.float32)
        for name, array in model.tensors.items()
        if re.search("proj", name)
    }
    return model.with_tensors({**model.tensors, **made})


def noisy(model: Checkpoint, size: float, seed: int = 1) -> Checkpoint:
    return derive.add_noise(model, size=size, rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def mixed() -> Checkpoint:
    return derive.merge_linear([loaded(LIGHT), loaded(SIBLING)], [0.3, 0.7])


def explained(made: Checkpoint, *parents: str | Checkpoint, base: str | None = None) -> MergeResult:
    return explain_merge(
        source(made, "made"),
        [source(one, "" if isinstance(one, str) else f"parent-{n}") for n, one in enumerate(parents)],
        base=None if base is None else source(base),
    )


@pytest.mark.parametrize("base", [None, "base"])
@pytest.mark.parametrize(("bits", "group"), [(6, 32), (5, 32), (4, 32), (4, None)])
def test_a_merge_on_levels_is_one_with_its_weights(mixed, bits, group, base):
    found = explained(quantised(mixed, bits, group), LIGHT, SIBLING, base=base)
    assert found.conclusion == "merge"
    np.testing.assert_allclose([share.value for share in found.weights[:2]], [0.3, 0.7], atol=0.01)
    assert found.to_rounding is not None
    assert found.to_rounding > 0.8


@pytest.mark.parametrize("children", [2, 5])
@pytest.mark.parametrize("size", [0.01, 0.03, 0.06, 0.1])
@pytest.mark.parametrize("levels_first", [True, False])
def test_an_ancestor_on_levels_is_no_merge_of_its_children(children, size, levels_first):
    """Whether they were made from the levels, or from what was rounded to them later."""
    base = loaded("base")
    coarse = quantised(base, 4)
    made = [noisy(coarse if levels_first else base, size, seed) for seed in range(children)]
    assert explained(coarse, *made).conclusion != "merge"


@pytest.mark.parametrize(
    ("name", "conclusion"),
    [("base", "not-a-merge"), (LIGHT, "single-parent"), (HEAVY, "not-a-merge"), ("twin-1", "not-a-merge")],
)
def test_other_models_on_levels_are_no_merges(name, conclusion):
    base = None if name == "base" else "base"
    assert explained(quantised(loaded(name), 4), LIGHT, SIBLING, base=base).conclusion == conclusion


@pytest.mark.parametrize("wrong", [("twin-1", "twin-2"), (HEAVY, "twin-1")])
def test_a_merge_on_levels_is_none_of_other_models(mixed, wrong):
    assert explained(quantised(mixed, 4), *wrong).conclusion == "not-a-merge"


@pytest.mark.parametrize("size", [0.05, 0.1])
def test_a_merge_under_noise_is_left_open_where_a_base_shows_it(mixed, size):
    found = explained(noisy(mixed, size), LIGHT, SIBLING, base="base")
    assert found.conclusion == "undetermined"
    assert found.summary.code == "merge-changed-since"


def test_levels_too_coarse_to_account_for_leave_a_merge_open(mixed):
    assert explained(quantised(mixed, 3), LIGHT, SIBLING, base="base").conclusion == "undetermined"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (derive.permute_mlp_units, "units"),
        (derive.permute_heads, "heads"),
        (derive.permute_residual, "residual"),
        (derive.flip_residual_signs, "residual"),
    ],
)
def test_a_merge_in_another_order_is_left_open_and_the_order_is_named(mixed, change, part):
    found = explained(change(mixed, rng=np.random.default_rng(1)), LIGHT, SIBLING, base="base")
    assert found.conclusion == "undetermined"
    assert found.summary.code == "merge-reordered"
    assert found.summary["parts"] == (say(f"merge-space-{part}"),)
    for language in ("en", "ko"):
        assert load_language(language).tell(found.summary)


@pytest.mark.parametrize("name", ["base", "grandchild", HEAVY, "lora", "new-attention", "twin-1"])
def test_relatives_and_strangers_are_not_left_open(name):
    """What they learned besides is uneven, or the base has a share in it."""
    found = explained(loaded(name), LIGHT, SIBLING, base="base" if name != "base" else "twin-1")
    assert found.conclusion in ("not-a-merge", "single-parent")


@pytest.mark.parametrize("name", ["base", HEAVY, "twin-1", "same-initialisation", "new-attention"])
def test_what_kept_its_order_is_not_said_to_be_reordered(name):
    found = explained(loaded(name), LIGHT, SIBLING)
    assert found.summary.code != "merge-reordered"
    assert found.conclusion in ("not-a-merge", "single-parent")


def test_what_is_read_to_find_an_order_is_counted(mixed):
    made = derive.permute_mlp_units(mixed, rng=np.random.default_rng(1))
    plain, reordered = (explained(one, LIGHT, SIBLING).read for one in (mixed, made))
    assert reordered != plain


RNG = np.random.default_rng(3)
PLAIN = RNG.normal(size=(64, 256))
NO_STEPS = np.zeros(PLAIN.size)


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 128, None])
def test_errors_of_rounding_are_those_that_were_made(bits, group):
    stored = on_levels(PLAIN, bits, group)
    found = level_errors(stored.reshape(-1), PLAIN.reshape(-1), 256, NO_STEPS)
    assert found is not None
    assert found == pytest.approx(((stored - PLAIN) ** 2).sum(), rel=0.1)


def test_plain_numbers_and_larger_or_smaller_errors_are_no_rounding():
    stored = on_levels(PLAIN, 4, 32).reshape(-1)
    plain = PLAIN.reshape(-1)
    assert level_errors(plain, plain + 0.01, 256, NO_STEPS) is None
    assert level_errors(stored, stored + 0.1 * (plain - stored), 256, NO_STEPS) is None
    size = np.sqrt(np.mean((plain - stored) ** 2))
    normal = stored + RNG.normal(size=plain.size) * size
    assert level_errors(stored, normal, 256, NO_STEPS) is None


def test_lines_are_cut_where_blocks_begin():
    assert piece_of_lines((96, 256), 96 * 256, 2) == 256
    assert piece_of_lines((4096, 4096), 32_768, 2) == 4096
    assert piece_of_lines((4096, 11_008), 32_768, 2) == 256
