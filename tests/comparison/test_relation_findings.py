"""No finding says more than the tensors do, where matrices are unlike or changed by their own size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.disguises import disguised, zoo_model
from tests.places import LOOKALIKES
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.relation import Deltas
from modelkin.comparison.relation.facing import FacingTensors
from modelkin.comparison.relation.kinds import kind_of_values
from modelkin.comparison.relation.measure import Block, measure
from modelkin.comparison.relation.values import findings_of_values
from modelkin.document.language import load_language
from modelkin.options import Depth
from modelkin.source import MemorySource


def subtracted(candidate: Checkpoint, base: Checkpoint, depth: Depth = "standard") -> mk.ModelDiff:
    return mk.diff(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
        options=mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False)),
    )


def lookalike(name: str) -> Checkpoint:
    return Checkpoint.read(LOOKALIKES / name)


def test_a_frozen_table_makes_no_copy_of_layers_that_are_unlike():
    found = subtracted(lookalike("frozen-1"), lookalike("teacher"))
    assert Counter(item.what for item in found.tensors) == {"unlike": 37, "equal": 1}
    assert found.relation.kind == "unknown"
    assert [item.kind for item in found.relation.findings] == ["same-tables", "frozen"]
    assert found.relation.findings[0].numbers == {"components": "embedding"}


def same_order(model: Checkpoint) -> Checkpoint:
    return model


def in_another_order(model: Checkpoint) -> Checkpoint:
    return derive.permute_residual(model, rng=np.random.default_rng(5))


def scrambled(model: Checkpoint) -> Checkpoint:
    rng = np.random.default_rng(5)
    return derive.permute_residual(
        derive.permute_heads(derive.permute_mlp_units(model, rng=rng), rng=rng), rng=rng
    )


@pytest.mark.parametrize("student", ["started", "student-all"])
def test_a_model_in_the_coordinates_of_another_has_no_parts_replaced(student):
    found = subtracted(lookalike(student), lookalike("teacher"), "deep")
    assert found.verdict.reading == "coordinates-only"
    assert found.relation.kind == "unknown"
    assert [item.kind for item in found.relation.findings] == ["same-coordinates"]


@pytest.mark.parametrize("changed", [same_order, in_another_order], ids=["as-trained", "dimensions-permuted"])
def test_a_student_of_blocks_has_units_in_common_and_was_not_trained_further(changed):
    found = subtracted(changed(lookalike("student-blocks")), lookalike("teacher"), "deep")
    assert found.verdict.reading in ("units-found-again", "layers-found-again")
    assert found.relation.kind == "unknown"
    assert found.relation.findings[0].kind == "same-units"
    assert not {"fine-tune", "layers-replaced"} & {item.kind for item in found.relation.findings}


@pytest.mark.parametrize(
    "changed", [in_another_order, scrambled], ids=["dimensions-permuted", "all-permuted"]
)
def test_a_copy_that_was_reordered_and_trained_is_a_fine_tune_still(changed):
    found = subtracted(changed(zoo_model("finetune-light")), zoo_model("base"), "deep")
    assert found.relation.kind == "fine-tune"
    assert "same-units" not in {item.kind for item in found.relation.findings}


def test_gains_alone_were_not_trained_where_everything_else_is_new():
    found = subtracted(zoo_model("norms-only"), zoo_model("base"))
    assert [item.kind for item in found.relation.findings] == ["parts-replaced"]
    assert found.relation.findings[0].numbers["components"] == "attention, embedding, head, mlp"


def changed(size: float, *, structured: bool) -> str:
    """Return the word for a matrix with noise, or the trace of training, of this size."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal((128, 256)).astype(np.float32)
    noise = rng.standard_normal(base.shape)
    if structured:
        noise = (noise / (1 + np.arange(256))) @ rng.standard_normal((256, 256))
    noise *= size * np.linalg.norm(base) / np.linalg.norm(noise)
    facing = FacingTensors(
        role="mlp_up", component="mlp", candidate="up", base="up", layer=0, base_layer=0, expert=None
    )
    candidate = (base + noise).astype(np.float32)
    found = measure(
        Block(facing=facing, candidate=candidate, base=base, dtypes=("F32", "F32"), whole=True), seed=0
    )
    assert found is not None
    return found.what


@pytest.mark.parametrize(
    ("size", "structured", "word"),
    [
        (0.3, False, "noise"),
        (0.65, False, "changed"),
        (1.2, False, "changed"),
        (0.88, True, "trained"),
        (1.0, True, "changed"),
    ],
)
def test_a_change_of_the_size_of_the_weights_is_neither_noise_nor_training(size, structured, word):
    assert changed(size, structured=structured) == word


def test_one_matrix_is_told_as_one():
    base = zoo_model("base")
    name = "model.layers.1.mlp.up_proj.weight"
    rows = base.tensors[name]
    noise = np.random.default_rng(2).standard_normal(rows.shape) * 0.1 * rows.std()
    found = subtracted(base.with_tensors({**base.tensors, name: (rows + noise).astype(np.float32)}), base)
    assert kind_of_values(found.tensors) == "noise"
    (told,) = (item for item in findings_of_values("noise", found.tensors, None) if item.kind == "noise")
    assert str(told.what).startswith("the difference of one matrix looks like noise")
    assert load_language("ko").tell(told.what).startswith("행렬 하나의 차이가")


