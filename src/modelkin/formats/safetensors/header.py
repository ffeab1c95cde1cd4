"""The header of a safetensors file: bytes in, `TensorInfo` out; hostile ones are refused.

A file is eight bytes with the header's length N (little-endian), N bytes of JSON, then the data, in which
the tensors lie without holes. The rules here are stricter than those of the reference library wherever
leniency makes a file ambiguous: a repeated key, a header that does not begin with a brace, padding other than
spaces, invisible names. Every file accepted here is accepted there too.

Reading the bytes is up to the caller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from modelkin.errors import HeaderError
from modelkin.message import Message, say
from modelkin.tensors import DTYPES, MAX_ELEMENTS, MAX_RANK, TensorInfo
from modelkin.untrusted import Scanner, name_problem, plain, quoted

PREFIX_BYTES = 8

MAX_HEADER_BYTES = 100_000_000
"""The limit of the format's reference library."""

MAX_TENSORS = 250_000
"""Per file. The largest public models have about 200,000 over all their files."""

# Metadata is free text about the file. Trainers store up to some thousand entries.
MAX_METADATA_ENTRIES = 100_000

_INT = rb"(?:0|[1-9][0-9]{0,18})"
_SHAPE = rb'"shape":\[((?:' + _INT + rb"(?:," + _INT + rb"){0,15})?)\]"
_DTYPE = rb'"dtype":"([A-Z0-9_]{1,16})"'
_OFFSETS = rb'"data_offsets":\[(' + _INT + rb"),(" + _INT + rb")\]"
# The two ways in which common writers write an entry. Ten times faster than member by member, which is
# used for everything else, and which can say what is wrong.
_USUAL_ENTRY: Final = re.compile(rb"\{" + _DTYPE + rb"," + _SHAPE + rb"," + _OFFSETS + rb"\}")
_SORTED_ENTRY: Final = re.compile(rb"\{" + _OFFSETS + rb"," + _DTYPE + rb"," + _SHAPE + rb"\}")

