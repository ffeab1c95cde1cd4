"""Adapters in a comparison, from end to end: really trained ones, on their base, on another, and alone."""

from __future__ import annotations

import ml_dtypes
import pytest
from tests.places import FORMATS, ZOO

import modelkin as mk
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say

ADAPTERS = FORMATS / "trained_adapters"


def compared(candidate: object, base: object) -> mk.Comparison:
    return mk.compare(candidate=str(candidate), base=str(base))


def test_an_adapter_on_its_base_is_a_low_rank_change_of_it():
    result = compared(f"{ADAPTERS / 'base-gamma'}::{ZOO / 'base'}", ZOO / "base")
    assert result.verdict.conclusion.value == "shared"
    assert result.relation.kind == "low-rank"
    assert result.relation.details["rank"] == 4
    assert result.relation.details["tensors_updated"] == 8
    assert result.relation.direction.parent == str(ZOO / "base")
    assert [flag.code for flag in result.flags] == ["adapter-put-on"]
    assert result.candidate.format == "safetensors+peft"
    assert "applied to" in str(result.candidate.notes[0])
    assert mk.Comparison.from_json(result.to_json()) == result


@pytest.mark.more
def test_on_a_stranger_it_is_that_stranger():
    applied = f"{ADAPTERS / 'base-gamma'}::{ZOO / 'twin-1'}"
    assert compared(applied, ZOO / "base").verdict.conclusion.value == "no-evidence"
    assert compared(applied, ZOO / "twin-1").verdict.conclusion.value == "shared"


def test_a_merged_copy_is_the_adapter_on_its_base_in_another_precision(tmp_path):
    ref = f"{ADAPTERS / 'base-gamma'}::{ZOO / 'base'}"
    with mk.open_model(ref) as model:
        tensors = {name: model.tensor(name).astype(ml_dtypes.bfloat16) for name in model.index}
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    (tmp_path / "config.json").write_bytes((ZOO / "base" / "config.json").read_bytes())
    result = compared(tmp_path, ref)
    assert result.verdict.conclusion.value == "shared"
    assert result.relation.kind == "precision-copy"


def test_an_adapter_on_its_base_is_identical_to_itself_only():
    refs = [f"{ADAPTERS / name}::{ZOO / 'base'}" for name in ("base-gamma", "base-beta")]
    assert compared(refs[0], refs[0]).verdict.conclusion.value == "identical"
    both = compared(*refs)
    assert both.verdict.conclusion.value == "shared"
    assert say("adapters-one-base") in both.flags


def test_adapters_alone_show_a_common_base():
    result = compared(ADAPTERS / "base-gamma", ADAPTERS / "base-beta")
    assert result.verdict.conclusion.value == "shared"
    assert (result.verdict.log10_p or 0.0) < -12
    assert set(result.verdict.components) >= {"mlp"}
    assert [flag.code for flag in result.flags] == ["adapter-bare", "adapter-bare"]


@pytest.mark.parametrize("name", ["base-gamma", "base-beta"])
def test_adapters_alone_show_nothing_of_a_twin(name):
    result = compared(ADAPTERS / name, ADAPTERS / "twin-gamma")
    assert result.verdict.conclusion.value == "no-evidence"


@pytest.mark.parametrize("base", ["base", "twin-1"])
def test_a_strongly_trained_small_adapter_alone_does_not_accuse(base):
    result = compared(ADAPTERS / "base-gamma", ZOO / base)
    assert result.verdict.conclusion.value == "no-evidence"
    assert [flag.code for flag in result.flags] == ["adapter-bare", "adapter-fits"]
    assert "it claims to be made for './base'" in str(result.flags[0])


def test_an_adapter_of_another_shape_is_told_apart_by_a_reason_not_by_a_verdict():
    result = compared(ADAPTERS / "base-gamma", ZOO / "narrow")
    assert result.verdict.conclusion.value == "not-testable"
    (flag,) = (flag for flag in result.flags if flag.code == "adapter-misfits")
    assert "the update is 160 x 96, the base has [128, 64]; 7 more do not fit" in str(flag)
