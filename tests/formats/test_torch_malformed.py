"""Pickles of torch files that are broken or too much: what is refused, and in which words."""

import pytest
from tests.formats.torch_writer import (
    PROTO,
    STOP,
    archive,
    call,
    group,
    integer,
    mapping,
    members_of,
    name,
    one_tensor,
    opened,
    read,
    storage,
    tensor,
    text,
    whole,
    zipped,
)

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats.torch import stack as stack_module

SH = text("touch executed")
OS_SYSTEM = name("os", "system")

MALFORMED = {
    "a stack too short": b"R",
    "a tuple too long": b"\x87",
    "a mark that is not there": b"t",
    "too many ends": b"tttt",
    "a memo that was never set": b"h\x09",
    "a memo set twice": b"Nq\x050Nq\x050N",
    "a memo of nothing": b"(q\x05",
    "items of a text": text("x") + b"Na",
    "items of a tuple": b")(NNe",
    "keys of a list": b"](NNu",
    "a key without value": b"}(Nu",
    "a key that is a list": b"}]Ns",
    "a key that is a tuple of tuples": b"}" + group(b")") + b"Ns",
    "a key that stands twice": b"}(" + 2 * (text("k") + b"N") + b"u",
    "a call of a text": text("os.system") + b")R",
    "a call of a number": integer(3) + b")R",
    "arguments that are a list": name("collections", "OrderedDict") + b"]R",
    "a name by numbers": integer(1) + integer(2) + b"\x93",
    "a name without end": b"cos" + b"x" * 2000,
    "a name that is too long": text("a" * 600) + text("b") + b"\x93",
    "a name that is no text": b"c\xff\xfe\nx\n",
    "a text that is no text": b"X\x01\x00\x00\x00\xff",
    "a text longer than the file": b"X\xff\xff\xff\xff",
    "a text of 2**60 bytes": b"\x8d" + (1 << 60).to_bytes(8, "little"),
    "bytes of 2**62 bytes": b"\x8e" + (1 << 62).to_bytes(8, "little"),
    "a huge integer": b"\x8b" + (1 << 20).to_bytes(4, "little") + b"\x01" * (1 << 20),
    "a protocol inside": PROTO + b"N",
    "a persistent id of a text": text("storage") + b"Q",
    "a persistent id of a module": group(text("module"), OS_SYSTEM, SH, SH) + b"Q",
    "a storage of an unknown type": group(text("storage"), OS_SYSTEM, SH, SH, integer(1)) + b"Q",
    "a storage of negative length": storage("5", -1),
    "a storage of two lengths": storage("0", 5),
    "a storage of two types": storage("0", 6, kind="Int"),
    "an old view of a storage": storage("7", 1)[:-2] + b"Kxt" + b"Q",
}


@pytest.mark.parametrize("problem", MALFORMED)
def test_a_malformed_pickle_is_refused(problem):
    with pytest.raises(HeaderError, match=r"pytorch_model\.bin: its pickle"):
        opened(MALFORMED[problem])


TENSORS = {
    "no storage": tensor(b"N", (2, 3)),
    "no shape": call(name("torch._utils", "_rebuild_tensor_v2"), storage("0", 6), integer(0), b"N", b"N"),
    "negative shape": tensor(storage("0", 6), (-2, 3), (3, 1)),
    "negative stride": tensor(storage("0", 6), (2, 3), (-3, 1)),
    "negative offset": tensor(storage("0", 6), (2, 3), offset=-1),
    "a bool as size": call(
        name("torch._utils", "_rebuild_tensor"), storage("0", 6), integer(0), group(b"\x88"), group(b"\x88")
    ),
    "another number of strides": tensor(storage("0", 6), (2, 3), (1,)),
    "hundred axes": tensor(storage("0", 6), (1,) * 100),
    "astronomic axes": tensor(storage("0", 6), (1 << 70,), (0,)),
    "few arguments": call(name("torch._utils", "_rebuild_tensor_v2"), storage("0", 6)),
    "no arguments": call(name("torch._utils", "_rebuild_parameter")),
    "many arguments": call(name("torch._utils", "_rebuild_tensor_v2"), storage("0", 6), *[b"N"] * 9),
    "a class of tensors": call(
        name("torch._tensor", "_rebuild_from_type_v2"),
        name("torch._utils", "_rebuild_tensor_v2"),
        name("torchao.dtypes", "AffineQuantizedTensor"),
        b")",
        b"N",
    ),
    "a rebuild by another name": call(
        name("torch._tensor", "_rebuild_from_type_v2"), OS_SYSTEM, name("torch", "Tensor"), group(SH), b"N"
    ),
    "lazy negation": call(
        name("torch._utils", "_rebuild_tensor_v2"),
        *(storage("0", 6), integer(0), group(integer(6)), group(integer(1)), b"\x89", b"}"),
        mapping({"neg": b"\x88"}),
    ),
    "no dtype": call(
        name("torch._utils", "_rebuild_tensor_v3"),
        *(storage("0", 6), integer(0), group(integer(6)), group(integer(1)), b"\x89", b"}", text("float8")),
    ),
}


