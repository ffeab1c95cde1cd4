"""ONNX files made to mislead: each is refused with a message, or read; nothing else ever happens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.formats.onnx_files import golden, model_bytes, node, opened, tensor
from tests.formats.test_onnx_models import with_external_data

import modelkin as mk
from modelkin.errors import FormatError, HeaderError, NotFound
from modelkin.formats.onnx import _schema
from modelkin.formats.onnx import parse as parse_module
from modelkin.formats.onnx import wire as wire_module
from modelkin.untrusted import name_problem

KIND = {
    1: "double",
    2: "float",
    9: "string",
    11: "message",
    12: "bytes",
    **dict.fromkeys((3, 4, 5, 13, 14), ""),
}
"""Names of protobuf's types that are not varints."""
ONES = np.ones((4, 4), np.float32)


def varint(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value & (1 << 64) - 1)


def weight(
    name: bytes = b"fc.weight",
    *,
    shape: Sequence[int] = (2, 2),
    kind: int = 1,
    data: bytes = b"\0" * 16,
    more: bytes = b"",
) -> bytes:
    dims = b"".join(number(1, length) for length in shape)
    return dims + number(2, kind) + field(8, name) + field(9, data) + more


def graph(*tensors: bytes, nodes: bytes = b"") -> bytes:
    return field(7, nodes + b"".join(field(5, item) for item in tensors))


def refused(data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words):
        _ = opened(data).index


def test_the_parts_of_these_files_are_right():
    """What is refused below is refused for its fault, not for how it is made."""
    model = opened(graph(weight(), weight(b"fc.bias", shape=(4,))))
    assert set(model.index) == {"fc.weight", "fc.bias"}
    assert model.tensor("fc.weight").tolist() == [[0, 0], [0, 0]]


def entry(key: bytes, value: bytes) -> bytes:
    return field(13, field(1, key) + field(2, value))


OUTSIDE = entry(b"location", b"weights.bin")
EXTERNAL = {
    "field 14 as bytes": (field(14, b"\1"), "field 14 at byte [0-9]+ has wire type 2"),
    "field 14 as four bytes": (varint(14 << 3 | 5) + b"\1\0\0\0", "field 14 at byte [0-9]+ has wire type 5"),
    "a place that there is not": (number(14, 1) + number(14, 5), "more than once"),
    "a large place": (number(14, (1 << 32) + 1), "more than once"),
    "two places": (number(14, 1) + number(14, 0), "more than once"),
    "a field number that protobuf cuts": (varint((1 << 33) | 14 << 3) + b"\1", "got number"),
    "inside and outside": (number(14, 1), "numbers of its own and others"),
    "said to be inside": (number(14, 0), "numbers of its own and others"),
    "not said": (b"", "numbers of its own and others"),
}


@pytest.mark.parametrize("how", EXTERNAL)
def test_data_that_protobuf_takes_from_another_file_are_not_read_from_this_one(how):
    more, words = EXTERNAL[how]
    refused(graph(weight(more=OUTSIDE + more)), words)


def test_numbers_that_are_there_twice_are_refused():
    refused(graph(weight(more=field(4, b"\0" * 16))), "keeps its numbers twice")
    refused(graph(weight(kind=(1 << 32) + 1)), "has the type 4294967297")
    sparse = field(7, field(5, weight()) + field(15, field(1, weight())))
    refused(sparse, "occurs twice, once in sparse form")
    constant = field(5, field(1, b"value") + field(5, weight()) + field(5, weight()))
    node = field(1, field(2, b"fc.weight") + field(4, b"Constant") + constant)
    refused(field(7, node), "an attribute holds two tensors")


@pytest.mark.parametrize("message", ["model", "graph", "tensor"])
def test_every_known_field_has_its_own_wire_type(message):
    kinds = {"model": _schema.MODEL, "graph": _schema.GRAPH, "tensor": _schema.TENSOR}[message]
    for place, wires in kinds.items():
        wrong = next(wire for wire in (0, 5, 2) if wire not in wires)
        item = varint(place << 3 | wrong) + {0: b"\1", 5: b"\1\0\0\0", 2: b"\1\0"}[wrong]
        data = {
            "model": item + graph(weight()),
            "graph": field(7, field(5, weight()) + item),
            "tensor": graph(weight(more=item)),
        }[message]
        refused(data, f"field {place} at byte [0-9]+ has wire type {wrong}")


