"""Adapters that are malformed, hostile, or of kinds that cannot be applied: refused by name, nothing else."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.adapters_support import (
    TARGETS,
    UP,
    Q,
    adapter_files,
    base_files,
    config_bytes,
    factors,
    write,
)

import modelkin as mk
from modelkin.errors import ConfigError, FormatError, UnsupportedFormat
from modelkin.formats import fit_to_base, sort_out
from modelkin.formats.adapters._patterns import Patterns
from modelkin.formats.adapters.config import parse_adapter_config
from modelkin.formats.adapters.reading import apply_fit
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource

PREFIX = f"base_model.model.{Q}"


@pytest.mark.parametrize(
    "kind",
    ["IA3", "LOHA", "LOKR", "ADALORA", "VERA", "OFT", "PROMPT_TUNING", "PREFIX_TUNING", "X" * 500, None],
)
def test_other_kinds_of_adapters_are_refused_by_name(kind):
    with pytest.raises(UnsupportedFormat, match=rf"type '?{(kind or '.none.')[:20]}"):
        parse_adapter_config(config_bytes(peft_type=kind))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("init_lora_weights", "pissa_niter_4", "changes the base"),
        ("init_lora_weights", "olora", "changes the base"),
        ("init_lora_weights", ["gaussian"], "changes the base"),
        ("layer_replication", [[0, 4], [2, 5]], "repeats layers"),
        ("use_qalora", True, "QA-LoRA"),
        ("alora_invocation_tokens", [1, 2], "after certain tokens"),
        ("trainable_token_indices", [1, 2], "single token rows"),
        ("alpha_pattern", {"(a+)+b": 3}, "not evaluated"),
        ("alpha_pattern", {".*.*.*x": 3}, "not evaluated"),
        ("rank_pattern", {"(q|q)(q|q)(q|q)": 3}, "not evaluated"),
        ("rank_pattern", {"q" * 1000: 3}, "not evaluated"),
    ],
)
def test_what_cannot_be_applied_is_said(field, value, said):
    with pytest.raises(UnsupportedFormat, match=said):
        parse_adapter_config(config_bytes(**{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("r", 0),
        ("r", -1),
        ("r", 10**9),
        ("r", 10**400),
        ("r", True),
        ("r", "8"),
        ("r", 4.0),
        ("lora_alpha", float("nan")),
        ("lora_alpha", float("inf")),
        ("lora_alpha", 10**400),
        ("lora_alpha", None),
        ("lora_alpha", True),
        ("use_rslora", 1),
        ("use_dora", "yes"),
        ("fan_in_fan_out", []),
        ("rank_pattern", ["q_proj"]),
        ("rank_pattern", {"q_proj": 0}),
        ("alpha_pattern", {"q_proj": "x"}),
        ("alpha_pattern", {"[0-9": 1}),
        ("bias", "some"),
        ("bias", {}),
        ("target_parameters", "experts"),
        ("target_parameters", [1]),
        ("base_model_name_or_path", 7),
        ("base_model_name_or_path", "x" * 5000),
        ("revision", ["main"]),
    ],
)
def test_values_of_the_wrong_kind_are_refused(field, value):
    with pytest.raises(FormatError, match=r"expected|not evaluated"):
        parse_adapter_config(config_bytes(**{field: value}))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"nonsense", b"[" * 100_000, b'{"peft_type": "LORA"', b"\xff\xfe"]
)
def test_what_is_no_object_is_no_config(data):
    with pytest.raises(ConfigError, match="expected"):
        parse_adapter_config(data)


def test_patterns_count_in_their_order_and_by_the_end_of_a_name():
    config = parse_adapter_config(
        config_bytes(alpha_pattern={"q_proj": 1, f"^{Q}": 2, r".*\.k_proj": 3, "layers.1.v_proj": 4, "j": 5})
    )
    names = [Q, "a.k_proj", "a.layers.1.v_proj", "layers.11.v_proj", "x.j", "xj"]
    assert [config.alphas.of(name, 0.0) for name in names] == [1, 3, 4, 0, 5, 0]


def test_a_hostile_config_leaves_the_tokenizer_readable(tmp_path):
    files = adapter_files() | {"adapter_config.json": b"[]", "tokenizer.json": b"{}"}
    with mk.open_model(str(write(tmp_path / "adapter", files))) as model:
        assert model.read_file("tokenizer.json", limit=10) == b"{}"
        with pytest.raises(ConfigError, match="expected a JSON object"):
            _ = model.index


def opened(tmp_path, tensors, **changes):
    adapter = write(tmp_path / "adapter", adapter_files(tensors, **changes))
    return mk.open_model(f"{adapter}::{write(tmp_path / 'base', base_files())}")


def changed(**arrays):
    return {name: arrays.get(name.rpartition(".lora_")[2], array) for name, array in factors((Q,)).items()}


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (
            changed(**{"A.weight": np.zeros((4, 33), np.float32)}),
            r"the update is 32 x 33, the base has \[32, 32\]",
        ),
        (changed(**{"A.weight": np.zeros((5, 32), np.float32)}), "cannot be multiplied"),
        (changed(**{"A.weight": np.zeros((4, 32), np.int32)}), "cannot be multiplied"),
        (changed(**{"A.weight": np.zeros((4, 32, 1), np.float32)}), "cannot be multiplied"),
        (changed(**{"A.weight": np.zeros((), np.float32)}), "cannot be multiplied"),
        (factors((Q,), rank=2), "the config says rank 4, A has 2 rows"),
        ({f"{PREFIX}.lora_A.weight": np.zeros((4, 32), np.float32)}, "not one A and one B"),
        (factors() | {f"{PREFIX}.lora_C.weight": np.zeros(3, np.float32)}, "no part of a LoRA adapter"),
        (factors() | {f"{PREFIX}.hada_w1_a": np.zeros(3, np.float32)}, "no part of a LoRA adapter"),
        (
            factors() | {f"{PREFIX}.lora_magnitude_vector": np.zeros(32, np.float32)},
            "the config does not mention them",
        ),
        (factors() | {f"{PREFIX}.lora_B.bias": np.zeros(31, np.float32)}, "a bias of shape"),
        (factors() | {f"{PREFIX}.lora_B.bias": np.zeros(32, np.float32)}, "which the base does not have"),
        (
            {name.replace("layers.0", "layers.9"): array for name, array in factors((Q,)).items()},
            "the base has no tensor model.layers.9",
        ),
        (
            factors() | {f"{Q}.lora_A.weight": np.zeros((4, 32), np.float32)},
            "has two tensors for the same part",
        ),
    ],
)
def test_matrices_that_do_not_fit_are_refused(tmp_path, tensors, said):
    with opened(tmp_path, tensors) as model, pytest.raises(UnsupportedFormat, match=said):
        _ = model.index


def test_trained_lengths_must_be_there_if_the_config_says_so(tmp_path):
    model = opened(tmp_path, factors(), use_dora=True)
    with pytest.raises(UnsupportedFormat, match=r"trained lengths .DoRA. are missing"):
        _ = model.index


def test_integers_of_the_base_cannot_be_added_to(tmp_path):
    tensors = {f"{Q}.weight": np.zeros((32, 32), np.int32)}
    adapter = write(tmp_path / "adapter", adapter_files(factors((Q,))))
    base = write(tmp_path / "base", {"model.safetensors": safetensors_bytes(tensors)})
    model = mk.open_model(f"{adapter}::{base}")
    with pytest.raises(UnsupportedFormat, match="is not in a format that can be added to"):
        _ = model.index


def test_square_experts_are_not_guessed():
    shape = {"m.experts.down": np.zeros((2, 6, 6), np.float32)}
    tensors = {
        "base_model.model.m.experts.lora_A.weight": np.zeros((8, 6), np.float32),
        "base_model.model.m.experts.lora_B.weight": np.zeros((6, 8), np.float32),
    }
    config = parse_adapter_config(config_bytes(target_parameters=["experts.down"]))
    base = mk.open_model(MemorySource({"model.safetensors": safetensors_bytes(shape)}))
    adapter = mk.open_model(MemorySource({"model.safetensors": safetensors_bytes(tensors)}))
    fit = fit_to_base(config, sort_out(adapter.index), base.index)
    assert tuple(map(str, fit.problems)) == (
        "m.experts.down: its matrices are square, so shapes do not tell inputs from outputs",
    )


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_damaged_config_is_refused_or_read(data):
    whole = config_bytes(rank_pattern={"q_proj": 4}, alpha_pattern={".*up_proj": 3})
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:place] + data.draw(st.binary(max_size=4)) + whole[place + data.draw(st.integers(0, 6)) :]
    with_errors(lambda: parse_adapter_config(damaged))


FIELDS = st.sampled_from(sorted(json.loads(config_bytes(use_dora=False, revision="x", bias="none"))))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(fields=st.dictionaries(FIELDS, VALUES, max_size=3))
def test_any_values_are_refused_or_read(fields):
    document = json.loads(config_bytes()) | fields
    with_errors(lambda: parse_adapter_config(json.dumps(document).encode()))


ENDINGS = [
    *(".lora_A.weight", ".lora_B.weight", ".lora_embedding_A", ".lora_embedding_B", ".weight", ".bias"),
    *(".lora_magnitude_vector", ".lora_B.bias", ".default", ".base_layer.weight"),
]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_shapes_and_names_are_refused_or_read(data):
    sizes = st.sampled_from([0, 1, 4, 32, 64])
    names = data.draw(
        st.lists(
            st.builds(
                "{}{}{}".format,
                st.sampled_from(["base_model.model.", "", "model."]),
                st.sampled_from([*TARGETS, "lm_head", "model.embed_tokens", "", "."]),
                st.sampled_from(ENDINGS),
            ),
            unique=True,
            max_size=5,
        )
    )
    tensors = {
        name: np.zeros(data.draw(st.lists(sizes, max_size=3)), np.float32)
        for name in names
        if name.strip(".")
    }
    config = parse_adapter_config(config_bytes(use_dora=data.draw(st.booleans())))
    base = mk.open_model(MemorySource(base_files()))
    index = mk.open_model(MemorySource({"model.safetensors": safetensors_bytes(tensors)})).index

    def applied():
        fit = fit_to_base(config, sort_out(index), base.index)
        result = apply_fit(config, fit, base.index, file="adapter_config.json")
        for info in result.values():
            if info.storage is not None and info.n_elements:
                info.storage.plan([(0, 1)])

    with_errors(applied)


def with_errors(run):
    """Run something that may be refused, and in no other way fail."""
    said = ""
    try:
        run()
    except FormatError as error:
        said = str(error)
    assert len(said) < 2000
    assert said.isprintable()


def test_an_update_can_be_named_in_a_report(tmp_path):
    with opened(tmp_path, factors()) as model:
        assert mk.inspect_model(model).dtypes["F32+LoRA"] == sum(
            model.index[f"{name}.weight"].n_elements for name in (Q, UP)
        )


PATTERN_PARTS = ("q", "up", "_", "proj", "\\.", ".", "\\d", "[0-9]", "1", "layers")


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(st.sampled_from(PATTERN_PARTS), max_size=6),
    repeated=st.sampled_from(("", ".*", ".+", "\\d+", "[0-9]*", "q*", "\\.+")),
    after=st.lists(st.sampled_from(PATTERN_PARTS), max_size=6),
    anchors=st.sampled_from((("", ""), ("^", ""), ("", "$"), ("^", "$"))),
    module=st.text(alphabet="qup_roj.1\u0663layers", max_size=24),
)
def test_patterns_mean_what_they_mean_to_peft(before, repeated, after, anchors, module):
    key = anchors[0] + "".join(before) + repeated + "".join(after) + anchors[1]
    patterns = Patterns.of_items({key: 1}, "adapter_config.json")
    assert patterns.of(module, 0) == (re.match(rf"(.*\.)?({key})$", module) is not None)


@pytest.mark.timeout(20)
def test_long_names_and_many_patterns_take_no_time():
    keys = {f"{'.' * 50}.*{'.' * 50}z{number}": number for number in range(64)}
    patterns = Patterns.of_items(keys, "adapter_config.json")
    names = [f"{'a.' * 500}z{number}" for number in range(60, 160)]
    assert [patterns.of(name, -1) for name in names] == [60, 61, 62, 63, *[-1] * 96]
