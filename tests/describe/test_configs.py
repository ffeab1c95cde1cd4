"""Configs field by field, and each against its own tensors."""

import json

import numpy as np
import pytest
from tests.support import llama_files

import modelkin as mk
from modelkin.describe import known_fields
from modelkin.describe.config_comparison import compare_fields
from modelkin.describe.config_fields import named_fields
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource

SOLAR = {
    "model_type": "solar_open",
    "hidden_size": 4096,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 10240,
    "moe_intermediate_size": 1280,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000,
    "partial_rotary_factor": 1.0,
    "first_k_dense_replace": 0,
    "vocab_size": 196608,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.57.1",
}
GLM = SOLAR | {
    "model_type": "glm4_moe",
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "partial_rotary_factor": 0.5,
    "first_k_dense_replace": 1,
    "vocab_size": 151552,
    "pad_token_id": 151329,
    "eos_token_id": [151329, 151336, 151338],
    "num_nextn_predict_layers": 1,
    "transformers_version": "4.54.0",
}
del GLM["bos_token_id"]


def model(config, tensors=None):
    files = {"config.json": json.dumps(config).encode()}
    if tensors is not None:
        arrays = {name: np.ones(shape, dtype=np.float32) for name, shape in tensors.items()}
        files["model.safetensors"] = safetensors_bytes(arrays)
    return MemorySource(files)


def test_the_published_table_left_out_what_differs():
    fields = {field.name: field.status for field in compare_fields(SOLAR, GLM)}
    omitted = ("intermediate_size", "moe_intermediate_size", "partial_rotary_factor", "first_k_dense_replace")
    assert [fields[name] for name in omitted] == ["different"] * 4
    equal = ("hidden_size", "num_key_value_heads", "n_routed_experts", "num_experts_per_tok", "rope_theta")
    assert {fields[name] for name in equal} == {"equal"}
    assert fields["bos_token_id"] == "only candidate"
    assert fields["num_nextn_predict_layers"] == "only base"


def test_every_field_has_a_status_and_known_ones_a_meaning():
    found = mk.compare_configs(model(SOLAR), model(GLM), tensors=False)
    assert len(found.fields) == len(SOLAR.keys() | GLM.keys())
    assert all(field.meaning for field in found.fields)
    assert found.counts == {"equal": 8, "different": 9, "only candidate": 1, "only base": 1}


def test_names_of_other_families_meet():
    found = compare_fields(
        {"n_embd": 8, "num_local_experts": 4, "rope_parameters": {"rope_theta": 10.0}, "odd": 1},
        {"hidden_size": 8, "num_experts": 4, "rope_theta": 10, "odd": 1},
    )
    assert [(field.name, field.status) for field in found] == [
        ("hidden_size", "equal"),
        ("rope_theta", "equal"),
        ("n_routed_experts", "equal"),
        ("odd", "equal"),
    ]
    assert (found[0].candidate_name, found[0].base_name) == ("n_embd", "hidden_size")
    assert (found[3].group, found[3].meaning) == ("other", None)


def test_the_language_model_inside_a_wrapper_goes_by_plain_names():
    found = named_fields({"text_config": {"hidden_size": 8}, "vision_config": {"hidden_size": 3}})
    assert found == {
        "hidden_size": ("text_config.hidden_size", 8),
        "vision_config.hidden_size": ("vision_config.hidden_size", 3),
    }


def test_two_fields_with_one_meaning_are_both_kept():
    found = named_fields({"hidden_size": 8, "n_embd": 9})
    assert found == {"hidden_size": ("hidden_size", 8), "n_embd": ("n_embd", 9)}


def test_true_is_not_one():
    (field,) = compare_fields({"use_cache": True}, {"use_cache": 1})
    assert field.status == "different"


def test_a_null_is_a_value_and_absence_is_none():
    (field,) = compare_fields({"sliding_window": None}, {})
    assert (field.status, field.candidate, field.base) == ("only candidate", "null", None)


def test_deep_and_wide_configs_are_bounded():
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    assert len(named_fields(deep)) == 1
    assert len(named_fields({f"k{n}": n for n in range(10_000)})) == 4000


def test_the_table_of_fields_is_sound():
    assert (
        known_fields()["num_local_experts"].name == known_fields()["num_experts"].name == "n_routed_experts"
    )
    assert {field.group for field in known_fields().values()} == {
        *("sizes", "attention", "positions", "experts", "parts", "tokens", "bookkeeping")
    }


# -- against the tensors -------------------------------------------------------------------------------


def test_a_config_that_fits_its_tensors_agrees():
    found = mk.compare_configs(MemorySource(llama_files()), MemorySource(llama_files()))
    assert found.dimensions is not None
    checks = {check.name: check for check in found.dimensions[0]}
    assert {check.agrees for check in checks.values()} == {True}
    assert checks["hidden_size"].stored == 32


def test_a_config_that_does_not_fit_is_found():
    files = dict(llama_files())
    config = json.loads(files["config.json"])
    files["config.json"] = json.dumps(config | {"vocab_size": config["vocab_size"] + 64}).encode()
    found = mk.compare_configs(MemorySource(files), MemorySource(llama_files()))
    assert found.dimensions is not None
    (check,) = [check for check in found.dimensions[0] if check.name == "vocab_size"]
    assert check.agrees is False
    assert found.fields[2].status == "different"


def test_layers_beyond_the_config_and_telling_names_are_found():
    names = [f"model.layers.{n}.input_layernorm.weight" for n in (0, 1, 3, 4)]
    tensors: dict[str, tuple[int, ...]] = dict.fromkeys(names, (4,))
    tensors |= {"model.layers.4.eh_proj.weight": (4, 8), "model.layers.4.enorm.weight": (4,)}
    found = mk.compare_configs(model({"num_hidden_layers": 4}, tensors), model({}, tensors))
    assert found.keys is not None
    keys = found.keys[0]
    assert (keys.layers, keys.first_layer, keys.last_layer, keys.missing) == (4, 0, 4, (2,))
    assert dict(keys.beyond) == {4: 3}
    assert dict(keys.words) == {"eh_proj": 1, "enorm": 1}
    assert dict(found.keys[1].beyond) == {}


def test_experts_are_counted_by_name_where_the_architecture_is_unknown():
    tensors = {f"net.layers.1.ff.experts.{n}.w.weight": (4, 4) for n in range(6)}
    tensors["net.layers.2.ff.experts.0.w.weight"] = (4, 4)
    tensors["net.layers.1.ff.shared_expert.w.weight"] = (4, 4)
    found = mk.compare_configs(model({"num_experts": 6}, tensors), model({}, tensors))
    assert found.experts is not None
    census = found.experts[0]
    assert (census.layers, census.first_layer, census.fewest, census.most) == (2, 1, 1, 6)
    assert (census.shared, census.declared, found.experts[1].declared) == (True, 6, None)


def test_a_model_without_config_is_noted():
    found = mk.compare_configs(MemorySource({"x": b""}), model({"a": 1}), tensors=False)
    assert str(found.notes[0]).endswith("has no config.json")
    assert [field.status for field in found.fields] == ["only base"]


@pytest.mark.parametrize("tensors", [True, False])
def test_the_json_follows_its_schema(tensors):
    import jsonschema

    from modelkin.document import to_json
    from modelkin.document.results import schema

    found = mk.compare_configs(MemorySource(llama_files()), MemorySource(llama_files()), tensors=tensors)
    jsonschema.Draft202012Validator(schema("modelkin.configs/1")).validate(json.loads(to_json(found)))