@st.composite
def odd_fields(draw: st.DrawFn) -> bytes:
    """Return fields that may repeat, contradict or imitate those of a tensor."""
    made = b""
    for _ in range(draw(st.integers(0, 4))):
        place, wire = (
            draw(st.sampled_from((1, 2, 4, 8, 9, 13, 14, 14, 14, 17))),
            draw(st.sampled_from((0, 0, 2, 5))),
        )
        key = varint(draw(st.sampled_from((0, 0, 0, 1 << 33))) | place << 3 | wire)
        value = draw(st.sampled_from((0, 1, 2, 5, (1 << 32) + 1)))
        payload = draw(
            st.sampled_from((b"", b"\1", field(1, b"location") + field(2, b"weights.bin"), b"\7" * 16))
        )
        made += key + {0: varint(value), 2: varint(len(payload)) + payload, 5: b"\1\0\0\0"}[wire]
    return made


@settings(max_examples=150, deadline=None)
@given(more=odd_fields(), inside=st.booleans())
def test_a_tensor_that_is_read_is_the_tensor_that_protobuf_sees(more, inside):
    made = weight(more=more) if inside else weight(more=more).replace(field(9, b"\0" * 16), b"", 1)
    data = graph(made)
    try:
        model = opened(data, **{"weights.bin": b"\5" * 64})
        index = model.index
    except (FormatError, NotFound):
        return
    theirs = onnx.load_model_from_string(data).graph.initializer[0]
    if theirs.data_type != TensorProto.FLOAT or name_problem(theirs.name):
        return
    info = index[theirs.name]
    assert list(info.shape) == list(theirs.dims)
    external = theirs.HasField("data_location") and theirs.data_location == TensorProto.EXTERNAL
    assert (info.file == "weights.bin") == external
    expected = b"\5" * info.n_bytes if external else numpy_helper.to_array(theirs).tobytes()
    assert np.asarray(model.tensor(theirs.name)).tobytes() == expected


def test_the_wire_types_are_those_of_the_onnx_package():
    messages = {
        "ModelProto": _schema.MODEL,
        "GraphProto": _schema.GRAPH,
        "FunctionProto": _schema.FUNCTION,
        "NodeProto": _schema.NODE,
        "AttributeProto": _schema.ATTRIBUTE,
        "TensorProto": _schema.TENSOR,
        "SparseTensorProto": _schema.SPARSE_TENSOR,
        "ValueInfoProto": _schema.VALUE,
        "StringStringEntryProto": _schema.ENTRY,
    }
    for name, kinds in messages.items():
        for found in getattr(onnx, name).DESCRIPTOR.fields:
            kind = {"double": 1, "float": 5, "string": 2, "message": 2, "bytes": 2}.get(KIND[found.type], 0)
            expected = {kind, 2} if found.is_repeated else {kind}
            assert set(kinds[found.number]) == expected, (name, found.name)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"\x08", "a number is missing at byte 1"),
        (b"\x08" + b"\xff" * 30, "does not end after 10 bytes"),
        (b"\x3a\xff\xff\xff\xff\x0f", "claims to end at"),
        (b"\x3b\x00", "has wire type 3"),
        (b"\x02\x00", "got number 0"),
        (b"\x08\x07", "holds no graph"),
        (b"\x38\x07", "field 7 at byte 1 has wire type 0, expected 2"),
        (graph() + graph(), "holds two graphs"),
        (b"GGUF\x03\x00\x00\x00", "wire type|claims to end|number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_onnx_file_is_refused(data, words):
    refused(data, words)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (weight(shape=(2, 3)), "takes 24 bytes, but has 16"),
        (weight(shape=(1 << 40, 1 << 40)), "has the absurd shape"),
        (weight(shape=(-2, 2)), "has the absurd shape"),
        (weight(shape=(0, 1 << 62), data=b""), "has the absurd shape"),
        (weight(shape=(1,) * 17), "has more than 16 axes"),
        (weight(name=b"x" * 5000), "has 5000 bytes, more than 4096"),
        (weight(name=b"a\xffb"), "is not UTF-8"),
        (weight(more=field(3, b"")), "comes in segments"),
        (weight(data=b"", shape=(2,), more=field(4, b"\0" * 4) + field(4, b"\0" * 4)), "several pieces"),
        (number(1, 4) + number(2, 1) + field(8, b"w.w"), "has no numbers"),
        (number(1, 4) + number(2, 1) + field(8, b"w.w") + field(5, b"\1\2\3\4"), "in field 5"),
        (number(1, 4) + number(2, 3) + field(8, b"w.w") + field(4, b"\0" * 16), "as floats"),
        (number(1, 4) + number(2, 3) + field(8, b"w.w") + field(5, b"\1\2"), "which is impossible"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_tensor_that_contradicts_itself_is_refused(made, words):
    refused(graph(made), words)


def test_two_tensors_of_one_name_are_refused():
    refused(graph(weight(), weight()), "occurs twice")


def test_two_tensors_that_come_to_have_one_name_are_refused():
    refused(graph(weight(b"fc.weight"), weight(b"fc.weight_quantized")), "two weights are called 'fc.weight'")


def test_varints_that_do_not_add_up_are_refused_when_read():
    """Four numbers were promised; four bytes are there, but they are two numbers."""
    made = number(1, 4) + number(2, 10) + field(8, b"fc.bias") + field(5, b"\xff\x01\xff\x01")
    model = opened(graph(made))
    with pytest.raises(HeaderError, match=r"tensor 'fc\.bias' does not have 4 numbers"):
        model.tensor("fc.bias")


def test_graphs_in_each_other_end_at_a_depth():
    nested = b""
    for _ in range(40):
        nested = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, nested)))
    refused(field(7, nested), f"nests graphs more than {parse_module.MAX_DEPTH} deep")


