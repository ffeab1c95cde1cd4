"""What became of a shape is said as far as it was looked for, and no further."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.relation import read_deltas
from modelkin.document import diff_view, load_language, render_markdown
from modelkin.message import say
from modelkin.options import Depth
from modelkin.source import MemorySource


def subtracted(candidate: Checkpoint, base: Checkpoint, depth: Depth = "standard") -> mk.ModelDiff:
    return mk.diff(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
        options=mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False)),
    )


def told(found: mk.ModelDiff) -> dict[str, str]:
    return {item.kind: str(item.what) for item in found.relation.findings}


def headline(found: mk.ModelDiff, code: str = "en") -> str:
    return render_markdown(diff_view(found, load_language(code)))


@pytest.mark.more
def test_repeated_layers_are_not_counted_where_they_were_not_looked_for():
    base = zoo_model("base")
    deeper = derive.reorder_layers(base, [0, 1, 2, 1, 2, 3])
    found = subtracted(deeper, base)
    assert found.relation.kind == "depth-change"
    assert told(found)["depth-change"].startswith("6 layers instead of 4; those of equal number")
    assert "layers_repeated" not in found.relation.findings[0].numbers
    assert told(found)["layers-unlike"].startswith("layer 3 is unlike the one of the same number")
    deep = subtracted(deeper, base, "deep").relation.findings[0]
    assert deep.numbers["layers_repeated"] == 2


def test_layers_that_may_be_elsewhere_are_not_said_to_be_replaced():
    base = zoo_model("base")
    swapped = derive.reorder_layers(base, [0, 2, 1, 3])
    found = subtracted(swapped, base)
    assert found.relation.kind == "unknown"
    assert "--depth deep" in told(found)["layers-unlike"]
    deep = subtracted(swapped, base, "deep")
    assert deep.relation.kind == "depth-change"
    assert deep.relation.findings[0].numbers["layers_moved"] == 2


def test_a_narrower_stream_is_not_said_to_be_rotated():
    base = zoo_model("base")
    narrow = derive.prune_residual(base, n_kept=72)
    sources = [MemorySource(model.files("BF16"), name="model") for model in (narrow, base)]
    with mk.open_model(sources[0]) as mine, mk.open_model(sources[1]) as theirs:
        pair = ModelPair(candidate=mine, base=theirs, options=mk.CompareOptions(depth="deep"))
        found = read_deltas(pair, (), say("tokenizer-missing"), residual="rotation", units="reordered")
    assert str(found.skipped).startswith("the residual stream has 72 dimensions instead of 96")


def grown(model: Checkpoint, *, n_new: int) -> Checkpoint:
    rng = np.random.default_rng(5)
    made = dict(model.tensors)
    for name, array in model.tensors.items():
        width = 96
        if "gate_proj" in name or "up_proj" in name:
            new = 0.05 * rng.standard_normal((n_new, width))
            made[name] = np.concatenate([array, new]).astype(np.float32)
        if "down_proj" in name:
            made[name] = np.concatenate([array, np.zeros((width, n_new))], axis=1).astype(np.float32)
    return replace(model, config={**model.config, "intermediate_size": 160 + n_new}, tensors=made)


def test_units_that_were_added_face_none():
    base = zoo_model("base")
    found = subtracted(grown(base, n_new=32), base)
    assert found.relation.kind == "width-change"
    assert set(told(found)) == {"width-change", "copy"}
    assert {item.what for item in found.tensors} == {"equal"}


@pytest.mark.more
def test_the_mean_of_two_heads_is_not_said_to_be_trained():
    base = zoo_model("base")
    made = dict(base.tensors)
    for name, array in base.tensors.items():
        if "k_proj" in name or "v_proj" in name:
            made[name] = array.reshape(2, 16, 96).mean(axis=0)
    config = {**base.config, "num_key_value_heads": 1}
    found = subtracted(replace(base, config=config, tensors=made), base)
    assert found.relation.kind == "width-change"
    assert "fine-tune" not in told(found)
    assert {item.what for item in found.tensors if item.role == "attention_key"} <= {"changed", "unlike"}


@pytest.mark.parametrize("code", ["en", "ko"])
def test_a_headline_names_the_width_that_changed(code):
    base = zoo_model("base")
    found = subtracted(derive.prune_mlp_units(base, n_kept=112), base, "deep")
    words = {"en": "MLP units added or removed", "ko": "늘리거나 줄임: MLP 유닛"}
    assert words[code] in headline(found, code)


@pytest.mark.more
def test_a_full_diff_says_what_rests_on_samples():
    base = zoo_model("base")
    repeated = derive.reorder_layers(base, [layer % 4 for layer in range(16)])
    tuned = derive.add_noise(repeated, size=0.05, rng=np.random.default_rng(1))
    found = subtracted(tuned, repeated, "full")
    codes = {limit.code for limit in found.verdict.limitations}
    assert "limitation.counted" in codes
    assert "limitation.sampled" not in codes
    (note,) = (note for note in found.notes if note.code == "delta-layers")
    assert (note["n"], note["m"]) == (12, 16)


@pytest.mark.parametrize(
    ("both", "finding"), [(False, "tables-not-subtracted"), (True, "tables-unlike")], ids=["one", "neither"]
)
def test_token_tables_without_known_rows_are_said_and_make_no_copy(both, finding, monkeypatch):
    """Either nothing is subtracted, or rows of equal number are: these may be in another order."""
    monkeypatch.setattr(MemorySource, "remote", True)  # what is far away is not walked over
    base = zoo_model("base")
    order = np.random.default_rng(3).permutation(512)
    tables = {name: base.tensors[name][order] for name in ("model.embed_tokens.weight", "lm_head.weight")}
    bare = replace(base.with_tensors({**base.tensors, **tables}), tokenizer=None)
    found = subtracted(bare, replace(base, tokenizer=None) if both else base)
    assert found.relation.kind == "unknown"
    assert finding in told(found)
    assert "parts-replaced" not in told(found)