@pytest.mark.more
@pytest.mark.parametrize(
    "heads",
    [
        {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 48},
        {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32},
    ],
    ids=["contradicted", "divided-otherwise"],
)
def test_heads_that_only_a_config_changes_are_no_change_of_width(heads):
    tuned = zoo_model("finetune-light")
    found = subtracted(replace(tuned, config={**tuned.config, **heads}), zoo_model("base"))
    assert found.relation.kind == "fine-tune"
    assert "width-change" not in {item.kind for item in found.relation.findings}


def test_without_a_map_nobody_says_which_of_order_and_rotation_it_was():
    base = zoo_model("base")
    coarse = derive.round_to_int8(base)
    files = disguised(coarse, "units", "heads", "rotation-and-gains").files("BF16")
    bare = {name: data for name, data in files.items() if not name.startswith("token")}
    found = mk.diff(
        candidate=MemorySource(bare, name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
        options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False)),
    )
    assert str(found.relation.not_subtracted).startswith("the residual stream was reordered or rotated")


def kinds(found: mk.ModelDiff) -> dict[str, dict[str, float | int | str]]:
    return {item.kind: dict(item.numbers) for item in found.relation.findings}


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [("fewer-units", "width-change", "mlp_candidate"), ("experts", "moe-upcycling", "experts")],
)
def test_a_shape_is_told_at_standard_depth_if_the_layers_are_alike(name, kind, number):
    found = subtracted(zoo_model(name), zoo_model("deep-1"))
    assert found.relation.kind == kind
    assert number in kinds(found)[kind]


def test_a_shape_is_not_told_of_layers_that_are_unlike():
    found = subtracted(lookalike("frozen-1"), lookalike("teacher"))
    assert "width-change" not in kinds(found)


@pytest.mark.more
@pytest.mark.parametrize(("cosine", "what"), [(0.995, "trained"), (0.4, "unlike")])
def test_a_tensor_is_unlike_without_evidence_only_if_it_is_no_more_alike_than_strangers(cosine, what):
    base = zoo_model("base")
    found = subtracted(zoo_model("finetune-light"), base)
    deltas = Deltas(changes=tuple(replace(item, cosine=cosine) for item in found.tensors))
    told = {item.what for item in deltas.unlike_in(["attention"]).changes if item.component == "attention"}
    assert told == {what}


@pytest.mark.more
@pytest.mark.parametrize(("width", "rank"), [(96, 16), (1024, 64)])
def test_matrices_too_small_for_a_rank_do_not_vote_on_it(width, rank):
    """Keys and values have a third as many rows: directions of the others cannot all be counted in them."""
    shape = LlamaShape(layers=2, hidden=width, mlp=width, heads=6 if width == 96 else 8, kv_heads=1, vocab=64)
    base = Checkpoint(config=llama_config(shape), tensors=llama_tensors(shape, seed=1))
    made = derive.merge_low_rank(base, rank=rank, size=0.1, rng=np.random.default_rng(2))
    found = subtracted(made, base)
    assert found.relation.kind == "low-rank"
    assert kinds(found)["low-rank"]["rank"] == rank
    left = kinds(found)["rank-not-counted"]
    assert left["modules"] == "attention_key, attention_value"
    assert int(left["rank_most"]) < rank


def test_training_says_how_many_directions_were_searched_for():
    told = kinds(subtracted(zoo_model("finetune-light"), zoo_model("base")))["fine-tune"]
    assert (told["least_searched"], told["most_searched"]) == (10, 32)


def test_gains_alone_have_no_trend_over_layers():
    """Of gains near 0.3 and 0.9 that moved alike, the former moved more for their size."""
    base = zoo_model("base")
    rng = np.random.default_rng(3)
    parent, child = dict(base.tensors), dict(base.tensors)
    for name, array in base.tensors.items():
        if "layernorm" in name:
            level = 0.3 if int(name.split(".")[2]) < 2 else 0.9
            parent[name] = (level + 0.05 * rng.standard_normal(array.shape)).astype(np.float32)
            child[name] = (parent[name] + 0.003 * rng.standard_normal(array.shape)).astype(np.float32)
    found = subtracted(base.with_tensors(child), base.with_tensors(parent))
    assert "gains-trained" in kinds(found)
    assert "by-depth" not in kinds(found)


def test_layers_that_stayed_as_they_were_are_named():
    base, tuned = zoo_model("base"), zoo_model("finetune-light")
    last = {name: array for name, array in tuned.tensors.items() if ".layers.3." in name}
    found = subtracted(base.with_tensors({**base.tensors, **last}), base)
    assert kinds(found)["frozen-layers"]["layers"] == "0-2"
    (told,) = (item for item in found.relation.findings if item.kind == "frozen-layers")
    assert "layers 0-2" in str(told.what)
    assert "레이어 0-2" in load_language("ko").tell(told.what)


def test_no_layer_is_called_frozen_if_all_of_them_are():
    base = zoo_model("base")
    head = {"lm_head.weight": zoo_model("finetune-light").tensors["lm_head.weight"]}
    assert "frozen-layers" not in kinds(subtracted(base.with_tensors({**base.tensors, **head}), base))


@pytest.mark.parametrize("code", ["en", "ko"])
def test_prose_has_names_of_roles_and_numbers_in_thousands(code):
    base = zoo_model("base")
    last = {name: array * 2 for name, array in base.tensors.items() if ".layers.3.mlp" in name}
    found = subtracted(base.with_tensors({**base.tensors, **last}), base)
    (told,) = (item for item in found.relation.findings if item.kind == "frozen")
    text = load_language(code).tell(told.what)
    assert "_" not in text
    assert f"{told.numbers['values_equal']:,}" in text