def test_the_number_of_fields_is_bounded(monkeypatch):
    monkeypatch.setattr(wire_module, "MAX_FIELDS", 1000)
    refused(field(7, b"\x52\x00" * 2000), "has more than 1,000 fields")


def test_the_number_of_tensors_and_operators_is_bounded(monkeypatch):
    monkeypatch.setattr(parse_module, "MAX_TENSORS", 3)
    monkeypatch.setattr(parse_module, "MAX_NODES", 3)
    refused(graph(*(weight(b"w%d.w" % n) for n in range(5))), "has more than 3 tensors")
    refused(graph(nodes=field(1, field(4, b"Add")) * 5), "has more than 3 operators")


def test_what_is_read_beside_the_weights_is_bounded(monkeypatch):
    monkeypatch.setattr(wire_module, "MAX_READ", 50_000)
    refused(graph(nodes=field(1, field(3, b"n" * 4000)) * 50), "its graph takes more than")


def test_a_graph_whose_values_run_in_a_circle_is_read():
    nodes = [
        node("MatMul", ["b", "fc.weight"], ["a"]),
        node("Add", ["a", "b"], ["b"]),
        node("Cast", ["d"], ["c"], to=TensorProto.FLOAT),
        node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
        node("MatMul", ["x", "d"], ["d"]),
    ]
    assert set(opened(model_bytes(nodes, [tensor("fc.weight", ONES)])).index) == {"fc.weight"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"K": 4, "N": 4, "bits": 4, "block_size": 0},
        {"K": 4, "N": 4, "bits": 3, "block_size": 16},
        {"K": 1 << 62, "N": 1 << 62, "bits": 4, "block_size": 16},
        {"K": -4, "N": 4, "bits": 4, "block_size": 16},
        {"K": 4, "N": 5, "bits": 4, "block_size": 16},
        {},
    ],
)
def test_blocks_that_cannot_be_are_not_decoded(attributes):
    """The codes are then shown as what they are: bytes under a name that says nothing."""
    nodes = [node("MatMulNBits", ["x", "w.weight_Q4", "s"], ["y"], domain="com.microsoft", **attributes)]
    tensors = [tensor("w.weight_Q4", np.zeros((4, 1, 8), np.uint8)), tensor("s", np.ones(4, np.float32))]
    model = opened(model_bytes(nodes, tensors))
    assert all(info.storage is None for info in model.index.values())


@pytest.mark.parametrize("how", ["order of inputs", "layout of hardware"])
def test_blocks_in_an_order_of_their_own_are_not_decoded(how):
    names = ["x", "w.weight_Q4", "s", "", "g"] if how == "order of inputs" else ["x", "w.weight_Q4", "s"]
    sizes: dict[str, Any] = {"K": 16, "N": 4, "bits": 4, "block_size": 16}
    sizes |= {"weight_prepacked": 1} if how == "layout of hardware" else {}
    nodes = [node("MatMulNBits", names, ["y"], domain="com.microsoft", **sizes)]
    tensors = [
        tensor("w.weight_Q4", np.zeros((4, 1, 8), np.uint8)),
        tensor("s", np.ones(4, np.float32)),
        tensor("g", np.arange(16, dtype=np.int32)),
    ]
    assert opened(model_bytes(nodes, tensors)).index["w.weight"].storage is None


