"""Factors that were undone make a copy only where other tensors take them back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from tests.comparison.disguises import DISGUISES, zoo_model
from tests.comparison.expectations import DEEP
from tests.support import LlamaShape, llama_config, llama_tensors
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.relation.scales import factors_of
from modelkin.source import MemorySource

Dtype = Literal["F32", "BF16", "F16"]
Change = Callable[[Checkpoint], Checkpoint]


def compared(
    candidate: Checkpoint, base: Checkpoint, dtype: Dtype = "F32", *, deep: bool = False
) -> mk.Comparison:
    sources = [MemorySource(model.files(dtype), name=name) for model, name in ((candidate, "c"), (base, "b"))]
    return mk.compare(*sources, options=DEEP if deep else mk.CompareOptions(depth="standard"))


def multiplied(pattern: str, factor: float) -> Change:
    def changed(model: Checkpoint) -> Checkpoint:
        return model.with_tensors(
            {
                name: np.asarray(values * factor, np.float32)
                for name, values in model.tensors.items()
                if re.search(pattern, name)
            }
        )

    return changed


def with_factors_of_units(pattern: str) -> Change:
    def changed(model: Checkpoint) -> Checkpoint:
        rng = np.random.default_rng(7)
        return model.with_tensors(
            {
                name: np.asarray(values * np.exp(0.5 * rng.normal(size=(len(values), 1))), np.float32)
                for name, values in model.tensors.items()
                if re.search(pattern, name)
            }
        )

    return changed


def with_larger_gains_and_readers(model: Checkpoint) -> Checkpoint:
    return multiplied(r"(input_layernorm|[qkv]_proj)\.weight", 1.5)(model)


OTHER_FUNCTION: dict[str, Change] = {
    "queries with the other sign": multiplied("q_proj", -1.0),
    "gates times 1.5": multiplied("gate_proj", 1.5),
    "what a layer writes halved": multiplied(r"\.2\..*(o_proj|down_proj)", 0.5),
    "a factor for each gate": with_factors_of_units("gate_proj"),
    "keys, values and units scaled, as (IA)^3 does": with_factors_of_units("k_proj|v_proj|up_proj"),
    "gains and readers both larger": with_larger_gains_and_readers,
    "an output head twice as large": multiplied("lm_head", 2.0),
}


@pytest.mark.parametrize(
    ("name", "dtype"), every(3, [(a, b) for a in OTHER_FUNCTION for b in ("F32", "BF16")])
)
def test_factors_that_nothing_takes_back_make_no_copy(name, dtype):
    base = zoo_model("base")
    changed = OTHER_FUNCTION[name](base)
    for pair in ((changed, base), (base, changed)):
        found = compared(*pair, dtype)
        assert found.verdict.related
        assert found.relation.kind == "unknown"
        assert "scaled" in {item.kind for item in found.relation.findings}
        assert "copy" not in {item.kind for item in found.relation.findings}
        assert not found.verdict.headline.code.startswith("headline.same")


@pytest.mark.parametrize(
    ("name", "disguise"),
    every(
        6,
        [
            (name, disguise)
            for name in ("base", "qwen2-base", "moe-base", "gpt2-base", "gemma-base")
            for disguise in ("folded-gains", "inserted-gains", "residual-scale", "unit-scales", "head-scales")
            if zoo_model(name).family in DISGUISES[disguise].families
            and (name, disguise) != ("gemma-base", "unit-scales")  # whose factors are not found
        ],
    ),
)
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_factors_that_are_taken_back_make_a_copy(name, disguise, dtype):
    base = zoo_model(name)
    hidden = DISGUISES[disguise].change(base, np.random.default_rng(3))
    found = compared(hidden, base, dtype).relation
    assert found.kind == "copy"
    assert "rescaled" in {item.kind for item in found.findings}
    assert "scaled" not in {item.kind for item in found.findings}


@pytest.mark.parametrize("pattern", ["q_proj", "gate_proj"])
def test_a_factor_is_found_beneath_a_new_order(pattern):
    base = zoo_model("base")
    moved = derive.permute_heads(
        derive.permute_mlp_units(base, rng=np.random.default_rng(1)), rng=np.random.default_rng(1)
    )
    assert compared(moved, base, deep=True).relation.kind == "copy"
    found = compared(multiplied(pattern, -1.0)(moved), base, deep=True).relation
    assert found.kind == "unknown"
    assert "scaled" in {item.kind for item in found.findings}


def wide() -> Checkpoint:
    """A model of which rows are sampled: those of one matrix are not those of the next."""
    shape = LlamaShape(hidden=1024, mlp=1536, layers=2, heads=16, kv_heads=4, vocab=256)
    return Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=3), tokenizer=None)


def test_only_rows_that_were_read_of_both_partners_are_held_against_each_other():
    base = wide()
    rng = np.random.default_rng(5)
    hidden = derive.scale_heads(derive.scale_mlp_units(base, rng=rng), rng=rng)
    assert compared(hidden, base, "BF16").relation.kind == "copy"
    broken = multiplied(r"down_proj", 1.25)(hidden)
    found = compared(broken, base, "BF16").relation
    assert found.kind == "unknown"
    assert "scaled" in {item.kind for item in found.findings}


def test_rows_of_zeros_have_no_factor():
    rng = np.random.default_rng(2)
    base = np.asarray(rng.normal(size=(20, 30)), np.float32)
    base[3] = 0
    rows, columns = factors_of(np.asarray(base * 1.5, np.float32), base)
    assert np.isnan(rows[3])
    assert np.allclose((rows[:, None] * columns)[np.arange(20) != 3], 1.5)
