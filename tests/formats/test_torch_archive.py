"""Archives that two readers would understand differently, and damaged ones: none is opened."""

import io
import struct
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pytest
from tests.formats.torch_writer import (
    KINDS,
    Member,
    archive,
    integer,
    mapping,
    members_of,
    name,
    older,
    one_tensor,
    read,
    storage,
    tensor,
    text,
    whole,
    zipped,
)

import modelkin as mk
from modelkin.errors import FormatError, HeaderError, UnsupportedFormat
from modelkin.formats.torch import archive as archive_module
from modelkin.source import MemorySource

TOP, STORAGES = one_tensor()
OTHER = whole(mapping({"a": tensor(storage("0", 6), (3, 2))}))


def ordinary() -> list[Member]:
    return members_of(whole(TOP), STORAGES)


def changed(number: int, **fields: object) -> list[Member]:
    members = ordinary()
    members[number] = replace(members[number], **fields)  # type: ignore[arg-type]
    return members


PICKLE, ORDER, DATA = 0, 1, 2


def test_an_ordinary_archive_is_read():
    model = mk.open_model(MemorySource({"a.pt": archive(ordinary())}))
    np.testing.assert_array_equal(model.tensor("a"), np.arange(6).reshape(2, 3))


def test_an_archive_without_the_large_records_is_read():
    assert list(read(archive(ordinary(), zip64=False)).index) == ["a"]


def test_an_archive_without_sizes_after_the_data_is_read():
    members = [
        replace(item, flags=0, descriptor=False, local_size=len(item.data), crc=zlib.crc32(item.data))
        for item in ordinary()
    ]
    assert list(read(archive(members)).index) == ["a"]


def test_an_archive_of_pythons_zipfile_is_read():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for item in ordinary():
            file.writestr(item.name, item.data)
    assert list(read(out.getvalue()).index) == ["a"]


def test_an_archive_whose_sizes_stand_in_the_large_form_is_read():
    large = struct.pack("<HHQQ", 1, 16, 24, 24)
    data = bytearray(archive(changed(DATA, extra=large)))
    entry = data.index(b"archive/data/0", data.index(b"PK\x01\x02")) - 46
    data[entry + 20 : entry + 28] = b"\xff" * 8
    assert list(read(bytes(data)).index) == ["a"]


