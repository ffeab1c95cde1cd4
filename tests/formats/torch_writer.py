"""Writes torch files byte by byte, without torch: ordinary ones, and some that no writer would write."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import modelkin as mk
from modelkin.formats import Weights
from modelkin.source import MemorySource

KINDS = {
    **{"F64": "Double", "F32": "Float", "F16": "Half", "BF16": "BFloat16", "I64": "Long", "I32": "Int"},
    **{"I16": "Short", "I8": "Char", "U8": "Byte", "BOOL": "Bool", "C64": "ComplexFloat"},
}
"""Our names of formats -> those of torch's storages."""
DTYPES = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "u1": "U8"}


# -- pickles -------------------------------------------------------------------------------------------

PROTO = b"\x80\x02"
STOP = b"."


def text(value: str) -> bytes:
    """Push a text."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value: int) -> bytes:
    """Push a number."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def name(module: str, attribute: str) -> bytes:
    """Push a name."""
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def group(*parts: bytes) -> bytes:
    """Push a tuple."""
    return b"(" + b"".join(parts) + b"t"


def call(function: bytes, *arguments: bytes) -> bytes:
    """Push what a call returns."""
    return function + group(*arguments) + b"R"


def mapping(items: Mapping[str, bytes]) -> bytes:
    """Push a dictionary."""
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def whole(value: bytes) -> bytes:
    """Return a pickle."""
    return PROTO + value + STOP


def storage(key: str, numel: int, *, kind: str = "Float", legacy: bool = False) -> bytes:
    """Push a storage."""
    last = [b"N"] if legacy else []
    return (
        group(text("storage"), name("torch", f"{kind}Storage"), text(key), text("cpu"), integer(numel), *last)
        + b"Q"
    )


def tensor(
    stored: bytes, shape: Sequence[int], strides: Sequence[int] | None = None, *, offset: int = 0
) -> bytes:
    """Push a tensor."""
    steps = c_strides(shape) if strides is None else strides
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        stored,
        integer(offset),
        group(*map(integer, shape)),
        group(*map(integer, steps)),
        b"\x89",
        call(name("collections", "OrderedDict")),
    )


def c_strides(shape: Sequence[int]) -> list[int]:
    """Return the strides of a tensor whose elements lie in their order."""
    return [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]


# -- archives ------------------------------------------------------------------------------------------


@dataclass
class Member:
    """One member, with everything that can be lied about."""

    name: str
    data: bytes
    local_name: str | None = None
    method: int = 0
    flags: int = 0x0808
    local_flags: int | None = None
    local_extra: bytes | None = None
    size: int | None = None
    local_size: int = 0
    mode: int = 0
    made_by: int = 0
    offset: int | None = None
    extra: bytes = b""
    descriptor: bool = True
    crc: int = field(default=0)


def archive(
    members: Iterable[Member],
    *,
    before: bytes = b"",
    after: bytes = b"",
    comment: bytes = b"",
    zip64: bool = True,
    count: int | None = None,
) -> bytes:
    """Write an archive as torch does: stored members aligned to 64 bytes, sizes after the data."""
    out = bytearray(before)
    directory = bytearray()
    n_members = 0
    for item in members:
        n_members += 1
        start = len(out)
        raw, local = item.name.encode(), (item.local_name or item.name).encode()
        extra = item.local_extra
        if extra is None:
            padding = -(start + 30 + len(local) + 4) % 64
            extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        size = len(item.data) if item.size is None else item.size
        crc = zlib.crc32(item.data)
        flags = item.flags if item.local_flags is None else item.local_flags
        local_fields = (
            b"PK\x03\x04",
            0,
            flags,
            item.method,
            0,
            0,
            item.crc,
            item.local_size,
            item.local_size,
        )
        out += struct.pack("<4sHHHHHIIIHH", *local_fields, len(local), len(extra)) + local + extra + item.data
        if item.descriptor:
            out += struct.pack("<4sIII", b"PK\x07\x08", crc, size, size)
        fields = (b"PK\x01\x02", item.made_by << 8, 0, item.flags, item.method, 0, 0, crc, size, size)
        place = start if item.offset is None else item.offset
        tail = (len(raw), len(item.extra), 0, 0, 0, item.mode << 16, place)
        directory += struct.pack("<4sHHHHHHIIIHHHHHII", *fields, *tail) + raw + item.extra
    start, length = len(out), len(directory)
    out += directory
    n_members = n_members if count is None else count
    if zip64:
        end = len(out)
        out += struct.pack(
            "<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, n_members, n_members, length, start
        )
        out += struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    out += struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, n_members, n_members, length, start, len(comment))
    return bytes(out) + comment + after


