"""Weights of three levels, zero and one on either side: whose copy they are, and whose they are not."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from tests.comparison.disguises import zoo_model
from tests.support import LlamaShape, llama_config, llama_tensors
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.record import Relation
from modelkin.comparison.relation.lattice import find_lattice
from modelkin.comparison.relation.steps import stored_steps
from modelkin.document.language import load_language
from modelkin.source import MemorySource

Floats = npt.NDArray[np.float32]


def compared(candidate: Checkpoint, base: Checkpoint) -> Relation:
    sources = [
        MemorySource(model.files("BF16"), name=name) for model, name in ((candidate, "c"), (base, "b"))
    ]
    return mk.compare(*sources, options=mk.CompareOptions(depth="standard")).relation


def made(change: Callable[[Floats], Floats], model: Checkpoint) -> Checkpoint:
    return model.with_tensors(
        {name: change(values) for name, values in model.tensors.items() if re.search(r"proj\.weight", name)}
    )


def by_mean(values: Floats, axis: int | None = None) -> Floats:
    """One scale, the mean of all sizes, as BitNet has it; larger numbers are cut off."""
    scale = np.abs(values).mean(axis=axis, keepdims=True)
    return np.asarray(np.clip(np.round(values / scale), -1, 1) * scale, np.float32)


def by_line(values: Floats) -> Floats:
    return by_mean(values, axis=1)


def by_border(values: Floats) -> Floats:
    """Zero up to a border and the mean of the others beyond it, in each line, as another rule has it."""
    sizes = np.abs(values)
    beyond = sizes > 0.7 * sizes.mean(axis=1, keepdims=True)
    scale = (sizes * beyond).sum(axis=1, keepdims=True) / beyond.sum(axis=1, keepdims=True)
    return np.asarray(np.sign(values) * beyond * scale, np.float32)


def in_groups(values: Floats) -> Floats:
    """Two bits of a symmetric quantiser: the largest of 32 is the only level but zero."""
    parts = values.reshape(len(values), -1, 32)
    scale = np.abs(parts).max(axis=2, keepdims=True)
    return np.asarray((np.round(parts / scale) * scale).reshape(values.shape), np.float32)


@pytest.mark.parametrize("name", every(1, ["base", "qwen2-base"]))
@pytest.mark.parametrize(
    ("change", "group"), [(by_mean, 96), (by_line, 96), (by_border, 96), (in_groups, 32)]
)
def test_three_levels_are_a_quantised_copy_whichever_is_named_first(name, change, group):
    base = zoo_model(name)
    coarse = made(change, base)
    for pair, side, parent in (((coarse, base), "candidate", "b"), ((base, coarse), "base", "c")):
        relation = compared(*pair)
        assert relation.kind == "quantised-copy"
        assert relation.direction.parent is not None
        assert parent in str(relation.direction.parent)
        (found,) = [item for item in relation.findings if item.kind == "quantised-copy"]
        numbers = dict(found.numbers)
        assert (numbers["levels"], numbers["bits"], numbers["side"]) == ("ternary", 2, side)
        assert numbers["group"] == group
        assert "three levels" in load_language("en").tell(found.what)
        assert "세 눈금" in load_language("ko").tell(found.what)
        assert not {item.kind for item in relation.findings} & {"zeros", "fine-tune", "levels-made-up"}


@pytest.mark.parametrize("change", [by_mean, in_groups])
def test_three_levels_in_wide_weights_are_a_quantised_copy(change):
    shape = LlamaShape(hidden=1024, mlp=1536, layers=2, heads=16, kv_heads=4, vocab=256)
    base = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=6), tokenizer=None)
    coarse = made(change, base)
    assert compared(coarse, base).kind == compared(base, coarse).kind == "quantised-copy"


@pytest.mark.parametrize("change", [by_mean, in_groups])
@pytest.mark.parametrize("child", every(1, ["finetune-light", "finetune-heavy"]))
def test_three_levels_of_a_fine_tune_have_no_kind_and_no_parent(child, change):
    base, coarse = zoo_model("base"), made(change, zoo_model(child))
    for pair in ((coarse, base), (base, coarse)):
        relation = compared(*pair)
        assert (relation.kind, relation.direction.parent) == ("unknown", None)
        assert {"on-levels", "changed"} <= {item.kind for item in relation.findings}


def test_a_model_trained_on_from_three_levels_is_no_parent_of_them():
    coarse = made(by_mean, zoo_model("base"))
    rng = np.random.default_rng(4)

    def trained(values: Floats) -> Floats:
        rows, columns = rng.normal(size=(len(values), 40)), rng.normal(size=(40, values.shape[1]))
        step = 0.02 * values.std() / np.sqrt(40)
        return np.asarray(values + step * (rows / np.sqrt(1 + np.arange(40))) @ columns, np.float32)

    for pair in ((made(trained, coarse), coarse), (coarse, made(trained, coarse))):
        relation = compared(*pair)
        assert relation.kind == "fine-tune"
        assert relation.direction.parent is None


def test_of_two_models_on_three_levels_neither_is_the_other_one_rounded():
    """Most of what changed became zero: any of the numbers of one size may be the smallest."""
    first, rng = made(by_mean, zoo_model("base")), np.random.default_rng(4)

    def moved(values: Floats) -> Floats:
        drawn = rng.random(values.shape)
        kept = np.where(drawn > 0.03, values, 0)
        return np.asarray(np.where((values == 0) & (drawn > 0.99), np.abs(values).max(), kept), np.float32)

    second = made(moved, first)
    for pair in ((first, second), (second, first)):
        relation = compared(*pair)
        assert relation.kind != "quantised-copy"
        assert relation.direction.parent is None


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_two_scales_in_a_line_are_no_more_levels(dtype):
    values = np.random.default_rng(1).normal(size=(64, 1024)).astype(np.float32)
    found = find_lattice(in_groups(values), lambda some: stored_steps(some, dtype))
    assert found is not None
    assert (found.bits, found.group, found.levels) == (2, 32, "ternary")
