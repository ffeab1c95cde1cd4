"""What has no kind of its own is said all the same, and what could be two things is called neither."""

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
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.record import Relation
from modelkin.document.language import load_language
from modelkin.source import MemorySource

Floats = npt.NDArray[np.float32]
MATRICES = r"proj\.weight"


def compared(candidate: Checkpoint, base: Checkpoint) -> Relation:
    sources = [
        MemorySource(model.files("BF16"), name=name) for model, name in ((candidate, "c"), (base, "b"))
    ]
    return mk.compare(*sources, options=mk.CompareOptions(depth="standard")).relation


def kinds(relation: Relation) -> set[str]:
    return {item.kind for item in relation.findings}


def numbers(relation: Relation, kind: str) -> dict[str, float | int | str]:
    (found,) = [item for item in relation.findings if item.kind == kind]
    for language in ("en", "ko"):
        assert load_language(language).tell(found.what)
        assert load_language(language).tell(found.cannot_tell)
    return dict(found.numbers)


def levelled(values: Floats, bits: int, group: int, *, symmetric: bool) -> Floats:
    parts = values.reshape(len(values), -1, group)
    if symmetric:
        step = np.abs(parts).max(-1, keepdims=True) / (2 ** (bits - 1) - 1)
        made = np.round(parts / step) * step
    else:
        low = parts.min(-1, keepdims=True)
        step = (parts.max(-1, keepdims=True) - low) / (2**bits - 1)
        zero = np.round(-low / step)
        made = (np.clip(np.round(parts / step) + zero, 0, 2**bits - 1) - zero) * step
    return np.asarray(made.reshape(values.shape), np.float32)


def on_levels(model: Checkpoint, bits: int, group: int, *, symmetric: bool) -> Checkpoint:
    return model.with_tensors(
        {
            name: levelled(values, bits, group, symmetric=symmetric)
            for name, values in model.tensors.items()
            if re.search(MATRICES, name) and values.shape[1] % group == 0
        }
    )


@pytest.mark.parametrize(
    ("name", "symmetric"), every(2, [("base", False), ("qwen2-base", True), ("base", True)])
)
def test_levels_that_the_format_hides_in_some_matrices_are_levels(name, symmetric):
    base = zoo_model(name)
    made = on_levels(base, 8, 32, symmetric=symmetric)
    for pair in ((made, base), (base, made)):
        relation = compared(*pair)
        assert relation.kind == "quantised-copy"
        assert numbers(relation, "quantised-copy")["group"] == 32
        assert "noise" not in kinds(relation)


@pytest.mark.parametrize("name", every(2, ["base", "qwen2-base"]))
def test_levels_that_the_format_hides_everywhere_are_neither_noise_nor_levels(name):
    base = zoo_model(name)
    relation = compared(on_levels(base, 8, 16, symmetric=True), base)
    assert relation.kind == "unknown"
    assert float(numbers(relation, "noise-or-levels")["change_in_steps"]) < 1
    assert not kinds(relation) & {"noise", "on-levels", "quantised-copy"}


def test_the_format_hides_levels_in_wide_weights_too():
    """Zeros, which levels leave, have the smallest steps: they made all others look small beside them."""
    shape = LlamaShape(hidden=1024, mlp=1536, layers=2, heads=16, kv_heads=4, vocab=256)
    base = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=6), tokenizer=None)
    relation = compared(on_levels(base, 8, 16, symmetric=True), base)
    assert relation.kind == "unknown"
    assert float(numbers(relation, "noise-or-levels")["change_in_steps"]) > 0.5
    assert "noise" not in kinds(relation)


@pytest.mark.parametrize("size", [0.004, 0.01, 0.02])
def test_noise_of_another_size_than_levels_leave_is_noise_still(size):
    base = zoo_model("base")
    noisy = derive.add_noise(base, size=size, rng=np.random.default_rng(3))
    assert compared(noisy, base).kind == "noise"


def test_layers_that_write_nothing_are_named():
    base = zoo_model("base")
    empty = base.with_tensors(
        {
            name: np.zeros_like(values)
            for name, values in base.tensors.items()
            if re.search(r"\.2\..*(o_proj|down_proj)", name)
        }
    )
    for pair, side in (((empty, base), "candidate"), ((base, empty), "base")):
        found = numbers(compared(*pair), "zeroed")
        assert (found["tensors"], found["layers"], found["side"]) == (2, "2", side)


def test_two_of_four_is_told_of_a_fine_tune_and_of_levels():
    base = zoo_model("base")
    tuned = derive.prune_two_of_four(zoo_model("finetune-light"))
    levels = on_levels(derive.prune_two_of_four(base), 8, 32, symmetric=True)
    for model in (tuned, levels):
        for pair in ((model, base), (base, model)):
            relation = compared(*pair)
            (zeros,) = [item for item in relation.findings if item.kind == "zeros"]
            assert zeros.numbers["two_of_four"] == 1.0
            assert "2:4" in load_language("en").tell(zeros.what)
            assert "2:4" in load_language("ko").tell(zeros.what)


def test_zeros_without_a_pattern_are_not_called_two_of_four():
    base = zoo_model("base")
    tuned = derive.prune_by_magnitude(zoo_model("finetune-light"), fraction=0.5)
    (zeros,) = [item for item in compared(tuned, base).findings if item.kind == "zeros"]
    assert "2:4" not in load_language("en").tell(zeros.what)


def test_tables_that_were_trained_beside_an_adapter_are_named():
    base, tuned = zoo_model("base"), zoo_model("finetune-heavy")
    adapted = derive.merge_low_rank(base, rank=4, size=0.1, rng=np.random.default_rng(3))
    saved = adapted.with_tensors(
        {name: values for name, values in tuned.tensors.items() if re.search("embed|lm_head", name)}
    )
    relation = compared(saved, base)
    assert relation.kind == "low-rank"
    assert numbers(relation, "trained-beside")["modules"] == "embedding, output_head"
    assert "trained-beside" not in kinds(compared(adapted, base))


def test_one_matrix_that_changed_by_too_much_is_named():
    base, tuned = zoo_model("base"), zoo_model("finetune-heavy")
    name = "model.layers.3.self_attn.v_proj.weight"
    relation = compared(base.with_tensors({name: tuned.tensors[name]}), base)
    assert relation.kind == "unknown"
    assert numbers(relation, "changed")["tensors"] == 1