@pytest.mark.parametrize("problem", TENSORS)
def test_a_tensor_that_makes_no_sense_is_refused(problem):
    with pytest.raises(UnsupportedFormat, match="its pickle, near byte"):
        opened(TENSORS[problem])


DECOY = tensor(storage("0", 6), (2, 3))
ATTRIBUTES = {
    "other numbers": mapping({"data": tensor(storage("1", 6), (2, 3))}),
    "a note": mapping({"tag": b"N"}),
    "slots": b"N" + mapping({"data": tensor(storage("1", 6), (2, 3))}) + b"\x86",
    "no dictionary": integer(1),
}


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_a_tensor_with_attributes_is_refused_because_torch_puts_other_numbers_in_its_place(attributes):
    hooks = call(name("collections", "OrderedDict"))
    state = ATTRIBUTES[attributes]
    inner = group(storage("0", 6), integer(0), group(integer(6)), group(integer(1)), b"\x89", hooks)
    rebuild = name("torch._utils", "_rebuild_tensor_v2")
    by_class = call(
        name("torch._tensor", "_rebuild_from_type_v2"), rebuild, name("torch", "Tensor"), inner, state
    )
    parameter = call(name("torch._utils", "_rebuild_parameter_with_state"), DECOY, b"\x88", hooks, state)
    for made in (by_class, parameter):
        with pytest.raises(UnsupportedFormat, match="attributes of their own are not read"):
            opened(made)


@pytest.mark.parametrize(
    "key",
    [integer(3 * (2**61 - 1) + 1), integer(-(1 << 40)), b"G\x43\xf0" + bytes(6), b"G\x7f\xf8" + bytes(6)],
    ids=["one hash", "negative", "large float", "not a number"],
)
def test_numbers_that_could_share_one_hash_are_no_keys(key):
    for written in (key, key + b"\x85"):
        with pytest.raises(HeaderError, match="too large or too small"):
            opened(b"}" + written + b"Ns")


def test_the_numbers_that_writers_use_as_keys_are_keys():
    keys = [integer(0), integer(1 << 30), integer(-2), b"G" + bytes(8), b"G\xbf\xe0" + bytes(6), b"\x88"]
    made = (
        b"}(" + b"".join(key + b"N" for key in keys[1:]) + text("w") + tensor(storage("0", 6), (2, 3)) + b"u"
    )
    assert opened(made).index.keys() == {"a", "x.w"}


PLACES = {
    "beyond its storage": (
        tensor(storage("0", 6), (2, 4)),
        "reaches to byte 32 of its storage, which has 24",
    ),
    "offset beyond": (tensor(storage("0", 6), (2, 3), offset=1), "reaches to byte 28"),
    "stride beyond": (tensor(storage("0", 6), (2, 3), (9, 1)), "reaches to byte 48"),
    "inflated": (tensor(storage("0", 6), (1 << 40,), (0,)), "expands 6 stored numbers to 1099511627776"),
    "absurd but empty": (tensor(storage("0", 6), (0, 1 << 40, 1 << 40), (0, 0, 0)), "absurd shape"),
    "absurd": (tensor(storage("0", 6), (1 << 40, 1 << 40), (0, 0)), "absurd shape"),
    "no such storage": (tensor(storage("8", 6), (2, 3)), "storage '8' is not in the archive"),
    "path as key": (tensor(storage("../data.pkl", 6), (2, 3)), "is not in the archive"),
}


@pytest.mark.parametrize("problem", PLACES)
def test_a_tensor_outside_its_storage_is_refused(problem):
    value, words = PLACES[problem]
    with pytest.raises(HeaderError, match=words):
        opened(value)


def test_a_storage_of_another_length_than_its_member_is_refused():
    data = zipped(mapping({"a": tensor(storage("0", 5), (5,))}), {"0": bytes(24)})
    with pytest.raises(HeaderError, match="has 24 bytes, but 5 elements of F32 take 20"):
        read(data)