# What is found in place of a safetensors file, by how it begins.
_OTHER_FILES: Final = (
    (b"version ", say("hint.git-lfs")),
    (b"PK\x03\x04", say("hint.zip-no-safetensors")),
    (b"\x80\x02", say("hint.pickle-no-safetensors")),
    (b"GGUF", say("hint.gguf-no-safetensors")),
    (b"<", say("hint.web-page")),
    (b"{", say("hint.json-no-safetensors")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    """What a header says."""

    tensors: tuple[TensorInfo, ...]
    """In the order of their bytes."""
    metadata: Mapping[str, str]
    """Free text of the writer."""
    left_out: tuple[str, ...] = ()
    """Unprintable names of tensors: loaders have no use for these, and ignore them."""


def header_length(prefix: bytes, *, file: str, file_size: int) -> int:
    """Return where the header ends: eight bytes of length and the JSON text.

    `prefix` is at least eight bytes unless the file is shorter. A length that is impossible for a file of
    this size, or larger than any header may be, is a `HeaderError`.
    """
    if file_size < PREFIX_BYTES or len(prefix) < PREFIX_BYTES:
        raise HeaderError(
            plain(file),
            say("problem.header-short", least=PREFIX_BYTES, got=min(file_size, len(prefix))),
            hint=say("hint.cut-short"),
        )
    length = int.from_bytes(prefix[:PREFIX_BYTES], "little")
    hint = next((hint for start, hint in _OTHER_FILES if prefix.startswith(start)), None)
    if length < 2:
        raise HeaderError(plain(file), say("problem.header-smallest", length=length), hint=hint)
    if length > MAX_HEADER_BYTES:
        raise HeaderError(
            plain(file),
            say("problem.header-largest", length=length, most=MAX_HEADER_BYTES),
            hint=hint or say("hint.no-safetensors"),
        )
    if length > file_size - PREFIX_BYTES:
        raise HeaderError(
            plain(file),
            say("problem.header-end", stop=PREFIX_BYTES + length, file_size=file_size),
            hint=hint or say("hint.cut-or-damaged"),
        )
    return PREFIX_BYTES + length


def parse_header(data: bytes, *, file: str, file_size: int, is_part: bool = False) -> SafetensorsHeader:
    """Read a header, and refuse it unless it describes its file exactly.

    `data` is exactly as long as `header_length` says, and the tensors must fill the file to its last byte. If
    there are other files (`is_part`), this one may hold only tensors with unprintable names. The
    `HeaderError` names the tensor, what was expected and what was found. Memory is that of the result: the
    text is scanned in place, and the scan ends at the first deviation.
    """
    end = header_length(data[:PREFIX_BYTES], file=file, file_size=file_size)
    if len(data) != end:
        raise HeaderError(plain(file), say("problem.st-first", n=end, got=len(data)))
    return _HeaderParser(data, file=file, data_bytes=file_size - end).parse(is_part=is_part)


class _HeaderParser:
    """One pass over one header."""

    def __init__(self, data: bytes, *, file: str, data_bytes: int) -> None:
        self._scanner = Scanner(
            data, start=PREFIX_BYTES, error=lambda problem: HeaderError(plain(file), problem)
        )
        self._file = file
        self._data_start = len(data)
        self._data_bytes = data_bytes
        self._metadata: Mapping[str, str] = {}
        self._tensors: list[TensorInfo] = []
        self._odd: dict[str, Message] = {}
        if not data.startswith(b"{", PREFIX_BYTES):
            self._scanner.unexpected("'{'")

    def parse(self, *, is_part: bool) -> SafetensorsHeader:
        scanner = self._scanner
        # One more than the tensors, for the metadata.
        for key in scanner.members(say("part.header"), limit=MAX_TENSORS + 1):
            if key == "__metadata__":
                self._metadata = self._read_metadata()
            else:
                self._tensors.append(self._read_tensor(key))
        scanner.finish(padding=b" ")
        self._tensors.sort(key=lambda info: (info.start, info.stop, info.name))
        self._check_layout()
        tensors = [info for info in self._tensors if info.name not in self._odd]
        if self._odd and not tensors and not is_part:
            name, problem = next(iter(self._odd.items()))
            scanner.fail(say("problem.tensor-name", name=quoted(name), problem=problem))
        return SafetensorsHeader(
            tensors=tuple(tensors), metadata=self._metadata, left_out=tuple(map(quoted, self._odd))
        )

    def _read_metadata(self) -> dict[str, str]:
        scanner = self._scanner
        # MLX writes null when there is nothing to say.
        if scanner.take(b"null"):
            return {}
        return {
            key: scanner.string(say("part.metadata-entry", key=quoted(key)))
            for key in scanner.members("__metadata__", limit=MAX_METADATA_ENTRIES)
        }

    def _read_tensor(self, name: str) -> TensorInfo:
        if problem := name_problem(name):
            self._odd[name] = problem
        if usual := self._scanner.match(_USUAL_ENTRY):
            dtype, shape, first, last = usual.groups()
        elif by_key := self._scanner.match(_SORTED_ENTRY):
            first, last, dtype, shape = by_key.groups()
        else:
            return self._checked(name, *self._read_members(name))
        axes = tuple(map(int, shape.split(b","))) if shape else ()
        return self._checked(name, dtype.decode("ascii"), axes, (int(first), int(last)))

    def _read_members(self, name: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """Read dtype, shape and data_offsets in any order and spacing."""
        scanner = self._scanner
        what = say("part.tensor", name=quoted(name))
        dtype: str | None = None
        shape: tuple[int, ...] | None = None
        offsets: tuple[int, ...] | None = None
        for key in scanner.members(what, limit=3):
            match key:
                case "dtype":
                    dtype = scanner.string(say("part.dtype-of", what=what))
                case "shape":
                    shape = scanner.integers(say("part.shape-of", what=what), limit=MAX_RANK)
                case "data_offsets":
                    offsets = scanner.integers(say("part.offsets-of", what=what), limit=2)
                case _:
                    scanner.fail(say("problem.st-keys", what=what, key=quoted(key)))
        found = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        missing = [key for key, value in found.items() if value is None]
        if dtype is None or shape is None or offsets is None:
            scanner.fail(say("problem.st-key-missing", what=what, key=" and ".join(missing)))
        if len(offsets) != 2:
            scanner.fail(say("problem.st-offsets", what=what, got=len(offsets)))
        return dtype, shape, offsets

    def _checked(self, name: str, dtype: str, shape: tuple[int, ...], offsets: tuple[int, ...]) -> TensorInfo:
        """Build the entry unless format, shape, offsets and length contradict each other."""
        fail = self._scanner.fail
        known = DTYPES.get(dtype)
        if known is None:
            fail(say("problem.st-dtype", name=quoted(name), dtype=quoted(dtype), known=", ".join(DTYPES)))
        n_elements = math.prod(shape)
        if n_elements > MAX_ELEMENTS or (not n_elements and math.prod(filter(None, shape)) > MAX_ELEMENTS):
            fail(say("problem.st-shape", name=quoted(name), shape=str(list(shape))))
        first, last = offsets
        if first > last:
            fail(say("problem.st-begin", name=quoted(name), first=first, last=last))
        if last > self._data_bytes:
            fail(say("problem.st-cut", name=quoted(name), first=first, last=last, n=self._data_bytes))
        if n_elements * known.bits % 8:
            fail(say("problem.st-elements", name=quoted(name), n=n_elements, dtype=dtype))
        if n_elements * known.bits // 8 != last - first:
            fail(
                say(
                    "problem.st-takes",
                    name=quoted(name),
                    dtype=dtype,
                    shape=str(list(shape)),
                    n=n_elements * known.bits // 8,
                    first=first,
                    last=last,
                    m=last - first,
                )
            )
        return TensorInfo(
            name=name,
            dtype=known.name,
            shape=shape,
            file=self._file,
            start=self._data_start + first,
            stop=self._data_start + last,
        )

    def _check_layout(self) -> None:
        """Refuse tensors that overlap, and bytes that belong to none."""
        fail = self._scanner.fail
        position = self._data_start
        before: TensorInfo | None = None
        for info in self._tensors:
            if info.start < position and before is not None:
                fail(
                    say(
                        "problem.st-inside",
                        name=quoted(info.name),
                        start=info.start - self._data_start,
                        other=quoted(before.name),
                        end=position - self._data_start,
                    )
                )
            if info.start > position:
                fail(
                    say(
                        "problem.st-gap",
                        start=position - self._data_start,
                        stop=info.start - self._data_start,
                        name=quoted(info.name),
                    )
                )
            position, before = info.stop, info
        end = position - self._data_start
        if end < self._data_bytes:
            fail(say("problem.st-after", end=end, n=self._data_bytes))
