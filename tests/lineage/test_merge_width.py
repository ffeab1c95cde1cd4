"""What is said of merges at a width that users have, 1,536."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_tensors

from modelkin import MemorySource, MergeResult, explain_merge
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.message import say

SHAPE = LlamaShape(layers=2, hidden=1_536, mlp=512, heads=12, kv_heads=2, vocab=256, tied=True)


@cache
def drawn(seed: int = 0) -> Checkpoint:
    return Checkpoint(config=llama_config(SHAPE, dtype="BF16"), tensors=llama_tensors(SHAPE, seed=seed))


def changed(model: Checkpoint, seed: int, size: float = 0.06, only: str = "") -> Checkpoint:
    """Return a model whose matrices moved by a share of their size."""
    rng = np.random.default_rng(seed)
    made = {
        name: values + np.float32(0.02 * size) * rng.standard_normal(values.shape, dtype=np.float32)
        for name, values in model.tensors.items()
        if only in name
    }
    return model.with_tensors(made)


@cache
def children() -> tuple[Checkpoint, Checkpoint]:
    return changed(drawn(), 1), changed(drawn(), 2)


@cache
def merged(method: str) -> Checkpoint:
    first, second = children()
    rng = np.random.default_rng(4)
    match method:
        case "linear":
            return derive.merge_linear([first, second], [0.3, 0.7])
        case "dare":
            return derive.merge_dare(drawn(), [(first, 0.6), (second, 0.4)], dropped=0.5, rng=rng)
        case _:
            return derive.merge_ties(drawn(), [first, second], kept=0.4)


def explained(made: Checkpoint, *parents: Checkpoint, base: Checkpoint | None = None) -> MergeResult:
    return explain_merge(
        MemorySource(made.files(), name="made"),
        [MemorySource(one.files(), name=f"parent-{n}") for n, one in enumerate(parents)],
        base=None if base is None else MemorySource(base.files(), name="base"),
    )


ORDERS = {
    "units": derive.permute_mlp_units,
    "heads": derive.permute_heads,
    "residual": derive.permute_residual,
}


def assert_left_open(found: MergeResult, part: str) -> None:
    assert (found.conclusion, found.method, found.recipe) == ("undetermined", None, None)
    assert found.summary == say("merge-reordered", parts=(say(f"merge-space-{part}"),))


@pytest.mark.parametrize("with_base", [True, False])
@pytest.mark.parametrize("part", ORDERS)
def test_a_merge_in_another_order_is_left_open_and_the_order_is_named(part, with_base):
    """Attention alone would be explained by dropped differences: small changes are lost in bfloat16."""
    made = ORDERS[part](merged("linear"), rng=np.random.default_rng(1))
    assert_left_open(explained(made, *children(), base=drawn() if with_base else None), part)


@pytest.mark.parametrize("method", ["dare", "ties"])
@pytest.mark.parametrize("part", ORDERS)
def test_chosen_differences_in_a_part_of_the_matrices_name_no_merge(method, part):
    made = ORDERS[part](merged(method), rng=np.random.default_rng(1))
    assert_left_open(explained(made, *children(), base=drawn()), part)


@pytest.mark.parametrize("method", ["linear", "dare", "ties"])
def test_what_kept_its_order_is_still_a_merge(method):
    assert explained(merged(method), *children(), base=drawn()).conclusion == "merge"


@pytest.mark.parametrize("part", ["units", "heads"])
def test_an_order_is_found_in_whichever_layer_it_is(part):
    moved = ORDERS[part](merged("linear"), rng=np.random.default_rng(1))
    last = {name: values for name, values in moved.tensors.items() if ".layers.1." in name}
    assert_left_open(explained(merged("linear").with_tensors(last), *children()), part)


@pytest.mark.parametrize("alike", [1, 2])
def test_units_that_a_parent_or_both_never_changed_may_be_in_another_order_too(alike):
    """Where parents equal the base there are no differences to choose, and where all do no weights."""
    first, second = children()
    second = changed(drawn(), 2, only="self_attn")
    first = changed(drawn(), 1, only="self_attn") if alike == 2 else first
    made = derive.merge_linear([first, second], [0.3, 0.7])
    assert explained(made, first, second, base=drawn()).conclusion == "merge"
    made = derive.permute_mlp_units(made, rng=np.random.default_rng(1))
    found = explained(made, first, second, base=drawn())
    assert_left_open(found, "units")
    reasons = {cell.reason.code for cell in found.cells if cell.reason is not None}
    assert ("merge-parents-equal-apart" in reasons) == (alike == 2)


def on_levels(model: Checkpoint, group: int) -> Checkpoint:
    """Return a model whose projections lie on the levels of 4 bits."""

    def rounded(array: np.ndarray) -> np.ndarray:
        lines = array.reshape(-1, group)
        step = np.abs(lines).max(axis=1, keepdims=True) / 7
        return np.asarray((np.round(lines / step) * step).reshape(array.shape), np.float32)

    made = {name: rounded(array) for name, array in model.tensors.items() if "proj" in name}
    return model.with_tensors(made)


@pytest.mark.parametrize("group", [32, 512])
def test_levels_coarser_than_what_parents_differ_by_leave_a_merge_open(group):
    found = explained(on_levels(merged("linear"), group), *children())
    assert (found.conclusion, found.summary.code) == ("undetermined", "merge-coarse")
    assert found.to_rounding is not None
    assert found.to_rounding > 0.9
    with_base = explained(on_levels(merged("linear"), group), *children(), base=drawn())
    assert (with_base.conclusion, with_base.summary.code) == ("undetermined", "merge-changed-since")


@pytest.mark.parametrize("bits", [None, 32])
def test_strangers_wrong_parents_and_ancestors_are_no_merges(bits):
    def stored(model: Checkpoint) -> Checkpoint:
        return model if bits is None else on_levels(model, bits)

    first, second = children()
    third, grandchild = changed(drawn(), 3), changed(first, 5)
    assert explained(stored(drawn(7)), first, second, base=drawn()).conclusion == "not-a-merge"
    # A sibling of both parents is nearer than any mixture of it and a stranger.
    wrong = explained(stored(merged("linear")), third, drawn(7)).conclusion
    assert wrong in ("not-a-merge", "single-parent")
    assert explained(stored(grandchild), second, third, base=drawn()).conclusion == "not-a-merge"
    for parents in ((first, second), (first, second, third), (grandchild, second)):
        assert explained(stored(drawn()), *parents).conclusion == "not-a-merge"