WHOLE = {
    "junk before": (archive(ordinary(), before=b"#!/bin/sh\n"), "expected a zip archive or the magic number"),
    "junk that looks like an archive before": (
        archive(ordinary(), before=b"PK\x03\x04" + b"junk"),
        "8 bytes come before the first member",
    ),
    "junk after": (archive(ordinary(), after=b"junk"), "expected the end of a zip archive"),
    "a second archive after": (archive(ordinary()) * 2, "its directory claims to end|points elsewhere"),
    "a comment": (archive(ordinary(), comment=b"x" * 30), "expected the end of a zip archive"),
    "a comment that looks like the end": (
        archive(ordinary(), comment=archive(ordinary())[-22:]),
        "its directory claims to end",
    ),
    "fewer entries than members": (archive(ordinary(), count=3), "bytes more than its 3 entries"),
    "more entries than members": (archive(ordinary(), count=9), "expected entry 5 of 9"),
    "millions of entries": (archive(ordinary(), count=60_000, zip64=False), "expected entry 5 of 60000"),
    "no members": (archive([]), "expected a zip archive or the magic number"),
    "two pickles": (archive([*ordinary(), Member("archive/data.pkl", OTHER)]), "two members are called"),
    "two pickles by case": (
        archive([*ordinary(), Member("archive/DATA.PKL", OTHER)]),
        "two members are called",
    ),
    "two folders": (archive([*ordinary(), Member("other/data.pkl", OTHER)]), "in two folders"),
    "no folder": (archive([*ordinary(), Member("data.pkl", OTHER)]), "is not a plain path inside one folder"),
    "a path upwards": (archive([*ordinary(), Member("archive/../../x", b"")]), "is not a plain path"),
    "an absolute path": (archive([*ordinary(), Member("/etc/passwd", b"")]), "is not a plain path"),
    "a path of Windows": (archive([*ordinary(), Member("archive/..\\x", b"")]), "is not a plain path"),
    "a hidden end of a name": (archive([*ordinary(), Member("archive/x\0y", b"")]), "invisible character"),
    "a reversed name": (archive([*ordinary(), Member("archive/\u202elkp", b"")]), "invisible character"),
    "another name before the data": (
        archive(changed(PICKLE, local_name="archive/DATA.pkl")),
        "its local header has another name",
    ),
    "another name before the storage": (
        archive(changed(DATA, local_name="archive/data/1")),
        "its local header has another name",
    ),
    "other flags before the data": (archive(changed(PICKLE, local_flags=0)), "say different things"),
    "another size before the data": (
        archive(changed(DATA, local_size=23)),
        "says 23 bytes, but the directory says 24",
    ),
    "another checksum before the data": (archive(changed(DATA, crc=5)), "say different things"),
    "a place inside another member": (archive(changed(DATA, offset=7)), "expected a local header at byte"),
    "the place of another member": (archive(changed(DATA, offset=0)), "two members begin at one byte"),
    "a place beyond the end": (archive(changed(DATA, offset=1 << 31)), "beyond the directory"),
    "a size beyond the end": (archive(changed(DATA, size=1 << 31)), "beyond the directory"),
    "a size into the next member": (
        archive(changed(PICKLE, size=len(whole(TOP)) + 60)),
        "overlaps what follows",
    ),
    "data pushed into the next member": (
        archive(changed(DATA, local_extra=b"", descriptor=False, data=STORAGES["0"][:-4], size=24)),
        "overlaps what follows",
    ),
    "a link": (archive(changed(DATA, mode=0o120777, made_by=3)), "is a link"),
    "a torn extra field": (archive(changed(DATA, extra=b"\x01\x00\x20\x00")), "its extra field ends early"),
    "half an extra field": (archive(changed(DATA, extra=b"\x01")), "its extra field ends early"),
    "two sizes": (archive(changed(DATA, extra=2 * struct.pack("<HH", 1, 0))), "states its size twice"),
    "no size": (archive(changed(DATA, size=0xFFFFFFFF)), "its size or place is missing"),
    "unknown flags": (archive(changed(DATA, flags=0x4808)), "is malformed"),
    "a long byte order": (archive(changed(ORDER, data=b"little" * 10)), "has 60 bytes, more than 16"),
}


@pytest.mark.parametrize("trick", WHOLE)
def test_an_ambiguous_or_broken_archive_is_refused(trick):
    data, words = WHOLE[trick]
    with pytest.raises(FormatError, match=words):
        read(data)


