"""What a torch file holds: the object in its pickle, and where the storages that it names are.

Two layouts are read. Since 1.6 torch writes zip archives. Before that, and still on request, a file is five
pickles (a magic number, the version, the writer's system, the object, the keys of its storages), then the
storages in the order of the keys, each after eight bytes with its number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.message import say
from modelkin.source import ByteRange, Fetched, Fetcher, merged
from modelkin.tensors import DTYPES
from modelkin.untrusted import plain, quoted

from .archive import TAIL_BYTES, Archive, Member, fail, find_directory, parse_directory
from .machine import Machine
from .stack import MAX_PICKLE_BYTES, PickleEnds
from .values import UNREAD_BYTES, Global, StorageRef, Value

T = TypeVar("T")
Reads: TypeAlias = Callable[[ByteRange], bytes]
"""Returns bytes that were requested."""
Steps: TypeAlias = Generator[list[ByteRange], Reads, T]
"""Yields the ranges of its file that it needs, is sent a way to read them, and returns what it found."""


def run_together(fetcher: Fetcher, readers: Mapping[str, Steps[T]]) -> dict[str, T]:
    """Run the readers of several files side by side: one fetch per step for all of them."""
    results: dict[str, T] = {}
    wanted: dict[str, list[ByteRange]] = {}

    def advance(file: str, reads: Reads | None) -> None:
        try:
            reader = readers[file]
            wanted[file] = next(reader) if reads is None else reader.send(reads)
        except StopIteration as end:
            wanted.pop(file, None)
            results[file] = end.value

    for file in readers:
        advance(file, None)
    while wanted:
        fetched = fetcher.fetch(wanted, task=say("step-headers"))
        for file in list(wanted):
            advance(file, _reads(fetched, file))
    return results


def _reads(fetched: Fetched, file: str) -> Reads:
    return lambda item: bytes(fetched.view(file, item))


LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
ZIP_MAGIC: Final = b"PK\x03\x04"

_LEGACY_PROTOCOL = 1001
_DIRECTORY_GUESS = 1 << 16
"""First read of an archive's end: the directory of some 700 tensors."""
_MOST_BEFORE_DATA = 30 + 2 * 0xFFFF
_GROWTH = 4
_JOINED_GAP = 1 << 14
_OTHER_FILES: Final = (
    (b"version ", say("hint.git-lfs")),
    (b"GGUF", say("hint.gguf-no-torch")),
    (b"<", say("hint.web-page")),
    (b"\x80", say("hint.pickle-no-torch")),
    (b"7z\xbc\xaf", say("hint.7z-no-torch")),
    (b"\x1f\x8b", say("hint.gzip-no-torch")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchContents:
    """A description of the object in a file's pickle."""

    file: str
    top: Value = field(repr=False)
    storages: Mapping[str, StorageRef] = field(repr=False)
    """All that the pickle names, by key."""
    unknown: tuple[Global, ...]
    """Names in the pickle that were ignored."""
    archive: Archive | None = None
    """None for the older layout."""
    places: Mapping[str, ByteRange] = field(default_factory=dict, repr=False)
    """Where the storages lie, for the older layout."""


def contents_of(file: str, *, size: int, head_bytes: int, check: bool) -> Steps[TorchContents]:
    """Read what a file holds, without its numbers; `head_bytes` of its beginning are read at first.

    With `check`, in the older layout, also read the eight bytes before each storage. They only repeat what
    the pickle says, and each costs a request over a network.
    """
    head = ByteRange(0, min(size, max(head_bytes, 512)))
    tail = ByteRange(max(0, size - max(_DIRECTORY_GUESS, TAIL_BYTES)), size)
    reads = yield [head, tail]
    beginning = reads(head)
    if beginning.startswith(ZIP_MAGIC):
        return (yield from _archived(file, size, reads(tail)))
    return (yield from _streamed(file, size, beginning, check=check))


def locate(contents: TorchContents, keys: Iterable[str]) -> Steps[dict[str, ByteRange]]:
    """Find the bytes of some storages; in an archive by their local headers, all in one step."""
    archive = contents.archive
    if archive is None:
        return {key: contents.places[key] for key in keys}
    members = {key: _storage_member(archive, contents.storages[key]) for key in keys}
    if not members:
        return {}
    # A request costs more than the small storages between two headers.
    reads = yield merged((member.header for member in members.values()), gap=_JOINED_GAP)
    return {key: archive.data_of(member, reads(member.header)) for key, member in members.items()}


def storage_bytes(storage: StorageRef) -> int:
    """Return the length of a storage."""
    return storage.numel * element_bytes(storage.dtype)


def element_bytes(dtype: str) -> int:
    """Return the bytes per element of one of our formats, or of one that is known but not read."""
    return DTYPES[dtype].bits // 8 if dtype in DTYPES else UNREAD_BYTES[dtype]


# -- archives ------------------------------------------------------------------------------------------


def _archived(file: str, size: int, tail: bytes) -> Steps[TorchContents]:
    place, count = find_directory(tail[-TAIL_BYTES:], file=file, file_size=size)
    before = size - len(tail)
    if place.start >= before:
        directory = tail[place.start - before : place.stop - before]
    else:
        reads = yield [place]
        directory = reads(place)
    archive = parse_directory(directory, place=place, count=count, file=file)
    pickle = archive.members.get("data.pkl")
    if pickle is None:
        raise UnsupportedFormat(
            plain(file),
            say("problem.torch-no-pickle"),
            hint=say("hint.other-zip"),
        )
    order = archive.members.get("byteorder")
    small = [pickle] if order is None else [pickle, order]
    for member, most in zip(small, (MAX_PICKLE_BYTES, 16), strict=False):
        if member.size > most:
            fail(
                file, say("problem.torch-member-long", name=quoted(member.name), size=member.size, most=most)
            )
    reads = yield [_whole(member) for member in small]
    if order is not None and (said := _data(archive, order, reads)) != b"little":
        raise UnsupportedFormat(plain(file), say("problem.torch-byte-order", got=repr(said[:16])))
    data = _data(archive, pickle, reads)
    machine = Machine(data, file=file, script=archive.is_script)
    try:
        top = machine.load()
    except PickleEnds:
        fail(file, say("problem.torch-pickle-early"))
    if machine.position != len(data):
        fail(file, say("problem.torch-after-pickle", n=len(data) - machine.position))
    return TorchContents(
        file=file,
        top=top,
        storages=machine.storages,
        unknown=tuple(machine.unknown),
        archive=archive,
    )


def _whole(member: Member) -> ByteRange:
    return ByteRange(member.offset, min(member.stop, member.offset + member.size + _MOST_BEFORE_DATA))


def _data(archive: Archive, member: Member, reads: Reads) -> bytes:
    whole = _whole(member)
    data = reads(whole)
    place = archive.data_of(member, data[: member.header.length])
    return data[place.start - whole.start : place.stop - whole.start]


def _storage_member(archive: Archive, storage: StorageRef) -> Member:
    member = archive.members.get(f"data/{storage.key}")
    if member is None:
        fail(archive.file, say("problem.torch-no-storage", key=quoted(storage.key)))
    if member.size != storage_bytes(storage):
        fail(
            archive.file,
            say(
                "problem.torch-storage-size",
                key=quoted(storage.key),
                size=member.size,
                n=storage.numel,
                dtype=storage.dtype,
                m=storage_bytes(storage),
            ),
        )
    return member


# -- the older layout ----------------------------------------------------------------------------------


def _streamed(file: str, size: int, beginning: bytes, *, check: bool) -> Steps[TorchContents]:
    data = beginning
    while True:
        try:
            top, machine, keys, start = _pickles(data, file)
            break
        except PickleEnds:
            if len(data) >= size:
                fail(file, say("problem.torch-cut"))
            if len(data) >= MAX_PICKLE_BYTES:
                fail(file, say("problem.torch-pickles-long", most=MAX_PICKLE_BYTES))
            more = ByteRange(len(data), min(size, _GROWTH * len(data)))
            reads = yield [more]
            data += reads(more)
    places: dict[str, ByteRange] = {}
    position = start
    for key in keys:
        storage = machine.storages.get(key) if isinstance(key, str) else None
        if storage is None or storage.key in places:
            fail(file, say("problem.torch-storages"))
        position += 8
        places[storage.key] = ByteRange(position, position + storage_bytes(storage))
        position += storage_bytes(storage)
    if len(places) != len(machine.storages):
        fail(file, say("problem.torch-storages"))
    if position != size:
        raise HeaderError(
            plain(file),
            say("problem.torch-storages-end", end=position, size=size),
            hint=say("hint.cut-or-damaged"),
        )
    if check and places:
        yield from _checked(file, machine.storages, places)
    return TorchContents(
        file=file, top=top, storages=machine.storages, unknown=tuple(machine.unknown), places=places
    )


def _pickles(data: bytes, file: str) -> tuple[Value, Machine, list[Value], int]:
    """Read the five pickles; return the object, the machine that knows its storages, the keys, the end."""
    magic, position = _next(data, 0, file) if data.startswith(b"\x80") else (None, 0)
    if type(magic) is not int or magic != LEGACY_MAGIC:
        hint = next((hint for start, hint in _OTHER_FILES if data.startswith(start)), None)
        raise UnsupportedFormat(plain(file), say("problem.torch-no-archive"), hint=hint)
    version, position = _next(data, position, file)
    if type(version) is not int or version != _LEGACY_PROTOCOL:
        fail(file, say("problem.torch-version", version=_LEGACY_PROTOCOL))
    system, position = _next(data, position, file)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise UnsupportedFormat(plain(file), say("problem.torch-endian"))
    machine = Machine(data, start=position, file=file)
    top = machine.load()
    keys, position = _next(data, machine.position, file)
    if not isinstance(keys, list):
        fail(file, say("problem.torch-storage-list"))
    return top, machine, keys, position


def _next(data: bytes, start: int, file: str) -> tuple[Value, int]:
    machine = Machine(data, start=start, file=file)
    value = machine.load()
    if machine.storages or machine.unknown:
        fail(file, say("problem.torch-short-pickles"))
    return value, machine.position


def _checked(file: str, storages: Mapping[str, StorageRef], places: Mapping[str, ByteRange]) -> Steps[None]:
    counts = {key: ByteRange(place.start - 8, place.start) for key, place in places.items()}
    reads = yield list(counts.values())
    for key, item in counts.items():
        if (count := int.from_bytes(reads(item), "little")) != storages[key].numel:
            fail(file, say("problem.torch-storage-count", key=quoted(key), n=count, m=storages[key].numel))
