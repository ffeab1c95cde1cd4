"""A config that names a wrong size hides no copy: what the weights show is found all the same."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.comparison.disguises import disguised
from tests.places import ZOO
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

MODELS = load_zoo(ZOO)


def compared(candidate: Checkpoint, base: str, depth: Literal["standard", "deep"]) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(MODELS[base].load().files("BF16"), name=base),
        options=mk.CompareOptions(depth=depth),
    )


def lying(model: Checkpoint, key: str, factor: float) -> Checkpoint:
    size = model.config[key]
    assert isinstance(size, int)
    return model.with_tensors({}, **{key: int(factor * size)})


def related(comparison: mk.Comparison) -> set[str]:
    return {name for name, item in comparison.verdict.components.items() if item.conclusion.related}


@pytest.mark.parametrize("factor", [0.5, 2])
def test_kept_mlps_are_found_at_any_claimed_width(factor):
    candidate = lying(MODELS["mlps-only"].load(), "intermediate_size", factor)
    found = compared(candidate, "deep-1", "standard")
    assert found.verdict.conclusion.value == "shared-partial"
    assert related(found) >= {"mlp"}
    assert any("'intermediate_size'" in str(text) for text in found.candidate.skipped)


@pytest.mark.parametrize("factor", marked([0.5, 2], lambda factor: factor == 0.5, more=bool))
@pytest.mark.parametrize(
    "key", ["intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"]
)
def test_a_scrambled_copy_is_found_at_any_claimed_size(key, factor):
    model = disguised(MODELS["finetune-light"].load(), "rotation-and-gains", "units", "heads")
    found = compared(lying(model, key, factor), "base", "deep")
    assert found.verdict.conclusion.value == "shared-reparametrised"
    assert related(found) >= {"attention", "mlp"}


@pytest.mark.parametrize("key", ["intermediate_size", "head_dim"])
def test_a_wrong_size_accuses_no_stranger(key):
    found = compared(lying(MODELS["twin-1"].load(), key, 0.5), "base", "deep")
    assert found.verdict.conclusion.value == "no-evidence"
