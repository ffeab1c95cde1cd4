"""Numbers of a config that the weights contradict: no tensor loses its role by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.architecture.handwritten_cases import HANDWRITTEN, Case, recorded, recorded_names
from tests.support.amount import marked

from modelkin.architecture import Architecture, Role, detect
from modelkin.architecture.loader import families

SIZE_KEYS = {
    key
    for spec in families()
    for sizes in (spec.sizes, *(variant.sizes for variant in spec.variants))
    for options in sizes.values()
    for option in options
    for key in option.config_keys
}
CASES = [*recorded_names(), *HANDWRITTEN]


def load(case: str) -> Case:
    return HANDWRITTEN[case][0]() if case in HANDWRITTEN else recorded(case)


def first_of_families() -> set[str]:
    """Return one case of every family."""
    firsts: dict[str | None, str] = {}
    for case in CASES:
        firsts.setdefault(detect(*load(case)).family, case)
    return set(firsts.values())


def lies(config: Mapping[str, Any], above: str = "") -> Iterator[dict[str, Any]]:
    """Yield the config with one size doubled or halved, each in turn, those of inner configs too."""
    for key, value in config.items():
        path = f"{above}{key}"
        if isinstance(value, dict):
            within = f"{path}." if any(known.startswith(f"{path}.") for known in SIZE_KEYS) else ""
            yield from ({**config, key: inner} for inner in lies(value, within))
        elif path in SIZE_KEYS and type(value) is int:
            yield from ({**config, key: wrong} for wrong in (2 * value, value // 2) if wrong)


def roles(architecture: Architecture) -> set[tuple[object, ...]]:
    return {
        (entry.tensor, entry.role, entry.part, entry.layer, entry.expert, is_mtp)
        for is_mtp, entries in ((False, architecture.tensors), (True, architecture.mtp_tensors))
        for entry in entries
    }


NOW = sorted(first_of_families())[::3]


@pytest.mark.parametrize("case", marked(CASES, NOW.__contains__, more=CASES.__contains__))
def test_a_wrong_size_takes_no_role_from_a_tensor(case):
    config, shapes = load(case)
    assert config is not None
    told = roles(detect(config, shapes))
    tried = list(lies(config))
    assert len(tried) >= 8
    for lie in tried:
        found = detect(lie, shapes)
        assert found.unknown == ()
        assert roles(found) == told


@pytest.mark.parametrize(
    ("case", "key", "space"),
    [
        ("llama", "intermediate_size", "mlp"),
        ("llama", "head_dim", "qk_dim"),
        ("llama", "num_attention_heads", "heads"),
        ("llama", "num_key_value_heads", "kv_heads"),
        ("llama", "hidden_size", "residual"),
        ("mixtral", "num_local_experts", "experts"),
        ("mixtral", "intermediate_size", "expert_mlp"),
        ("qwen3_moe", "moe_intermediate_size", "expert_mlp"),
        ("deepseek_v3", "n_shared_experts", "shared_mlp"),
        ("deepseek_v3", "kv_lora_rank", "kv_latent"),
        ("falcon_40b", "num_kv_heads", "kv_heads"),
    ],
)
def test_a_wrong_size_is_taken_from_the_shapes_and_noted(case, key, space):
    config, shapes = load(case)
    assert config is not None
    told = detect(config, shapes)
    found = detect({**config, key: 2 * config[key]}, shapes)
    assert space in told.sizes
    assert found.sizes == told.sizes
    assert found.contradicted
    assert not told.contradicted
    note = (
        f"config: '{key}' is {2 * config[key]}, which the shapes of the weights contradict; "
        "that size is taken from the shapes"
    )
    assert note in map(str, found.notes)


def test_several_wrong_sizes_leave_the_right_ones_believed():
    config, shapes = recorded("llama")
    assert config is not None
    wrong = {"hidden_size": 64, "intermediate_size": 100, "head_dim": 24}
    found = detect({**config, **wrong}, shapes)
    assert found.sizes == detect(config, shapes).sizes
    assert {str(note).split("'")[1] for note in found.notes if "config: " in str(note)} == set(wrong)


def test_what_the_config_says_besides_sizes_is_still_believed():
    config, shapes = recorded("opt_350m")
    assert config is not None
    found = detect({**config, "hidden_size": 64}, shapes)
    assert found.sizes["heads"] == 4
    assert found.find(Role.ATTENTION_OUTPUT_NORM, 0)
    assert found.find(Role.ATTENTION_NORM, 0) is None


def test_numbers_of_heads_that_shapes_cannot_tell_are_believed():
    config, shapes = recorded("gpt2")
    assert config is not None
    found = detect({**config, "n_head": 8}, shapes)
    assert (found.sizes["heads"], found.sizes["qk_dim"]) == (8, 4)
    assert not found.contradicted


def test_a_tensor_of_an_odd_shape_casts_no_doubt_on_a_config():
    config, shapes = recorded("llama")
    shapes["model.layers.1.mlp.up_proj.weight"] = (24, 32)
    found = detect(config, shapes)
    assert found.sizes["mlp"] == 48
    assert [tensor.name for tensor in found.unknown] == ["model.layers.1.mlp.up_proj.weight"]
    assert found.notes == ()


@pytest.mark.parametrize(("case", "mtp_layers"), [("glm4_moe", ()), ("glm4_moe_mtp", (2,))])
def test_a_wrong_number_of_layers_turns_no_layer_into_a_prediction_layer(case, mtp_layers):
    config, shapes = load(case)
    assert config is not None
    found = detect({**config, "num_hidden_layers": 1, "num_nextn_predict_layers": 1}, shapes)
    assert found.layers == (0, 1)
    assert found.mtp_layers == mtp_layers
    assert "the config says 1 layer, but the checkpoint has 2" in map(str, found.notes)
