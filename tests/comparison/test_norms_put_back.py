"""An edit that removes a direction and puts the norms of rows or columns back is told as one without them."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pytest
from tests.comparison.disguises import zoo_model
from tests.support import LlamaShape, llama_config, llama_tensors
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs
from modelkin.comparison.record import Relation
from modelkin.comparison.relation.directed import beside_a_direction
from modelkin.source import MemorySource

Floats = npt.NDArray[np.float32]


def compared(candidate: Checkpoint, base: Checkpoint, dtype: StoredAs = "BF16") -> Relation:
    sources = [MemorySource(model.files(dtype), name=name) for model, name in ((candidate, "c"), (base, "b"))]
    return mk.compare(*sources, options=mk.CompareOptions(depth="standard")).relation


def kinds(relation: Relation) -> set[str]:
    return {item.kind for item in relation.findings}


def without_direction(model: Checkpoint, *, axis: int, one: bool = True) -> Checkpoint:
    """Remove one direction of the residual stream, or another one for each matrix, and put norms back."""
    rng = np.random.default_rng(1)
    width = len(model.tensors["model.norm.weight"])
    direction = rng.normal(size=width)

    def edited(values: Floats) -> Floats:
        along = direction if one else rng.normal(size=width)
        along = along / np.linalg.norm(along)
        left = values - np.outer(along, along @ values)
        norms = [np.linalg.norm(side, axis=axis, keepdims=True) for side in (values, left)]
        return np.asarray(left * norms[0] / norms[1], np.float32)

    return model.with_tensors(
        {
            name: edited(values)
            for name, values in model.tensors.items()
            if re.search("o_proj|down_proj", name)
        }
    )


@pytest.mark.parametrize(("axis", "dtype"), every(2, [(0, "BF16"), (1, "F32"), (0, "F32"), (1, "BF16")]))
def test_a_direction_is_found_though_norms_were_put_back(axis, dtype):
    base = zoo_model("base")
    model = without_direction(base, axis=axis)
    for pair in ((model, base), (base, model)):
        relation = compared(*pair, dtype)
        assert relation.kind == "low-rank"
        (found,) = [item for item in relation.findings if item.kind == "low-rank"]
        assert (found.numbers["lowest_rank"], found.numbers["highest_rank"]) == (1, 1)
        assert {"common-direction", "rescaled-first"} <= kinds(relation)


@pytest.mark.parametrize("axis", [0, 1])
def test_it_is_found_in_a_few_rows_of_wide_weights(axis):
    shape = LlamaShape(hidden=1024, mlp=1536, layers=2, heads=16, kv_heads=4, vocab=256)
    base = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=6), tokenizer=None)
    relation = compared(without_direction(base, axis=axis), base, "F32")
    assert relation.kind == "low-rank"
    assert {"common-direction", "rescaled-first"} <= kinds(relation)


def test_directions_that_differ_between_layers_are_not_common():
    base = zoo_model("base")
    relation = compared(without_direction(base, axis=0, one=False), base)
    assert relation.kind == "low-rank"
    assert "common-direction" not in kinds(relation)


@pytest.mark.parametrize("child", ["finetune-light", "finetune-heavy"])
def test_training_leaves_no_single_direction_below_factors(child):
    base, tuned = zoo_model("base"), zoo_model(child)
    for name, values in base.tensors.items():
        if re.search("proj", name):
            assert not list(beside_a_direction(tuned.tensors[name], values))


def test_an_adapter_keeps_its_rank():
    base = zoo_model("base")
    adapted = derive.merge_low_rank(base, rank=4, size=0.1, rng=np.random.default_rng(3))
    relation = compared(adapted, base)
    (found,) = [item for item in relation.findings if item.kind == "low-rank"]
    assert (found.numbers["rank"], found.numbers["lowest_rank"]) == (4, 4)
    assert not kinds(relation) & {"common-direction", "rescaled-first"}


def test_what_factors_leave_is_one_direction():
    rng = np.random.default_rng(2)
    base = rng.normal(size=(64, 500)).astype(np.float32)
    edited = (base + np.outer(rng.normal(size=64), 0.1 * rng.normal(size=500))) * (
        1 + 0.05 * rng.random((1, 500))
    )
    left, *_ = beside_a_direction(edited.astype(np.float32), base)
    values = np.linalg.svd(left, compute_uv=False)
    assert values[1] < 0.001 * values[0]
