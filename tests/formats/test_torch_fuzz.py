"""Damaged files of torch: whatever is changed, the file is read or refused, and nothing else happens."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.torch_writer import archive, members_of, one_tensor, read, whole
from tests.places import FORMATS

import modelkin as mk
from modelkin.errors import FormatError
from modelkin.formats.torch.machine import Machine
from modelkin.formats.torch.stack import PickleEnds
from modelkin.source import MemorySource

FILES = ["torch_zip_protocol5.bin", "torch_legacy.bin", "torch_script.pt", "torch_lightning.ckpt"]
GOOD = {name: (FORMATS / name).read_bytes() for name in FILES}
PICKLE, STORAGES = one_tensor()


def read_or_refused(data: bytes, file: str = "pytorch_model.bin") -> None:
    """Open and read everything that is small; a refusal is fine."""
    try:
        model = mk.open_model(MemorySource({file: data}))
        for name, info in model.index.items():
            assert 0 <= info.start <= info.stop <= len(data)
            if info.n_elements < 1 << 16:
                assert model.tensor(name).shape == info.shape
    except FormatError:
        pass


EDITS = st.lists(
    st.tuples(st.integers(0, 10_000), st.sampled_from("sdi"), st.binary(min_size=1, max_size=9)), max_size=4
)


@pytest.mark.parametrize("file", FILES)
@given(edits=EDITS)
def test_changed_files_are_read_or_refused(file, edits):
    data = bytearray(GOOD[file])
    for place, kind, put in edits:
        at = place % len(data)
        if kind == "s":
            data[at : at + len(put)] = put
        elif kind == "i":
            data[at:at] = put
        else:
            del data[at : at + len(put)]
    read_or_refused(bytes(data))


@given(edits=EDITS)
def test_changed_pickles_in_a_good_archive_are_read_or_refused(edits):
    data = bytearray(whole(PICKLE))
    for place, kind, put in edits:
        at = place % max(1, len(data))
        if kind == "i":
            data[at:at] = put
        else:
            data[at : at + len(put) * (kind == "s")] = put
    read_or_refused(archive(members_of(bytes(data), STORAGES)))


# Mostly real instructions, so that programs get somewhere.
INSTRUCTIONS = st.sampled_from(
    [bytes([code]) for code in b"N\x88\x89()tqh]}aesub\x85\x86\x87R\x81\x92\x93\x94\x8f\x90\x910Q1"]
    + [b"K\x01", b"K\x02", b"\x8c\x01a", b"X\x01\x00\x00\x00b", b"q\x00", b"q\x01", b"h\x00", b"h\x01"]
    + [b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n"]
    + [b"ctorch._tensor\n_rebuild_from_type_v2\n", b"cargparse\nNamespace\n", b"ccollections\nCounter\n"]
    + [b"c__torch__.M\nM\n", b"ctorch.jit._pickle\nrestore_type_tag\n", b"ctorch\nSize\n", b"cos\nsystem\n"]
    + [b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x06tQ", b"cbuiltins\nset\n"]
)


@given(program=st.lists(INSTRUCTIONS, max_size=60), script=st.booleans())
def test_any_program_ends_with_a_value_or_a_refusal(program, script):
    data = b"\x80\x02" + b"".join(program) + b"."
    with suppress(FormatError, PickleEnds):
        Machine(data, file="x", script=script).load()


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_refusal(data):
    with suppress(FormatError, PickleEnds):
        Machine(b"\x80\x04" + data, file="x").load()


@given(program=st.lists(INSTRUCTIONS, max_size=40))
def test_any_program_in_a_file_is_read_or_refused(program):
    read_or_refused(archive(members_of(b"\x80\x02" + b"".join(program) + b".", STORAGES)))


def test_the_undamaged_files_are_read():
    for data in GOOD.values():
        assert len(read(data).index) > 0