UNREAD = {
    "big-endian": (archive(changed(ORDER, data=b"big")), "in b'big' byte order, not little"),
    "encrypted": (archive(changed(DATA, flags=0x0809)), "is encrypted"),
    "strongly encrypted": (archive(changed(PICKLE, flags=0x0841)), "is encrypted"),
    "a compressed pickle": (archive(changed(PICKLE, method=8)), "is compressed"),
    "a compressed storage": (archive(changed(DATA, method=8)), "is compressed"),
    "a storage by another method": (archive(changed(DATA, method=93)), "is compressed"),
    "no pickle": (archive(ordinary()[1:]), "expected the archive to contain data.pkl"),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_what_is_not_read_is_said(kind):
    data, words = UNREAD[kind]
    with pytest.raises(UnsupportedFormat, match=words):
        read(data)


def test_a_bomb_is_not_inflated():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", whole(text("x" * 20_000_000)))
    assert len(out.getvalue()) < 30_000
    with pytest.raises(UnsupportedFormat, match="is compressed"):
        read(out.getvalue())


def test_members_and_directory_are_bounded(monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_MEMBERS", 3)
    with pytest.raises(HeaderError, match="claims 4 entries"):
        read(archive(ordinary()))
    monkeypatch.setattr(archive_module, "MAX_DIRECTORY_BYTES", 10)
    with pytest.raises(HeaderError, match="claims 4 entries"):
        read(archive(ordinary()))


@pytest.mark.parametrize("field", range(12))
def test_the_last_records_agree_or_the_file_is_refused(field):
    good = archive(ordinary())
    # Everything in the three last records but the version numbers is checked.
    offsets = [-22 + 4, -22 + 8, -22 + 12, -22 + 16, -22 + 20, -42 + 4, -42 + 8, -42 + 16, -98 + 4, -98 + 16]
    offset = [*offsets, -98 + 24, -98 + 48][field]
    data = bytearray(good)
    data[offset] ^= 1
    with pytest.raises(HeaderError, match=r"a\.pt|pytorch_model"):
        read(bytes(data))


def test_every_cut_of_an_archive_is_refused():
    good = archive(ordinary())
    for length in range(len(good)):
        with pytest.raises(FormatError, match="pytorch_model"):
            read(good[:length])


# -- the older layout ----------------------------------------------------------------------------------

OLDER = older(TOP, STORAGES, {"0": 6})


def test_every_cut_of_the_older_layout_is_refused():
    assert list(read(OLDER).index) == ["a"]
    for length in range(len(OLDER)):
        with pytest.raises(FormatError, match="pytorch_model"):
            read(OLDER[:length])


OLD_TRICKS = {
    "junk after": (OLDER + b"x", "its storages end at byte"),
    "another count": (older(TOP, STORAGES, {"0": 7}), "has 7 elements, but its pickle says 6"),
    "big-endian": (older(TOP, STORAGES, {"0": 6}, little=False), "not in little-endian order"),
    "another version": (
        OLDER.replace(b"\x80\x02\x8a\x02\xe9\x03.", b"\x80\x02\x8a\x02\xea\x03."),
        "version 1001",
    ),
    "a storage that is not listed": (older(TOP, {}, {}), "its list of storages is not that of its pickle"),
    "a storage that nobody named": (older(TOP, {**STORAGES, "1": b""}, {"0": 6, "1": 0}), "list of storages"),
    "keys that are no texts": (
        OLDER.replace(whole(b"](" + text("0") + b"e"), whole(b"](" + integer(0) + b"e")),
        "list",
    ),
    "keys that are no list": (
        OLDER.replace(whole(b"](" + text("0") + b"e"), whole(text("0"))),
        "expected the list",
    ),
    "names in a short pickle": (
        OLDER.replace(whole(b"](" + text("0") + b"e"), whole(b"](" + name("os", "system") + b"e")),
        "holds more than numbers and texts",
    ),
}


@pytest.mark.parametrize("trick", OLD_TRICKS)
def test_a_broken_file_of_the_older_layout_is_refused(trick):
    data, words = OLD_TRICKS[trick]
    assert data != OLDER
    with pytest.raises(FormatError, match=words):
        read(data)


OTHER_KINDS = {
    "a pickle": (whole(integer(3)), "a Python pickle that torch did not write"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "a web page": (b"<!doctype html>", "web page"),
    "a 7z archive": (b"7z\xbc\xaf\x27\x1c" + bytes(100), "7z archive"),
    "gzip": (b"\x1f\x8b" + bytes(100), "gzip"),
    "GGUF": (b"GGUF" + bytes(100), "GGUF"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_a_file_of_another_kind_is_recognised(kind):
    data, words = OTHER_KINDS[kind]
    with pytest.raises(
        UnsupportedFormat, match="expected a zip archive or the magic number of torch"
    ) as caught:
        read(data)
    assert words in str(caught.value.hint)


@pytest.mark.parametrize("data", [b"", b"\x80", b"PK", b"PK\x03\x04", b"x"])
def test_tiny_files_are_refused(data):
    with pytest.raises(FormatError, match="pytorch_model"):
        read(data)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("kind", ["zip", "older"])
def test_all_types_of_storages_are_known(dtype, kind):
    width = {"F64": 8, "I64": 8, "C64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}.get(dtype, 1)
    top = mapping({"a": tensor(storage("0", 3, kind=KINDS[dtype]), (3,))})
    data = {"0": bytes(3 * width)}
    weights = read(zipped(top, data) if kind == "zip" else older(top, data, {"0": 3}))
    assert weights.index["a"].dtype == dtype
    assert weights.index["a"].n_bytes == 3 * width
