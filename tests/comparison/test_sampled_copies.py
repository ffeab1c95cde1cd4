"""Samples that are equal make no copy of a model whose other values are known, or not known, to differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.document import diff_view, load_language, render_markdown
from modelkin.lineage.cards import CardCheck
from modelkin.options import Depth
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=16, hidden=64, mlp=96, heads=4, kv_heads=2, vocab=256)
DEPTHS: tuple[Depth, ...] = ("standard", "full")
HERE = mk.FetchOptions(use_store=False)


@pytest.fixture(scope="module")
def base() -> Checkpoint:
    return Checkpoint(config=llama_config(SHAPE), tensors=llama_tensors(SHAPE, seed=1))


def trained(model: Checkpoint, layers: Sequence[int]) -> Checkpoint:
    """Train some layers only, in all directions and some more than others."""
    rng = np.random.default_rng(4)
    made = {}
    for name, array in model.tensors.items():
        if array.ndim == 2 and any(f".layers.{layer}." in name for layer in layers):
            sizes = 1 / np.sqrt(1 + np.arange(min(array.shape)))
            left = rng.standard_normal((array.shape[0], len(sizes))) * sizes
            change = left @ rng.standard_normal((len(sizes), array.shape[1]))
            change *= 0.1 * np.linalg.norm(array) / np.linalg.norm(change)
            made[name] = (array + change).astype(np.float32)
    return model.with_tensors({**model.tensors, **made})


def source(model: Checkpoint, name: str) -> MemorySource:
    return MemorySource(model.files("BF16"), name=name)


def subtracted(candidate: Checkpoint, base: Checkpoint, depth: Depth) -> mk.ModelDiff:
    return mk.diff(
        candidate=source(candidate, "candidate"),
        base=source(base, "base"),
        options=mk.CompareOptions(depth=depth, fetch=HERE),
    )


@pytest.mark.more
@pytest.mark.parametrize("depth", DEPTHS)
def test_one_trained_layer_of_sixteen_makes_a_fine_tune(base, depth):
    found = subtracted(trained(base, [5]), base, depth)
    assert found.relation.kind == "fine-tune"
    assert {item.layer for item in found.tensors if item.what == "trained"} == {5}
    assert found.relation.details["layers"] == 16


@pytest.mark.more
def test_counted_layers_that_changed_are_examined_and_others_beside_them(base):
    found = subtracted(trained(base, range(2, 12)), base, "full")
    layers = {item.layer for item in found.tensors if item.layer is not None}
    assert len(layers & set(range(2, 12))) == 8
    assert len(layers) == 12


@pytest.mark.more
def test_the_change_of_single_tensors_is_in_the_table_of_every_value(base):
    found = subtracted(trained(base, [5]), base, "full")
    text = render_markdown(diff_view(found, load_language("en")))
    rows = [line for line in text.splitlines() if line.startswith("| attention | 64 |")]
    assert len(rows) == 1
    assert "0.00%-10" in rows[0]


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_differs_outside_of_the_samples_is_said_and_no_copy(depth):
    shape = replace(SHAPE, layers=2, vocab=1200)
    whole = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=1))
    name = "model.embed_tokens.weight"
    table = whole.tensors[name].copy()
    table[-3:] *= 2  # rows of tokens are read from the beginning
    found = subtracted(whole.with_tensors({**whole.tensors, name: table}), whole, depth)
    assert found.relation.kind == "unknown"
    (told,) = found.relation.findings
    assert told.kind == "differs-elsewhere"
    assert told.numbers["tensor"] == name
    assert name in load_language("ko").tell(told.what)


def test_layers_and_tokens_that_moved_do_not_differ_elsewhere():
    base = zoo_model("base")
    swapped = derive.reorder_layers(base, [0, 2, 1, 3])
    renumbered = derive.reorder_vocabulary(base, rng=np.random.default_rng(3))
    for changed, kind in ((swapped, "depth-change"), (renumbered, "vocabulary-change")):
        found = subtracted(changed, base, "full").relation
        assert found.kind == kind
        assert "copy" in {item.kind for item in found.findings}
        assert "differs-elsewhere" not in {item.kind for item in found.findings}


def test_what_differs_outside_of_the_samples_is_said_of_moved_layers_too():
    shape = replace(SHAPE, layers=4, vocab=1200)
    whole = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=1))
    name = "model.embed_tokens.weight"
    table = whole.tensors[name].copy()
    table[-3:] *= 2
    changed = derive.reorder_layers(whole.with_tensors({name: table}), [0, 2, 1, 3])
    found = {item.kind: item for item in subtracted(changed, whole, "full").relation.findings}
    assert found["differs-elsewhere"].numbers["tensor"] == name
    assert "copy" not in found


CARD = "---\nbase_model: org/base\nbase_model_relation: finetune\n---\n"


def checked(candidate: Checkpoint, base: Checkpoint) -> CardCheck:
    files = {**candidate.files("BF16"), "README.md": CARD.encode()}
    return mk.check_card(
        MemorySource(files, name="candidate"),
        mk.CompareOptions(fetch=HERE),
        known={"org/base": source(base, "base")},
    )


def test_a_copy_by_samples_does_not_contradict_the_card_of_a_fine_tune(base, monkeypatch):
    monkeypatch.setattr(MemorySource, "remote", True)  # what is far away is not walked over
    found = {item.kind: item for item in checked(trained(base, [5]), base).claims}
    assert found["relation"].relation == "copy"
    assert found["relation"].status == "untestable"
    assert found["relation"].reason.code == "check-copy-sampled"


def test_a_fine_tune_of_one_layer_is_supported_where_it_was_walked_over(base):
    found = {item.kind: item.status for item in checked(trained(base, [5]), base).claims}
    assert found["relation"] == "supported"


def test_a_copy_that_was_walked_over_contradicts_the_card_of_a_fine_tune(base):
    files = {**base.files("F32"), "README.md": CARD.encode()}
    found = mk.check_card(
        MemorySource(files, name="candidate"),
        mk.CompareOptions(fetch=HERE),
        known={"org/base": source(base, "base")},
    )
    (relation,) = (item for item in found.claims if item.kind == "relation")
    assert (relation.relation, relation.status) == ("precision-copy", "contradicted")