@pytest.mark.parametrize("more", [STOP, b"x", whole(call(OS_SYSTEM, SH)), b"\0"])
def test_nothing_may_follow_the_pickle(more):
    top, storages = one_tensor()
    data = archive(members_of(whole(top) + more, storages))
    with pytest.raises(HeaderError, match="bytes follow the end of its pickle"):
        read(data)


@pytest.mark.parametrize("pickled", [b"", PROTO, PROTO + b"N", PROTO + STOP, PROTO + b"NN" + STOP, b"N."])
def test_a_pickle_must_have_one_value_and_an_end(pickled):
    data = archive(members_of(pickled, {}))
    with pytest.raises(HeaderError, match="its pickle"):
        read(data)


@pytest.mark.parametrize("version", [0, 1, 6, 255])
def test_other_protocols_are_refused(version):
    data = archive(members_of(bytes([0x80, version]) + b"N.", {}))
    with pytest.raises(HeaderError, match=f"expected protocol 2 to 5, got {version}"):
        read(data)


# -- bounds --------------------------------------------------------------------------------------------


def test_a_container_that_holds_itself_beside_the_weights_is_refused():
    with pytest.raises(HeaderError, match="contains itself"):
        opened(b"}q\x00" + text("me") + b"h\x00s")
    with pytest.raises(HeaderError, match="contains itself"):
        opened(b"]q\x00h\x00a")


def test_a_cycle_in_what_is_left_out_does_no_harm():
    top, storages = one_tensor()
    value = mapping({"state_dict": top, "args": b"]q\x00h\x00a"})
    weights = read(zipped(value, storages))
    assert list(weights.index) == ["a"]


@pytest.mark.more
def test_doubling_lists_end_soon():
    # Each list holds the one before twice: forty of them would hold 2**40 values.
    value = b"]q\x00" + b"".join(
        b"0](h" + bytes([n]) + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(31)
    )
    with pytest.raises(HeaderError, match="counting repeats"):
        opened(value)


def test_deep_nesting_is_refused_without_recursion():
    with pytest.raises(HeaderError, match="nested more than 32 deep"):
        opened(b"]" * 50_000 + b"a" * 49_999)
    with pytest.raises(HeaderError, match="nested more than 1000 deep"):
        opened(b"(" * 5_000 + b"t" * 5_000)


def test_long_paths_are_refused_before_they_grow():
    with pytest.raises(HeaderError, match="a path of more than 4096 characters"):
        opened(mapping({"k" * 5000: mapping({"a": b"]"})}))
    (left_out,) = opened(mapping({"k" * 1999: tensor(storage("0", 6), (6,))})).left_out
    assert left_out.endswith("... (2001 characters)")
    assert len(left_out) < 200


def test_a_list_copied_again_and_again_is_bounded(monkeypatch):
    monkeypatch.setattr(stack_module, "MAX_OPCODES", 10_000)
    pairs = b"](" + 500 * group(text("k"), b"N") + b"eq\x00"
    copies = 50 * (name("collections", "OrderedDict") + b"h\x00\x85R0")
    with pytest.raises(HeaderError, match="copies more than 10000 values"):
        opened(pairs + copies)
    state = mapping({str(n): b"N" for n in range(500)}) + b"q\x00"
    objects = 50 * (name("argparse", "Namespace") + b")\x81h\x00b0")
    with pytest.raises(HeaderError, match="copies more than 10000 values"):
        opened(state + objects)


def test_instructions_and_memo_are_counted(monkeypatch):
    monkeypatch.setattr(stack_module, "MAX_MEMO", 3)
    with pytest.raises(HeaderError, match="remembers more than 3 values"):
        opened(b"N\x94\x94\x94\x94")
    monkeypatch.setattr("modelkin.formats.torch.machine.MAX_OPCODES", 100)
    with pytest.raises(HeaderError, match="has more than 100 instructions"):
        opened(b"N0" * 200 + b"N")


def test_mentioned_names_are_counted(monkeypatch):
    monkeypatch.setattr("modelkin.formats.torch.machine.MAX_UNKNOWN", 3)
    with pytest.raises(HeaderError, match="mentions more than 3 names"):
        opened(group(*(name("m", str(n)) for n in range(5))))


def test_a_pickle_that_is_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr("modelkin.formats.torch._contents.MAX_PICKLE_BYTES", 1000)
    with pytest.raises(HeaderError, match=r"has .* bytes, more than 1000"):
        opened(text("x" * 1000))
