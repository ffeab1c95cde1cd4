"""Quantised files whose parts contradict each other: refused with the tensor's name, never with a crash."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.quantised_writers import SCHEMES, fp8, gptq, mxfp4
from tests.formats.test_quantised import NAME, PREFIX, matrix, opened
from tests.support import LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin.comparison.verdict import Conclusion
from modelkin.errors import FormatError, HeaderError
from modelkin.formats.safetensors import RawTensor, safetensors_bytes
from modelkin.source import MemorySource

Tensors = dict[str, npt.NDArray[Any]]


def parts(scheme: str) -> Tensors:
    return {PREFIX + name: one for name, one in SCHEMES[scheme].write(matrix())[0].items()}


def config_of(scheme: str, **changes: Any) -> dict[str, Any]:
    config = dict(SCHEMES[scheme].config)
    key = next(iter(config), "quantization_config")
    return {key: {**config.get(key, {}), **changes}}


def read(tensors: Mapping[str, npt.NDArray[Any]], config: Mapping[str, Any]) -> None:
    model = opened(tensors, config)
    for name in model.index:
        model.tensor(name)


# -- a part is missing --------------------------------------------------------------------------------

NEEDED = {
    "gptq-4": ["scales", "qzeros"],
    "awq": ["scales", "qzeros"],
    "awq-gemv": ["scales", "qzeros"],
    "nf4": ["weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map"],
    "bnb-8": ["SCB"],
    "fp8-block": ["weight_scale_inv"],
    "fp8-tensor": ["weight_scale"],
    "int8": ["weight_scale"],
    "int4": ["weight_scale", "weight_shape"],
    "nvfp4": ["weight_scale", "weight_global_scale"],
    "nvfp4-modelopt": ["weight_scale", "weight_scale_2"],
    "mxfp4": ["weight_scale"],
    "mlx-4": ["scales", "biases"],
    "hqq-4-1": ["scale", "zero", "nbits", "shape", "axis", "group_size"],
}


@pytest.mark.parametrize(("scheme", "missing"), [(s, name) for s, names in NEEDED.items() for name in names])
def test_a_weight_without_one_of_its_parts_is_an_error(scheme, missing):
    tensors = parts(scheme)
    del tensors[PREFIX + missing]
    with pytest.raises(HeaderError, match=r"up_proj.*missing"):
        read(tensors, SCHEMES[scheme].config)


def test_the_state_of_bitsandbytes_may_not_be_missing():
    tensors = parts("nf4")
    del tensors[f"{PREFIX}weight.quant_state.bitsandbytes__nf4"]
    with pytest.raises(HeaderError, match="its scales are missing"):
        read(tensors, SCHEMES["nf4"].config)


def test_experts_without_scales_are_an_error():
    codes = mxfp4(matrix())[0]["weight_packed"].reshape(2, 32, 3, 16)
    with pytest.raises(HeaderError, match=r"experts.*missing"):
        read({"mlp.experts.down_proj_blocks": codes}, {})


# -- parts that do not fit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "part", "change", "match"),
    [
        ("gptq-4", "scales", lambda one: one[:-1], r"expected the shape \[2, 8\]"),
        ("gptq-4", "scales", lambda one: one[:, :-1], r"expected the shape \[3, 64\]"),
        ("gptq-4", "qzeros", lambda one: one[:, :-1], r"expected the shape \[3, 8\]"),
        ("gptq-4", "g_idx", lambda one: one[:-8], "do not hold 88 codes"),
        ("gptq-4", "g_idx", lambda one: one[::-1].copy(), "expected groups in order"),
        ("gptq-act-order", "g_idx", lambda one: one + 3, "expected groups from 0 up to 2"),
        ("gptq-4", "qweight", lambda one: one.astype(np.int64), "expected I32, got I64"),
        ("awq", "scales", lambda one: one[:, :-1], r"expected the shape \[3, 64\]"),
        ("awq-gemv", "qzeros", lambda one: one[:-1], "expected 64 rows of 3 zero points"),
        ("nf4", "weight.absmax", lambda one: one[:-1], r"expected the shape \[96\]"),
        ("nf4", "weight", lambda one: one[:-1], "do not hold the 6144 codes"),
        ("nf4", "weight.quant_map", lambda one: one[:-1], r"expected the shape \[16\]"),
        ("bnb-8", "SCB", lambda one: one[:-1], r"expected the shape \[64\]"),
        ("bnb-8", "weight_format", lambda one: one + 1, "old GPU kernel"),
        ("fp8-block", "weight_scale_inv", lambda one: one[:, :-1].repeat(5, 0), "scales do not fit"),
        ("fp8-row", "weight_scale", lambda one: one[:-1, 0], "fit neither rows nor matrices"),
        ("int4", "weight_shape", lambda one: one + 1, "does not fit the packed"),
        ("int4", "weight_shape", lambda one: one * [1, 2], "do not determine the bits"),
        ("int4-zeros", "weight_zero_point", lambda one: one[:-1], r"expected the shape \[8, 3\]"),
        ("nvfp4", "weight_scale", lambda one: one[:, :-1], r"expected the shape \[64, 6\]"),
        ("nvfp4", "weight_global_scale", lambda one: one.repeat(2), "expected one number"),
        ("mlx-4", "scales", lambda one: one[:, :-1], r"expected the shape \[64, 3\]"),
        ("mlx-4", "biases", lambda one: one[:-1], r"expected the shape \[64, 3\]"),
        ("hqq-4-1", "nbits", lambda one: one + 3, "7 bits along axis 1"),
        ("hqq-4-1", "group_size", lambda one: one * 0, "do not fill groups of 0"),
        ("hqq-4-1", "scale", lambda one: one[:-1], "one per group"),
    ],
)
def test_parts_that_do_not_fit_are_named(scheme, part, change, match):
    tensors = parts(scheme)
    tensors[PREFIX + part] = np.asarray(change(tensors[PREFIX + part]))
    with pytest.raises(HeaderError, match=f"up_proj.*{match}"):
        read(tensors, SCHEMES[scheme].config)


def test_groups_of_another_size_than_the_config_says_are_refused():
    with pytest.raises(HeaderError, match="96 inputs in groups of 64 need 2 scales, got 3"):
        read(parts("gptq-4"), config_of("gptq-4", group_size=64))


def state(**changes: Any) -> Tensors:
    tensors = parts("nf4")
    name = f"{PREFIX}weight.quant_state.bitsandbytes__nf4"
    text = json.dumps({**json.loads(tensors[name].tobytes()), **changes}).encode()
    return {**tensors, name: np.frombuffer(text, np.uint8)}


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"shape": [64, -96]}, "shape of whole numbers"),
        ({"shape": None}, "shape of whole numbers"),
        ({"shape": [1 << 40, 1 << 40]}, "do not hold"),
        ({"shape": [2] * 40}, "shape of whole numbers"),
        ({"blocksize": 0}, "even number"),
        ({"blocksize": 63}, "even number"),
        ({"blocksize": "64"}, "even number"),
        ({"nested_blocksize": -256}, "even number"),
        ({"nested_offset": float("inf")}, "finite nested_offset"),
        ({"nested_offset": "0"}, "finite nested_offset"),
    ],
)
def test_states_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(HeaderError, match=match):
        read(state(**changes), {})


@pytest.mark.parametrize("text", [b"", b"[1]", b"\xff\xfe", b"[" * 50_000])
def test_a_state_that_is_no_json_object_is_refused(text):
    tensors = parts("nf4")
    tensors[f"{PREFIX}weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(text, np.uint8)
    with pytest.raises(HeaderError, match="expected a JSON object"):
        read(tensors, {})


def test_a_layer_that_says_otherwise_than_its_kind_is_found_out():
    first, second = parts("nf4"), state(shape=[96, 64])
    second = {name.replace("layers.0", "layers.1"): one for name, one in second.items()}
    model = opened({**first, **second})
    model.tensor(NAME)
    with pytest.raises(HeaderError, match=r"layers\.1.*as in other layers"):
        model.tensor(NAME.replace("layers.0", "layers.1"))


def test_a_state_of_megabytes_is_not_read():
    tensors = parts("nf4")
    tensors[f"{PREFIX}weight.quant_state.bitsandbytes__nf4"] = np.full(70_000, 32, np.uint8)
    with pytest.raises(HeaderError, match="expected a small plain tensor"):
        read(tensors, {})


def test_a_weight_that_is_there_twice_is_refused():
    tensors = {**parts("gptq-4"), NAME: matrix()}
    with pytest.raises(HeaderError, match="plain tensor and quantised"):
        read(tensors, SCHEMES["gptq-4"].config)


@pytest.mark.parametrize("scale", [np.nan, np.inf, 3e38, 0.0])
def test_scales_that_are_no_numbers_are_read_without_a_warning(scale):
    tensors, _ = fp8(matrix())
    tensors["weight_scale"] = np.array(scale, np.float32)
    model = opened({PREFIX + name: one for name, one in tensors.items()}, {})
    assert model.tensor(NAME).shape == (64, 96)


# -- what is not known --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "changes", "match"),
    [
        ("gptq-4", {"checkpoint_format": "marlin"}, "its layout is 'marlin'"),
        ("gptq-4", {"checkpoint_format": "gptq_p"}, "its layout is 'gptq_p'"),
        ("gptq-4", {"bits": 5}, "5-bit codes are not supported"),
        ("gptq-4", {"bits": None}, "the config does not say how many bits"),
        ("gptq-4", {"quant_method": "torchao"}, "quantised by 'torchao', which cannot be decoded"),
        ("gptq-4", {"quant_method": "quanto"}, "quantised by 'quanto', which cannot be decoded"),
        ("awq", {"version": "marlin"}, "its layout is 'marlin'"),
        ("awq", {"version": "gemm", "backend": "llm-awq"}, "supported: 'gemm', 'gemv'"),
        ("awq", {"bits": 8}, "8-bit codes are not supported"),
        ("mlx-4", {"mode": "nvfp4"}, "its mode is 'nvfp4'"),
        ("auto-round", {"packing_format": "auto_round:new"}, "'auto-round', which cannot be decoded"),
    ],
)
def test_a_scheme_that_is_not_known_leaves_tensors_as_they_are(scheme, changes, match):
    tensors = parts(scheme)
    model = opened(tensors, config_of(scheme, **changes))
    assert set(model.index) == set(tensors)
    assert any(match in note for note in map(str, model.weights.notes)), model.weights.notes


def test_packed_weights_without_a_config_are_left_alone_and_said():
    tensors, _ = gptq(matrix())
    model = opened({PREFIX + name: one for name, one in tensors.items()})
    assert f"{PREFIX}qweight" in model.index
    assert "no config says how" in str(model.weights.notes[0])


@pytest.mark.parametrize("value", [None, 3, "fp8", [], {}, {"quant_method": 7}, {"quant_method": []}])
def test_a_config_of_the_wrong_kind_is_no_config(value):
    model = opened({"model.norm.weight": np.ones(4, np.float32)}, {"quantization_config": value})
    assert list(model.index) == ["model.norm.weight"]


# -- anything at all ----------------------------------------------------------------------------------

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from(
        [0, 1, 2, 3, 4, 8, 32, 64, 128, -1, "gptq", "awq", "fp8", "hqq", "mlx", "gptq_v2", "gemv"]
    ),
    st.text(max_size=5),
    st.lists(st.integers(-2, 200), max_size=3),
    st.dictionaries(st.sampled_from(["weights", "num_bits", "x"]), st.integers(0, 9), max_size=2),
)
KEYS = st.sampled_from(
    [
        *(
            "quant_method",
            "bits",
            "group_size",
            "desc_act",
            "checkpoint_format",
            "version",
            "dynamic",
            "mode",
        ),
        *("weight_block_size", "config_groups", "w_bit", "packing_format"),
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[dict[str, RawTensor | npt.NDArray[Any]], dict[str, Any]]:
    scheme = draw(st.sampled_from(sorted(SCHEMES)))
    tensors: dict[str, Any] = dict(parts(scheme))
    for _ in range(draw(st.integers(0, 2))):
        if not tensors:
            break
        name = draw(st.sampled_from(sorted(tensors)))
        one = np.asarray(tensors[name]) if not isinstance(tensors[name], RawTensor) else None
        how = draw(st.sampled_from(["drop", "shape", "dtype", "data", "cut", "rename", "empty"]))
        if one is None or how == "drop":
            del tensors[name]
        elif how == "shape" and one.size:
            first = draw(st.sampled_from([n for n in range(1, one.size + 1) if one.size % n == 0]))
            shape = draw(
                st.sampled_from([(first, one.size // first), (one.size,), (1, one.size), (one.size, 1, 1)])
            )
            tensors[name] = one.reshape(shape)
        elif how == "dtype":
            data = one.tobytes()
            dtype, width = draw(
                st.sampled_from([("U8", 1), ("I8", 1), ("F8_E4M3", 1), ("F16", 2), ("I32", 4)])
            )
            tensors[name] = RawTensor(dtype, (len(data) // width,), data[: len(data) // width * width])
        elif how == "data":
            byte = draw(st.integers(0, 255))
            raw = bytes([byte]) * one.nbytes
            tensors[name] = np.frombuffer(raw, one.dtype).reshape(one.shape)
        elif how == "cut" and one.ndim:
            tensors[name] = np.ascontiguousarray(one[: draw(st.integers(0, len(one)))])
        elif how == "empty":
            tensors[name] = np.zeros((0, *one.shape[1:]), one.dtype)
        else:
            other = draw(
                st.sampled_from([".qweight", ".weight", ".scales", ".W_q", ".weight_packed", "_blocks"])
            )
            tensors[f"{PREFIX[:-1]}{other}"] = tensors.pop(name)
    config = config_of(scheme, **draw(st.dictionaries(KEYS, JUNK, max_size=2)))
    return tensors, config


@pytest.mark.more
@settings(max_examples=250, suppress_health_check=list(HealthCheck), deadline=None)
@given(case=damaged())
def test_damage_ends_in_a_format_error_or_in_numbers(case):
    tensors, config = case
    files = {
        "model.safetensors": safetensors_bytes(tensors),
        "config.json": json.dumps({"model_type": "llama", **config}).encode(),
    }
    model = mk.open_model(MemorySource(files))
    try:
        for name, info in model.index.items():
            assert model.tensor(name).size == math.prod(info.shape)
            if info.n_rows:
                model.tensor(name, rows=[info.n_rows - 1])
    except FormatError:
        pass  # refused, as it should be


# -- junk beside a good model -------------------------------------------------------------------------

BYTES = np.zeros((4, 4), np.uint8)
ANY_CODES = np.zeros((4, 4), np.int8)
LOOKALIKES: dict[str, Tensors] = {
    "scales without codes": {"x.SCB": np.ones(4, np.float32), "y.codes": ANY_CODES},
    "codes without scales": {"x.W_q": BYTES},
    "experts without scales": {"x_blocks": np.zeros((1, 2, 3, 16), np.uint8)},
    "packed bytes": {"x.weight_packed": BYTES},
    "packed integers": {"x.weight_packed": BYTES.astype(np.int32)},
    "a state without codes": {"x.weight.quant_state.bitsandbytes__nf4": BYTES},
    "a state that is none": {"x.weight.quant_state.bitsandbytes__nf4": BYTES, "x.weight": BYTES},
    "a long state": {
        "x.weight.quant_state.bitsandbytes__nf4": np.zeros(99_999, np.uint8),
        "x.weight": BYTES,
    },
    "scales that do not fit": {"x.weight": ANY_CODES, "x.weight_scale": np.ones(7, np.float32)},
    "a layout of a kernel": {
        "x.weight": ANY_CODES,
        "x.SCB": np.ones(4, np.float32),
        "x.weight_format": np.ones(1, np.uint8),
    },
    "scales of a plain weight": {
        "model.layers.0.mlp.up_proj.SCB": np.ones(64, np.float32),
        "y.codes": ANY_CODES,
    },
    "the parts of a plain weight": {
        name.replace(PREFIX, "model.layers.0.mlp.up_proj."): value for name, value in parts("hqq-4-1").items()
    },
    "two schemes at once": {
        f"x.{name.removeprefix(PREFIX)}": value
        for scheme in ("hqq-4-1", "int4")
        for name, value in parts(scheme).items()
    },
}


@pytest.mark.parametrize("junk", LOOKALIKES)
def test_a_tensor_that_only_looks_like_codes_costs_nothing_but_a_note(junk):
    plain = llama_tensors(LlamaShape(layers=1, hidden=64, mlp=128))
    model = opened({**plain, **LOOKALIKES[junk]}, {})
    assert plain.keys() <= model.index.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(model.tensor(name), value)
    (note,) = [note for note in model.weights.notes if note.code == "format.junk-tensors"]
    subject = "it" if note["n"] == 1 else "they"
    assert f"left out because {subject} cannot be interpreted" in str(note)


@pytest.mark.parametrize("scheme", ["gptq-4", "awq", "mlx-4", "nf4", "int4"])
def test_a_broken_weight_among_many_good_ones_is_left_out(scheme):
    good = {
        name.replace("layers.0", f"layers.{layer}"): value
        for layer in range(6)
        for name, value in parts(scheme).items()
    }
    main = {"mlx-4": "weight", "nf4": "weight", "int4": "weight_packed"}.get(scheme, "qweight")
    broken = {"x." + main: good[f"{PREFIX}{main}"]}
    model = opened({**good, **broken}, SCHEMES[scheme].config)
    assert {NAME.replace("layers.0", f"layers.{layer}") for layer in range(6)} <= model.index.keys()
    assert f"x.{main}" not in model.index
    assert "format.junk-tensors" in [note.code for note in model.weights.notes]


def test_a_model_that_is_mostly_junk_is_refused():
    small = {"model.norm.weight": np.ones(64, np.float32), **parts("nf4")}
    del small[f"{PREFIX}weight.absmax"]
    with pytest.raises(HeaderError, match="missing"):
        read(small, SCHEMES["nf4"].config)


def test_a_comparison_with_junk_ends_as_one_without_but_is_no_proof_of_sameness():
    files = llama_files()
    tensors = {**llama_tensors(), **LOOKALIKES["codes without scales"]}
    with_junk = files | {"model.safetensors": safetensors_bytes(tensors)}
    expected = {0: Conclusion.SHARED, 1: Conclusion.NO_EVIDENCE}
    for seed, conclusion in expected.items():
        result = mk.compare(candidate=MemorySource(with_junk), base=MemorySource(llama_files(seed=seed)))
        assert result.verdict.conclusion is conclusion
        assert "because it cannot be interpreted" in result.to_json()


@pytest.mark.parametrize("digits", [40, 299, 400, 5_000])
def test_an_offset_of_many_digits_is_an_error_of_the_file_or_no_number(digits):
    tensors = parts("nf4")
    name = f"{PREFIX}weight.quant_state.bitsandbytes__nf4"
    state = json.loads(bytes(tensors[name]))
    text = json.dumps(state | {"nested_offset": -1}).replace("-1", "1" * digits)
    tensors[name] = np.frombuffer(text.encode(), np.uint8)
    model = opened(tensors, SCHEMES["nf4"].config)
    if digits < 300:
        assert not np.isfinite(model.tensor(NAME)).all()
    else:
        with pytest.raises(HeaderError, match="a whole number has"):
            _ = model.index