@pytest.mark.parametrize("axis", [-9, 2, 1 << 40])
def test_scales_along_an_axis_that_is_not_there_are_not_used(axis):
    nodes = [
        node("DequantizeLinear", ["w.weight", "s"], ["d"], axis=axis),
        node("MatMul", ["x", "d"], ["y"]),
    ]
    tensors = [tensor("w.weight", np.zeros((4, 4), np.int8)), tensor("s", np.ones(4, np.float32))]
    assert opened(model_bytes(nodes, tensors)).index["w.weight"].dtype == "I8"


# -- data in other files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    ["../secret", "/etc/passwd", "a/../../b", "C:\\x", "~/x", "", "a\0b", "./x", "a//b", "x" * 2000],
)
def test_data_outside_the_model_is_refused(location, tmp_path):
    data, beside, _ = with_external_data(location)
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(beside)
    (folder / "model.onnx").write_bytes(data)
    with pytest.raises(HeaderError, match="whose name"):
        _ = mk.open_model(str(folder)).index


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"offset": "-8"}, "which is not a number of bytes"),
        ({"offset": "1e3"}, "which is not a number of bytes"),
        ({"offset": "9" * 30}, "which is not a number of bytes"),
        ({"offset": "9" * 18}, "claims bytes"),
        ({"offset": "16"}, "claims bytes 16-112 of 'model.onnx_data', which has 104"),
        ({"length": "4"}, "takes 96 bytes, but 4 are stated"),
        ({"length": "\u0663"}, "which is not a number of bytes"),
    ],
)
def test_places_that_do_not_fit_the_file_are_refused(stated, words):
    data, beside, _ = with_external_data(**stated)
    with pytest.raises(HeaderError, match=re.escape(words)):
        _ = opened(data, **{"model.onnx_data": beside}).index


def test_data_that_is_missing_is_named():
    data, _, _ = with_external_data()
    with pytest.raises(NotFound, match=r"model\.onnx_data: no such file, although tensor 'fc\.weight'"):
        _ = opened(data).index


def test_tensors_may_share_their_data():
    """Overlap is not a contradiction: tied weights are stored this way."""
    data, beside, values = with_external_data()
    both = onnx_model(data)
    second = both.graph.initializer.add()
    second.CopyFrom(both.graph.initializer[0])
    second.name = "tied.weight"
    model = opened(both.SerializeToString(), **{"model.onnx_data": beside})
    np.testing.assert_array_equal(model.tensor("tied.weight"), values)


def onnx_model(data):
    made = helper.make_model(helper.make_graph([], "g", [], []))
    made.ParseFromString(data)
    return made


# -- anything at all -----------------------------------------------------------------------------------------


def look(data: bytes) -> None:
    """Open a file and read all of it; only errors of the format may come out."""
    try:
        with opened(data) as model:
            for name in model.index:
                model.tensor(name)
            mk.inspect_model(model)
    except FormatError:
        pass


PATIENT = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
SMALL = [golden(name)[0] for name in ("nbits_4_16_zeros", "lookup_blocks")]
LARGER = golden("bert_dynamic_int8")[0]


@PATIENT
@given(data=st.data())
def test_changed_bytes_end_in_an_error_of_the_format_or_in_numbers(data):
    whole = bytearray(data.draw(st.sampled_from(SMALL)))
    places = st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=6)
    for place, value in data.draw(places):
        whole[place] = value
    look(bytes(whole))


@PATIENT
@given(data=st.data())
def test_files_cut_short_end_in_an_error_of_the_format(data):
    whole = data.draw(st.sampled_from(SMALL))
    length = data.draw(st.integers(0, len(whole) - 1))
    try:
        with opened(whole[:length]) as model:
            assert len(model.index) >= 0
    except FormatError:
        return
    # What stands after the graph may be missing; of the graph nothing may.
    assert onnx_model(whole).graph.SerializeToString() in whole[:length]


@settings(PATIENT, max_examples=30)
@given(data=st.data())
def test_changed_bytes_of_a_whole_model_end_in_an_error_of_the_format_or_in_numbers(data):
    whole = bytearray(LARGER)
    start = data.draw(st.integers(0, len(whole) - 40))
    whole[start : start + 4] = data.draw(st.binary(min_size=4, max_size=4))
    look(bytes(whole))


@PATIENT
@given(data=st.binary(max_size=200))
def test_any_bytes_at_all_end_in_an_error_of_the_format_or_in_an_empty_model(data):
    look(data)
    look(field(7, data))
    look(graph(data))
