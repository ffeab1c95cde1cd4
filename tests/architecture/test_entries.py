"""Entries: layouts, fused parts, fixed tables, quantised pieces, and the freedom of axes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.architecture.handwritten_cases import HANDWRITTEN, Case, recorded, recorded_names

from modelkin.architecture import Part, Role, RoleEntry, Segment, detect
from modelkin.architecture.spaces import SPACES
from modelkin.architecture.spec import Stack


def load(case: str) -> Case:
    return HANDWRITTEN[case][0]() if case in HANDWRITTEN else recorded(case)


def found(
    case: str, role: Role, layer: int | None = None, part: Part = "weight", stack: Stack | None = None
) -> RoleEntry:
    entry = detect(*load(case)).find(role, layer, part, stack=stack)
    assert entry is not None
    return entry


ALL = [*recorded_names(), *HANDWRITTEN]


@pytest.mark.parametrize("case", ALL)
def test_parts_of_a_fused_tensor_partition_its_axis(case):
    config, shapes = load(case)
    fused: dict[str, list[Segment]] = {}
    found = detect(config, shapes)
    for entry in (*found.tensors, *found.mtp_tensors):
        if entry.segment is not None:
            fused.setdefault(entry.tensor, []).append(entry.segment)
    for tensor, segments in fused.items():
        indices = [i for segment in segments for pair in segment.ranges() for i in range(*pair)]
        assert sorted(indices) == list(range(shapes[tensor][segments[0].axis])), tensor


@pytest.mark.parametrize("case", ALL)
def test_axes_have_the_lengths_of_their_spaces(case):
    config, shapes = load(case)
    architecture = detect(config, shapes)
    sizes = {**architecture.sizes, "one": 1}
    for entry in (*architecture.tensors, *architecture.mtp_tensors):
        if entry.role is Role.FIXED_TABLE:
            continue
        assert len(entry.axes) == len(shapes[entry.tensor])
        for axis, spaces in enumerate(entry.axes):
            length = shapes[entry.tensor][axis]
            if entry.segment is not None and entry.segment.axis == axis:
                length = len(entry.segment)
            if not any(SPACES[space].measured for space in spaces):
                assert prod(sizes[space] for space in spaces) == length, entry


@given(
    n_groups=st.integers(1, 20),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_segments_take_turns(n_groups, lengths):
    stride, offset = sum(lengths), 0
    owners: dict[int, int] = {}
    for part, length in enumerate(lengths):
        segment = Segment(axis=0, offset=offset, length=length, stride=stride, n_groups=n_groups)
        offset += length
        assert len(segment) == n_groups * length
        owners |= {index: part for pair in segment.ranges() for index in range(*pair)}
    one_group = [part for part, length in enumerate(lengths) for _ in range(length)]
    assert [owners[index] for index in range(stride * n_groups)] == one_group * n_groups


@pytest.mark.parametrize(
    ("case", "role", "ranges"),
    [
        # for each of two KV groups: two query heads of 8, a key, a value
        ("internlm2", Role.ATTENTION_QUERY, ((0, 16), (32, 48))),
        ("internlm2", Role.ATTENTION_KEY, ((16, 24), (48, 56))),
        ("internlm2", Role.ATTENTION_VALUE, ((24, 32), (56, 64))),
        ("falcon_7b", Role.ATTENTION_KEY, ((32, 40),)),
        ("falcon_40b", Role.ATTENTION_KEY, ((16, 24), (48, 56))),
        ("gpt_neox", Role.ATTENTION_KEY, ((8, 16), (32, 40), (56, 64), (80, 88))),
        ("phi3", Role.ATTENTION_KEY, ((32, 48),)),
        ("phi3", Role.MLP_UP, ((48, 96),)),
        ("gpt2", Role.ATTENTION_VALUE, ((64, 96),)),
        ("deepseek_v3", Role.ATTENTION_KEY_ROPE, ((10, 14),)),
        ("deepseek_v3", Role.ATTENTION_VALUE_UP, ((6, 11), (17, 22), (28, 33), (39, 44))),
    ],
)
def test_where_a_part_lies(case, role, ranges):
    entry = found(case, role, 1)
    assert entry.segment is not None
    assert entry.segment.ranges() == ranges


def test_parts_of_internlm2_agree_with_reshaping():
    rows = np.arange(64).reshape(2, 2 + 2, 8)  # KV groups, query heads and key and value, dimensions
    expected = {
        Role.ATTENTION_QUERY: rows[:, :2],
        Role.ATTENTION_KEY: rows[:, 2],
        Role.ATTENTION_VALUE: rows[:, 3],
    }
    for role, block in expected.items():
        segment = found("internlm2", role, 1).segment
        assert segment is not None
        assert [index for pair in segment.ranges() for index in range(*pair)] == block.ravel().tolist()


def test_gate_and_up_columns_take_turns_in_gpt_oss():
    architecture = detect(*recorded("gpt_oss"))
    gate, up = found("gpt_oss", Role.EXPERT_GATE, 0), found("gpt_oss", Role.EXPERT_UP, 0)
    assert gate.segment is not None
    assert up.segment is not None
    assert gate.transposed
    assert gate.axes == (("experts",), ("residual",), ("expert_mlp",))
    assert gate.segment.ranges()[:2] == ((0, 1), (2, 3))
    assert up.segment.ranges()[:2] == ((1, 2), (3, 4))
    assert architecture.experts_of(0) == range(4)


def test_packed_experts_of_gpt_oss_are_stored_output_first():
    architecture = detect(*load("gpt_oss_packed"))
    gate = found("gpt_oss_packed", Role.EXPERT_GATE, 0, "packed")
    assert not gate.transposed
    assert gate.axes == (("experts",), ("expert_mlp",), ("packed",), ("packed",))
    assert architecture.find(Role.EXPERT_DOWN, 0, "scale")
    assert architecture.find(Role.EXPERT_DOWN, 0) is None


def test_conv1d_is_stored_input_first():
    entry = found("gpt2", Role.MLP_UP, 0)
    assert entry.transposed
    assert entry.axes == (("residual",), ("mlp",))


def test_query_heads_are_named_alike_fused_or_not():
    fused = found("internlm2", Role.ATTENTION_QUERY, 0)
    single = found("llama", Role.ATTENTION_QUERY, 0)
    assert fused.axes == single.axes == (("heads", "qk_dim"), ("residual",))


def test_biases_belong_to_the_component_of_their_weight():
    entry = found("qwen2", Role.ATTENTION_KEY, 0, "bias")
    assert (entry.component, entry.axes) == ("attention", (("kv_heads", "qk_dim"),))


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        ("gpt2_masks", "attn.bias"),
        ("gpt2_masks", "masked_bias"),
        ("gpt_neox_masks", "attention.bias"),
        ("llama_frequencies", "inv_freq"),
        ("chatglm", "inv_freq"),
        ("bert_gamma_beta", "position_ids"),
        ("whisper", "encoder.embed_positions.weight"),
    ],
)
def test_computed_tables_are_marked(case, ending):
    fixed = [entry for entry in detect(*load(case)).tensors if entry.fixed]
    assert any(entry.tensor.endswith(ending) for entry in fixed)


def test_learned_positions_are_not_marked():
    assert found("whisper", Role.POSITION_EMBEDDING, stack="encoder").fixed
    assert not found("whisper", Role.POSITION_EMBEDDING, stack="decoder").fixed


@pytest.mark.parametrize(
    ("case", "part", "suffix"),
    [
        ("llama_gptq", "packed", "qweight"),
        ("llama_gptq", "scale", "scales"),
        ("deepseek_v3_fp8_mtp", "scale", "weight_scale_inv"),
    ],
)
def test_pieces_of_quantised_weights_keep_the_role(case, part, suffix):
    entries = [
        entry
        for entry in detect(*load(case)).tensors
        if entry.role is Role.ATTENTION_OUTPUT and entry.layer == 1 and entry.part == part
    ]
    assert any(entry.tensor.endswith(suffix) for entry in entries)
    assert all(spaces == ("packed",) for entry in entries for spaces in entry.axes)


@pytest.mark.parametrize(
    ("case", "space", "free"),
    [
        ("llama", "residual", True),
        ("llama", "mlp", True),
        ("llama", "kv_heads", True),
        ("llama", "qk_dim", False),
        ("llama", "v_dim", True),
        ("llama", "vocab", False),
        ("gpt2", "qk_dim", True),
        ("bloom", "heads", False),
        ("falcon_rw", "heads", False),
        ("falcon_7b", "heads", True),
        ("whisper", "encoder_residual", False),
        ("whisper", "residual", True),
        ("glm4_moe", "experts", True),
        ("deepseek_v3", "experts", False),
        ("deepseek_v3", "rope_dim", False),
        ("deepseek_v3", "nope_dim", True),
    ],
)
def test_which_axes_may_be_reordered(case, space, free):
    found = detect(*load(case)).space(space)
    assert found.exchangeable is free
    assert found.why


def test_heads_of_t5_are_tied_across_layers():
    assert detect(*recorded("t5")).space("heads").scope == "model"
    assert detect(*recorded("llama")).space("heads").scope == "layer"


def test_both_stacks_of_an_encoder_decoder_are_found():
    architecture = detect(*recorded("t5"))
    assert architecture.kind == "encoder-decoder"
    assert architecture.layers_of(Role.CROSS_ATTENTION_KEY) == (0, 1, 2)
    assert architecture.layers_of(Role.ATTENTION_QUERY, stack="encoder") == (0, 1)
    assert found("t5", Role.ATTENTION_QUERY, 0).tensor.startswith("decoder.")
    assert found("t5", Role.ATTENTION_QUERY, 0, stack="encoder").tensor.startswith("encoder.")
    assert found("t5", Role.EMBEDDING).stack == "shared"


def test_half_of_an_encoder_decoder_is_an_encoder():
    architecture = detect(*recorded("t5_encoder"))
    assert (architecture.kind, architecture.layers, architecture.encoder_layers) == ("encoder", (0, 1), ())


def test_every_role_has_a_component():
    assert Role.ROUTER_BIAS.component == "router"
    assert Role.QUERY_NORM.component == "norms"
    assert Role.EXPERT_UP.component == "experts"
    assert Role.CROSS_ATTENTION_OUTPUT.component == "attention"
    assert {role.value for role in Role if role.component == "other"} == {
        "pooler",
        "classifier",
        "mtp_projection",
        "fixed_table",
    }


def test_lookups_of_what_is_not_there():
    architecture = detect(*recorded("llama"))
    assert architecture.find(Role.EXPERT_UP, 0) is None
    assert architecture.layers_of(Role.ROUTER) == ()
    assert list(architecture.experts_of(0)) == []
    assert str(architecture) == "Llama and look-alikes: 2 layers, 21 roles, 0 unknown"
