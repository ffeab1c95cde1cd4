"""Detection: families, sizes, wrappers, MTP layers, and what happens when a config lies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.architecture.handwritten_cases import HANDWRITTEN, Case, Shapes, recorded, recorded_names

from modelkin.architecture import Architecture, Part, Role, RoleEntry, detect
from modelkin.architecture.notation import split_name

FAMILIES = {
    "bert": "bert", "bert_bare": "bert", "bert_classifier": "bert", "bloom": "bloom",
    "cohere": "layernorm_decoder", "deepseek_v2": "deepseek", "deepseek_v3": "deepseek",
    "distilbert": "distilbert", "falcon_40b": "falcon", "falcon_7b": "falcon", "falcon_rw": "falcon",
    "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma2", "gemma3_multimodal": "gemma2", "glm": "glm4",
    "glm4": "glm4", "glm4_moe": "glm4_moe", "gpt2": "gpt2", "gpt2_bare": "gpt2", "gpt_neox": "gpt_neox",
    "gpt_oss": "gpt_oss", "gptj": "gptj", "granite": "llama", "llama": "llama", "llama_biases": "llama",
    "llama_classifier": "llama", "llava": "llama", "mistral": "llama", "mixtral": "mixtral",
    "modernbert": "modernbert", "mpnet": "mpnet", "mpnet_bare": "mpnet", "mpt": "mpt",
    "olmo": "layernorm_decoder", "olmo2": "olmo2", "olmo3": "olmo2", "olmoe": "olmoe", "opt": "opt",
    "opt_350m": "opt", "phi": "phi", "phi3": "phi3", "phimoe": "phimoe", "qwen2": "llama",
    "qwen2_5_vl": "llama", "qwen2_moe": "qwen_moe", "qwen3": "llama", "qwen3_moe": "qwen_moe",
    "roberta": "bert", "roberta_classifier": "bert", "smollm3": "llama", "solar_open": "glm4_moe",
    "stablelm": "layernorm_decoder", "starcoder2": "layernorm_decoder", "t5": "t5", "t5_encoder": "t5",
    "t5_gated": "t5", "whisper": "whisper", "xlm_roberta_bare": "bert",
}  # fmt: skip

# Without a config: how many heads share a fused axis cannot be read from shapes; OPT-350m has the names of
# the other OPT models, but its norms stand after the sublayers.
NEED_CONFIG = {
    "bloom",
    "falcon_40b",
    "falcon_7b",
    "falcon_rw",
    "gpt_neox",
    "gpt_neox-memory",
    "gpt_neox_masks",
    "internlm2",
    "internvl",
    "opt_350m",
}

# Layouts that several families share to the letter; the roles are the same.
SHARED_NAMES = {"gemma": "llama", "mixtral-memory": "qwen_moe"}


def all_cases() -> list[str]:
    return [*recorded_names(), *HANDWRITTEN]


def load(case: str) -> Case:
    return HANDWRITTEN[case][0]() if case in HANDWRITTEN else recorded(case)


def family_of(case: str) -> str:
    return HANDWRITTEN[case][1] if case in HANDWRITTEN else FAMILIES[case.removesuffix("-memory")]


def found(architecture: Architecture, role: Role, layer: int | None = None) -> RoleEntry:
    entry = architecture.find(role, layer)
    assert entry is not None
    return entry


def role_map(architecture: Architecture) -> set[tuple[Any, ...]]:
    entries = (*architecture.tensors, *architecture.mtp_tensors)
    return {(e.tensor, e.role, e.part, e.layer, e.expert, e.axes, e.segment) for e in entries}


@pytest.mark.parametrize("case", all_cases())
def test_every_tensor_is_explained(case):
    config, shapes = load(case)
    architecture = detect(config, shapes)
    assert architecture.family == family_of(case)
    assert architecture.unknown == ()
    # transformers builds none of the multi-token-prediction layers that such a config counts.
    left_out = (config or {}).get("num_nextn_predict_layers", 0) > 0 and not architecture.mtp_layers
    assert [note.code for note in architecture.notes] == ["config-mtp-layers"] * left_out
    entries = (*architecture.tensors, *architecture.mtp_tensors)
    named = {entry.tensor for entry in entries} | {other.name for other in architecture.other}
    assert named == set(shapes)


@pytest.mark.parametrize("case", all_cases())
def test_every_layer_attends_and_has_an_mlp(case):
    architecture = detect(*load(case))
    assert architecture.layers == tuple(range(architecture.n_layers))
    assert architecture.n_layers in (2, 3)
    part: Part = "packed" if case == "llama_gptq" else "weight"
    for layer in architecture.layers:
        assert architecture.find(Role.ATTENTION_OUTPUT, layer, part)
        if case == "llama_gptq":
            continue
        queries = (Role.ATTENTION_QUERY, Role.ATTENTION_QUERY_NOPE, Role.ATTENTION_QUERY_UP_NOPE)
        assert any(architecture.find(role, layer) for role in queries)
        assert (
            architecture.find(Role.MLP_DOWN, layer)
            or architecture.experts_of(layer)
            or architecture.experts_of(layer, part="packed")
        )


@pytest.mark.parametrize("case", all_cases())
def test_names_and_shapes_are_enough(case):
    config, shapes = load(case)
    told, guessed = detect(config, shapes), detect(None, shapes)
    assert guessed.family == SHARED_NAMES.get(case, told.family)
    assert guessed.unknown == ()
    assert guessed.layers == told.layers
    assert guessed.mtp_layers == told.mtp_layers
    assert {name: size for name, size in guessed.sizes.items() if told.sizes.get(name, size) != size} == {}
    if case not in NEED_CONFIG:
        assert role_map(guessed) == role_map(told)


@pytest.mark.parametrize("case", sorted(NEED_CONFIG - {"opt_350m"}))
def test_a_fused_tensor_that_cannot_be_taken_apart_says_so(case):
    _, shapes = load(case)
    architecture = detect(None, shapes)
    entry = architecture.find(Role.UNSPLIT_ATTENTION, 1)
    assert entry is not None
    assert entry.axes[0] == ("fused",)
    assert architecture.find(Role.ATTENTION_QUERY, 1) is None


def test_ambiguous_names_are_noted():
    _, shapes = recorded("gemma")
    architecture = detect(None, shapes)
    assert any(
        "also fit Gemma, whose norms are rms-one-plus" in note for note in map(str, architecture.notes)
    )


@pytest.mark.parametrize(
    ("case", "sizes"),
    [
        (
            "llama",
            {"heads": 4, "kv_heads": 2, "qk_dim": 12, "v_dim": 12, "residual": 32, "mlp": 48, "vocab": 96},
        ),
        ("gpt2", {"heads": 4, "qk_dim": 8, "mlp": 128, "layers": 2}),
        ("falcon_7b", {"heads": 4, "kv_heads": 1}),
        ("falcon_rw", {"heads": 4, "kv_heads": 4}),
        ("falcon_40b", {"heads": 4, "kv_heads": 2}),
        (
            "deepseek_v3",
            {"nope_dim": 6, "rope_dim": 4, "v_dim": 5, "kv_latent": 10, "query_latent": 14, "shared_mlp": 40},
        ),
        ("gpt_neox", {"rotary_dim": 2}),
        ("glm4_moe", {"rotary_dim": 6, "experts": 4, "expert_mlp": 20, "shared_mlp": 20}),
        ("whisper", {"layers": 3, "encoder_layers": 2, "mlp": 40, "encoder_mlp": 48}),
        ("t5", {"layers": 3, "encoder_layers": 2}),
        ("opt_350m", {"embedding_dim": 24, "residual": 32}),
    ],
)
def test_sizes(case, sizes):
    found = detect(*load(case)).sizes
    assert {name: found.get(name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("case", "norm", "positions"),
    [
        ("llama", "rms", "rope"),
        ("gemma", "rms-one-plus", "rope"),
        ("gemma3", "rms-one-plus", "rope"),
        ("falcon_rw", "layer", "alibi"),
        ("falcon_7b", "layer", "rope"),
        ("bloom", "layer", "alibi"),
        ("mpt", "layer", "alibi"),
        ("bert", "layer", "learned"),
        ("t5", "rms", "relative"),
        ("phimoe", "layer", "rope"),
    ],
)
def test_norm_and_positions(case, norm, positions):
    architecture = detect(*load(case))
    assert (architecture.norm, architecture.positions) == (norm, positions)


def test_the_same_name_has_another_role_in_another_family():
    name = "model.layers.0.post_attention_layernorm.weight"
    roles = {
        case: next(e.role for e in detect(*recorded(case)).tensors if e.tensor == name)
        for case in ("llama", "gemma2", "olmo2")
    }
    assert roles == {
        "llama": Role.MLP_NORM,
        "gemma2": Role.ATTENTION_OUTPUT_NORM,
        "olmo2": Role.ATTENTION_OUTPUT_NORM,
    }


def test_norms_after_the_sublayers_are_told_by_the_config():
    assert detect(*recorded("opt")).find(Role.ATTENTION_NORM, 0)
    architecture = detect(*recorded("opt_350m"))
    assert architecture.find(Role.ATTENTION_NORM, 0) is None
    assert architecture.find(Role.ATTENTION_OUTPUT_NORM, 0)


def test_an_embedding_without_projection_writes_into_the_residual_stream():
    plain, projected = detect(*recorded("opt")), detect(*recorded("opt_350m"))
    assert found(plain, Role.EMBEDDING).axes == (("vocab",), ("residual",))
    assert found(projected, Role.EMBEDDING).axes == (("vocab",), ("embedding_dim",))


# MTP -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_config", [True, False])
@pytest.mark.parametrize("case", ["glm4_moe_mtp", "deepseek_v3_fp8_mtp"])
def test_a_next_token_prediction_layer_is_no_decoder_layer(case, with_config):
    config, shapes = load(case)
    architecture = detect(config if with_config else None, shapes)
    assert architecture.n_layers == architecture.sizes["layers"] == 2
    assert architecture.mtp_layers == (2,)
    assert architecture.layers_of(Role.ATTENTION_OUTPUT) == (0, 1)
    projection = architecture.find(Role.MTP_PROJECTION, 2)
    assert projection is not None
    assert projection in architecture.mtp_tensors
    assert found(architecture, Role.ATTENTION_OUTPUT, 1) in architecture.tensors
    assert {entry.layer for entry in architecture.tensors} == {None, 0, 1}
    assert {entry.layer for entry in architecture.mtp_tensors} == {2}


@pytest.mark.parametrize("case", ["glm4_moe_mtp", "deepseek_v3_fp8_mtp"])
def test_nothing_of_a_prediction_layer_is_found_unless_it_is_asked_for(case):
    architecture = detect(*load(case))
    inside = [entry for entry in architecture.mtp_tensors if not entry.role.is_mtp]
    assert {Role.ATTENTION_OUTPUT, Role.ROUTER, Role.ATTENTION_NORM} <= {entry.role for entry in inside}
    for entry in inside:
        assert architecture.find(entry.role, entry.layer, entry.part, expert=entry.expert) is None
        there = architecture.find(entry.role, entry.layer, entry.part, expert=entry.expert, mtp=True)
        assert there is not None
        assert there in architecture.mtp_tensors
    assert list(architecture.experts_of(2)) == []
    assert architecture.find(Role.ATTENTION_OUTPUT, 1, mtp=True) is None


def test_a_config_may_say_that_there_are_none():
    config, shapes = recorded("glm4_moe")
    assert config is not None
    said = detect(config | {"num_nextn_predict_layers": 0}, shapes)
    left_open = detect({k: v for k, v in config.items() if k != "num_nextn_predict_layers"}, shapes)
    assert said == left_open
    assert said.notes == ()
    odd = detect(config | {"num_nextn_predict_layers": -1}, shapes)
    assert any("num_nextn_predict_layers" in str(note) for note in odd.notes)


def test_an_extra_layer_that_no_config_announces_is_a_layer():
    config, shapes = recorded("llama")
    shapes |= {name.replace("layers.1.", "layers.2."): shape for name, shape in shapes.items()}
    architecture = detect(config, shapes)
    assert architecture.n_layers == 3
    assert "the config says 2 layers, but the checkpoint has 3" in list(map(str, architecture.notes))


def test_a_gap_between_layers_is_noted():
    config, shapes = recorded("llama")
    shapes = {name.replace("layers.1.", "layers.5."): shape for name, shape in shapes.items()}
    architecture = detect(config, shapes)
    assert architecture.layers == (0, 5)
    assert any("numbered up to 5" in note for note in map(str, architecture.notes))


# Wrappers and other components ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "prefix", "components"),
    [
        ("llava", "language_model.", {"vision", "projector"}),
        ("llava-memory", "model.language_model.", {"vision", "projector"}),
        ("gemma3_multimodal", "language_model.", {"vision", "projector"}),
        ("qwen2_5_vl", "", {"vision"}),
        ("qwen2_5_vl-memory", "model.language_model.", {"vision"}),
        ("internvl", "language_model.", {"vision", "projector"}),
        ("qwen2_5_omni", "thinker.", {"vision", "speech"}),
    ],
)
def test_a_wrapped_language_model_is_found(case, prefix, components):
    architecture = detect(*load(case))
    assert architecture.prefix == prefix
    assert {other.component for other in architecture.other} == components
    assert all(
        entry.tensor.startswith(prefix) or entry.role is Role.OUTPUT_HEAD for entry in architecture.tensors
    )


def test_a_text_config_that_leaves_out_defaults_is_completed_from_shapes():
    config, shapes = recorded("gemma3_multimodal")
    assert config is not None
    for key in ("num_attention_heads", "num_key_value_heads", "head_dim"):
        del config["text_config"][key]
    sizes = detect(config, shapes).sizes
    assert (sizes["heads"], sizes["kv_heads"], sizes["qk_dim"]) == (4, 2, 12)


# Lies ----------------------------------------------------------------------------------------------------


def test_a_lying_model_type_is_not_believed():
    _, shapes = recorded("gpt2")
    architecture = detect({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, shapes)
    assert architecture.family == "gpt2"
    assert "the config says Llama and look-alikes, but the names are those of GPT-2" in list(
        map(str, architecture.notes)
    )


def test_a_model_type_whose_names_fit_only_in_part_gives_way_to_a_full_fit():
    config, shapes = recorded("gemma2")
    assert config is not None
    architecture = detect({**config, "model_type": "llama", "architectures": []}, shapes)
    assert architecture.family == "gemma2"


def test_sizes_of_another_model_are_not_believed():
    config, shapes = recorded("llama")
    assert config is not None
    architecture = detect({**config, "hidden_size": 64, "intermediate_size": 100}, shapes)
    assert architecture.family == "llama"
    assert architecture.sizes["residual"] == 32
    assert any("contradict most shapes" in note for note in map(str, architecture.notes))


def test_a_contradicting_shape_is_reported():
    config, shapes = recorded("llama")
    shapes["model.layers.1.self_attn.q_proj.weight"] = (48, 16)
    architecture = detect(config, shapes)
    ((unknown),) = architecture.unknown
    assert unknown.name == "model.layers.1.self_attn.q_proj.weight"
    assert str(unknown.reason) == "expected heads*qk_dim x residual = 48x32, got 48x16"
    assert architecture.contradicted


def test_a_wrong_number_of_axes_is_reported():
    config, shapes = recorded("gpt2")
    shapes["transformer.ln_f.weight"] = ()
    ((unknown),) = detect(config, shapes).unknown
    assert str(unknown.reason) == "expected residual = 32, got a scalar"


def test_the_embedding_decides_the_vocabulary():
    config, shapes = recorded("llama")
    shapes["model.embed_tokens.weight"] = (128, 32)
    architecture = detect(config, shapes)
    assert architecture.unknown == ()
    assert architecture.sizes["vocab"] == 128
    assert "the config says vocabulary 96, but the embedding has 128 rows" in list(
        map(str, architecture.notes)
    )


def test_an_added_tensor_is_unknown_and_the_rest_is_not():
    config, shapes = recorded("llama")
    architecture = detect(config, shapes | {"model.layers.0.adapter.weight": (4, 32)})
    assert [unknown.name for unknown in architecture.unknown] == ["model.layers.0.adapter.weight"]
    assert not architecture.contradicted
    assert architecture.family == "llama"


def test_an_unknown_family_is_a_value():
    shapes: Shapes = {f"backbone.blocks.{layer}.mixer.in_proj.weight": (64, 32) for layer in range(2)}
    shapes["backbone.rotary_emb.inv_freq"] = (4,)
    architecture = detect({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2}, shapes)
    assert architecture.family is None
    assert not architecture.is_known
    assert "the config says 'mamba'" in str(architecture.title)
    assert {unknown.name for unknown in architecture.unknown} == set(shapes) - {
        "backbone.rotary_emb.inv_freq"
    }
    assert [entry.role for entry in architecture.tensors] == [Role.FIXED_TABLE]
    assert architecture.sizes["residual"] == 32


def test_a_few_common_names_are_no_model():
    assert detect(None, {"lm_head.weight": (96, 32), "model.norm.weight": (32,)}).family is None


def test_no_tensors_is_no_model():
    assert detect(None, {}).family is None
    assert detect({"model_type": "llama"}, {}).family is None


def test_shapes_that_no_sizes_explain_are_no_model():
    _, shapes = recorded("llama")
    nonsense = {name: (3 + index,) * 3 for index, name in enumerate(shapes)}
    architecture = detect(None, nonsense)
    assert architecture.family is None
    assert "but the shapes contradict it" in str(architecture.title)


# Hostile input -------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    [
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "head_dim",
        "vocab_size",
        "model_type",
        "architectures",
        "text_config",
        "num_key_value_heads",
        "intermediate_size",
        "multi_query",
        "new_decoder_architecture",
        "n_embd",
    ]
)


@pytest.mark.more
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.dictionaries(keys, json_values, max_size=5),
    case=st.sampled_from(["llama", "falcon_40b", "llava", "glm4_moe"]),
)
def test_any_json_in_a_config_is_survived(changes, case):
    config, shapes = recorded(case)
    assert config is not None
    architecture = detect({**config, **changes}, shapes)
    entries = (*architecture.tensors, *architecture.mtp_tensors)
    seen = {e.tensor for e in entries} | {u.name for u in architecture.unknown}
    assert seen | {other.name for other in architecture.other} == set(shapes)


@given(config=json_values)
@settings(deadline=None, max_examples=40)
def test_a_config_need_not_even_be_an_object(config):
    _, shapes = recorded("qwen3")
    assert detect(config, shapes).family == "llama"


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.text(max_size=20)
        | st.from_regex(r"model\.layers\.[0-9]{1,30}\.mlp\.up_proj\.weight", fullmatch=True),
        st.lists(st.integers(-(2**70), 2**70), max_size=4).map(tuple),
        max_size=12,
    )
)
def test_any_names_and_shapes_are_survived(shapes):
    assert detect(None, shapes).family is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("4", "'4'"),
        (-4, "-4"),
        (True, "True"),
        (10**30, "1" + 30 * "0"),
        ([4], "list"),
        (float("nan"), "nan"),
    ],
)
def test_an_unusable_number_is_noted(value, shown):
    config, shapes = recorded("llama")
    assert config is not None
    architecture = detect({**config, "num_attention_heads": value}, shapes)
    note = f"config: 'num_attention_heads' should be a positive number, got {shown}; ignored"
    assert note in list(map(str, architecture.notes))
    assert architecture.family == "llama"


@pytest.mark.more
def test_a_hundred_thousand_tensors():
    config, shapes = recorded("glm4_moe")
    assert config is not None
    n_layers, n_experts = 92, 360
    large = {name: shape for name, shape in shapes.items() if "layers.1." not in name}
    for name, shape in shapes.items():
        if "layers.1.mlp.experts." in name:
            continue
        if "layers.1." in name:
            shape = (n_experts, *shape[1:]) if ".mlp.gate." in name else shape
            large |= {name.replace("layers.1.", f"layers.{layer}."): shape for layer in range(1, n_layers)}
    for layer in range(1, n_layers):
        for expert in range(n_experts):
            stem = f"model.layers.{layer}.mlp.experts.{expert}."
            large[f"{stem}gate_proj.weight"] = large[f"{stem}up_proj.weight"] = (20, 32)
            large[f"{stem}down_proj.weight"] = (32, 20)
    architecture = detect({**config, "num_hidden_layers": n_layers, "n_routed_experts": n_experts}, large)
    assert architecture.unknown == ()
    assert architecture.n_layers == n_layers
    assert len(architecture.experts_of(50)) == n_experts
    assert len(architecture.tensors) == len(large) > 98_000


@given(st.lists(st.from_regex(r"[a-z0-9#٣]{0,12}", fullmatch=True), min_size=1, max_size=6).map(".".join))
def test_names_are_split_as_by_hand(name):
    pieces = name.split(".")
    is_index = [piece.isascii() and piece.isdecimal() and len(piece) <= 9 for piece in pieces]
    template = ".".join("#" if index else piece for piece, index in zip(pieces, is_index, strict=True))
    numbers = tuple(int(piece) for piece, index in zip(pieces, is_index, strict=True) if index)
    assert split_name(name) == (template, numbers)


def test_heads_that_a_graph_counted_are_heads_of_a_family_with_its_own_word_for_them():
    """An ONNX file without a config tells `num_attention_heads`; DistilBERT's configs say `n_heads`."""
    _, shapes = load("distilbert")
    found = detect({"num_attention_heads": 4}, shapes)
    assert found.family == "distilbert"
    assert found.sizes["heads"] == 4
    assert found.sizes["v_dim"] == found.sizes["residual"] // 4