def members_of(pickle: bytes, storages: Mapping[str, bytes], *, root: str = "archive") -> list[Member]:
    """Return the members of an ordinary file."""
    return [
        Member(f"{root}/data.pkl", pickle),
        Member(f"{root}/byteorder", b"little"),
        *(Member(f"{root}/data/{key}", data) for key, data in storages.items()),
        Member(f"{root}/version", b"3\n"),
    ]


def zipped(value: bytes, storages: Mapping[str, bytes] | None = None) -> bytes:
    """Return an ordinary archive with this object in its pickle."""
    return archive(members_of(whole(value), storages or {}))


def one_tensor(more: Mapping[str, bytes] | None = None) -> tuple[bytes, dict[str, bytes]]:
    """Return the object and the storages of a state dict with one tensor `a`, and more items."""
    data = np.arange(6, dtype="<f4").tobytes()
    return mapping({"a": tensor(storage("0", 6), (2, 3)), **(more or {})}), {"0": data}


def opened(value: bytes, *, legacy: bool = False) -> Weights:
    """Open a model whose pickle holds this object beside one good tensor `a`."""
    top, storages = one_tensor({"x": value})
    return read(older(top, storages, {"0": 6}) if legacy else zipped(top, storages))


def read(data: bytes, *, file: str = "pytorch_model.bin") -> Weights:
    """Open a model that is one file."""
    return mk.open_model(MemorySource({file: data})).weights


# -- whole models --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A tensor to write."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, array: NDArray[np.generic]) -> Stored:
        """Take an array as it is."""
        return cls(DTYPES[array.dtype.str[1:]], array.shape, array.tobytes())


def tensors_of(folder: Path) -> dict[str, Stored]:
    """Return the tensors of a model in safetensors, bit by bit."""
    with mk.open_model(str(folder)) as model:
        files = {file: (folder / file).read_bytes() for file in model.index.files}
        return {
            key: Stored(info.dtype, info.shape, files[info.file][info.start : info.stop])
            for key, info in model.index.items()
        }


def torch_file(tensors: Mapping[str, Stored], *, legacy: bool = False) -> bytes:
    """Return a state dict as torch saves it."""
    items: dict[str, bytes] = {}
    storages: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for number, (key, stored) in enumerate(tensors.items()):
        count = int(np.prod(stored.shape, dtype=np.int64))
        place = storage(str(number), count, kind=KINDS[stored.dtype], legacy=legacy)
        items[key] = tensor(place, stored.shape)
        storages[str(number)] = stored.data
        counts[str(number)] = count
    return older(mapping(items), storages, counts) if legacy else zipped(mapping(items), storages)


def older(
    value: bytes, storages: Mapping[str, bytes], counts: Mapping[str, int], *, little: bool = True
) -> bytes:
    """Return a file of the older layout."""
    keys = sorted(storages)
    system = mapping({"protocol_version": integer(1001), "little_endian": b"\x88" if little else b"\x89"})
    start = whole(integer(0x1950A86A20F9469CFC6C)) + whole(integer(1001)) + whole(system) + whole(value)
    start += whole(b"](" + b"".join(map(text, keys)) + b"e")
    return start + b"".join(struct.pack("<Q", counts[key]) + storages[key] for key in keys)
