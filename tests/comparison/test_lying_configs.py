"""A config that names a wrong size hides no copy: what the weights show is found all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from tests.comparison.disguises import disguised
from tests.places import ZOO
from tests.support.amount import every, marked

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


def both_ways(
    candidate: Checkpoint, base: Checkpoint, depth: Literal["standard", "deep"], *, turned: bool
) -> mk.Comparison:
    files = [
        MemorySource(model.files("BF16"), name=f"model-{at}") for at, model in enumerate((candidate, base))
    ]
    mine, theirs = files[::-1] if turned else files
    return mk.compare(mine, theirs, options=mk.CompareOptions(depth=depth))


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
    "key",
    marked(
        ["intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"],
        lambda key: key == "intermediate_size",
        more=bool,
    ),
)
def test_a_scrambled_copy_is_found_at_any_claimed_size(key, factor):
    model = disguised(MODELS["finetune-light"].load(), "rotation-and-gains", "units", "heads")
    found = compared(lying(model, key, factor), "base", "deep")
    assert found.verdict.conclusion.value == "shared-reparametrised"
    assert related(found) >= {"attention", "mlp"}


HEADS = {"qwen2": "num_attention_heads", "gpt2": "n_head", "bert": "num_attention_heads"}
"""Families in which no shape tells how many heads there are."""


@pytest.mark.more
@pytest.mark.parametrize("turned", marked([False, True], lambda turned: not turned, more=bool))
@pytest.mark.parametrize("factor", [0.5, 2])
@pytest.mark.parametrize("family", every(3, HEADS))
def test_a_wrong_number_of_heads_that_no_shape_contradicts_hides_no_attention(family, factor, turned):
    models = lying(MODELS[f"{family}-tuned"].load(), HEADS[family], factor), MODELS[f"{family}-base"].load()
    found = both_ways(*models, "standard", turned=turned)
    truth = compared(MODELS[f"{family}-tuned"].load(), f"{family}-base", "standard")
    assert found.verdict.conclusion is truth.verdict.conclusion
    assert found.verdict.components["attention"].conclusion.value == "shared"
    (said,) = [flag for flag in found.flags if flag.code == "flag-heads"]
    assert said["sizes"] == (16,)
    assert not [flag for flag in truth.flags if flag.code == "flag-heads"]


@pytest.mark.more
@pytest.mark.parametrize("turned", [False, True])
def test_heads_of_either_config_are_tried_if_none_are_parts_of_the_others(turned):
    models = lying(MODELS["gpt2-tuned"].load(), "n_head", 2 / 3), MODELS["gpt2-base"].load()
    found = both_ways(*models, "standard", turned=turned)
    (said,) = [flag for flag in found.flags if flag.code == "flag-heads"]
    assert said["sizes"] in ((16, 24), (24, 16))
    tests = [test for test in found.evidence if test.method == "value-dimensions"]
    assert len(tests) == 2 * len({(test.role, test.layers) for test in tests})
    assert found.verdict.components["attention"].conclusion.value == "shared"


@pytest.mark.more
@pytest.mark.parametrize("turned", marked([False, True], lambda turned: not turned, more=bool))
@pytest.mark.parametrize("factor", [0.5, 2])
@pytest.mark.parametrize("family", marked(HEADS, lambda family: family == "gpt2", more=bool))
def test_reordered_heads_are_found_whatever_number_a_config_names(family, factor, turned):
    model = disguised(MODELS[f"{family}-tuned"].load(), "heads")
    models = lying(model, HEADS[family], factor), MODELS[f"{family}-base"].load()
    found = both_ways(*models, "deep", turned=turned)
    assert found.verdict.components["attention"].conclusion.value == "shared-reparametrised"


@pytest.mark.more
@pytest.mark.parametrize("turned", marked([False, True], lambda turned: not turned, more=bool))
@pytest.mark.parametrize("factor", [0.5, 2])
def test_heads_of_a_scrambled_copy_are_found_whatever_number_a_config_names(factor, turned):
    model = disguised(MODELS["qwen2-tuned"].load(), "rotation-and-gains", "units", "heads")
    models = lying(model, "num_attention_heads", factor), MODELS["qwen2-base"].load()
    found = both_ways(*models, "deep", turned=turned)
    assert related(found) >= {"attention", "mlp"}


@pytest.mark.parametrize("depth", marked(["standard", "deep"], lambda depth: depth == "standard", more=bool))
@pytest.mark.parametrize("factor", [0.5, 2, 2 / 3])
@pytest.mark.parametrize("family", every(3, HEADS))
def test_a_wrong_number_of_heads_accuses_no_stranger(family, factor, depth):
    liar = lying(MODELS[f"{family}-twin"].load(), HEADS[family], factor)
    found = compared(liar, f"{family}-base", depth)
    assert found.verdict.conclusion.value == "no-evidence"


@pytest.mark.parametrize("key", ["intermediate_size", "head_dim"])
def test_a_wrong_size_accuses_no_stranger(key):
    found = compared(lying(MODELS["twin-1"].load(), key, 0.5), "base", "deep")
    assert found.verdict.conclusion.value == "no-evidence"


@pytest.mark.parametrize("turned", [False, True])
def test_a_config_that_names_no_heads_contradicts_nobody(turned):
    model = MODELS["bert-tuned"].load()
    silent = replace(model, config={key: model.config[key] for key in model.config if key != HEADS["bert"]})
    found = both_ways(silent, MODELS["bert-base"].load(), "standard", turned=turned)
    assert "flag-heads" not in {flag.code for flag in found.flags}
