"""From slices to arrays: plan every byte, read once, decode; and the walk over a whole model in pieces.

Where the bytes come from is not known here.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Protocol, final

from modelkin.errors import BadSelection
from modelkin.message import say
from modelkin.source import ByteRange, merged
from modelkin.untrusted import quoted

from ._codes import Array
from ._dtypes import DTYPES, Buffer, decode, raw_bits
from ._index import TensorIndex, TensorInfo
from ._storage import by_file, line_elements
from .slices import Piece, SlicePlan, TensorSlice, piece_of, plan_slice

CHUNK_BYTES = 8 << 20
"""Long enough that the overhead of a request is small, short enough to hold several."""

_N_COMPARED = 2000
"""Names compared with a misspelt one: more would take longer than reading the model."""


class ByteViews(Protocol):
    """Bytes that have been read."""

    def view(self, file: str, wanted: ByteRange) -> memoryview:
        """Return exactly those bytes, which lie inside a range that was asked for."""
        ...


class RangeReader(Protocol):
    """Reads byte ranges of a model's files."""

    def fetch(
        self, wanted: Mapping[str, Sequence[ByteRange]], *, max_waste: float | None = None
    ) -> ByteViews:
        """Read all these ranges in one planned, coalesced, concurrent read."""
        ...

    def stream(
        self, wanted: Iterable[tuple[str, ByteRange]], *, digested: bool = True
    ) -> Iterator[memoryview | bytes]:
        """Read the ranges one after another, yielding each in order, with a bounded read-ahead."""
        ...

    def mapped(
        self, file: str, wanted: ByteRange, *, digested: bool = True
    ) -> AbstractContextManager[memoryview]:
        """Expose a range of a local file while the context is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChunk:
    """A stretch of one tensor, as `TensorReader.chunks` yields it."""

    name: str
    start: int
    """First element, in C order."""
    stop: int
    """Just after the last element."""
    values: Array = field(repr=False)
    """Flat."""


@final
class TensorReader:
    """Reads tensors of one model: an index says where each lies, a fetcher reads the bytes."""

    def __init__(self, index: TensorIndex, fetcher: RangeReader) -> None:
        self.index = index
        self._fetcher = fetcher

    def ranges(self, slices: Iterable[TensorSlice]) -> dict[str, list[ByteRange]]:
        """Return the bytes that `read` would ask for, without reading: each byte once, sorted, by file."""
        return _by_file(self._plans(slices))

    def read(self, slices: Sequence[TensorSlice], *, max_waste: float | None = None) -> list[Array]:
        """Read slices as numbers, all with one fetch; element types as `decode` says.

        Treat the arrays as read-only: they may share memory with each other. `max_waste` is the share of
        unneeded bytes that joining ranges may add; None leaves it to the fetcher. Raises `BadSelection` for a
        tensor, row or element that is not there; nothing is read then.
        """
        return self._read(slices, raw=False, max_waste=max_waste)

    def raw(self, slices: Sequence[TensorSlice]) -> list[Array]:
        """Read slices as stored bits, in unsigned integers (see `raw_bits`), all with one fetch."""
        return self._read(slices, raw=True)

    def read_one(self, name: str, rows: slice | Sequence[int] | None = None) -> Array:
        """Read one tensor, or rows of it: a slice with step 1, or single rows."""
        return self.read([self._one(name, rows)])[0]

    def chunks(
        self,
        names: Iterable[str] | None = None,
        *,
        max_bytes: int = CHUNK_BYTES,
        raw: bool = False,
        digested: bool = True,
    ) -> Iterator[TensorChunk]:
        """Walk over tensors, by default all, in the order of their bytes, in pieces of bounded size.

        Memory depends on `max_bytes` and on the fetcher's read-ahead, not on the size of the model. A chunk
        never spans two tensors; tensors without elements yield none. It has at most `max_bytes` stored bytes.
        Numbers can take more once decoded: twice as much for BF16, eight times for F4. Tensors that are not
        plain runs of numbers come in chunks of whole lines with at most that many bytes of numbers, or one
        line.

        If `raw`, stored bits are yielded instead of numbers. If `digested`, local files get their digests in
        the ledger, which takes longer than reading. Raises `BadSelection` for a name that is not there, at
        once and not at the first chunk.
        """
        if max_bytes < max(dtype.group_bytes for dtype in DTYPES.values()):
            raise ValueError(f"max_bytes: expected at least 8, got {max_bytes}")
        wanted = self.index.values() if names is None else [self._info(name) for name in set(names)]
        ordered = sorted(wanted, key=lambda info: (info.file, info.start, info.name))
        return self._walk(ordered, max_bytes, raw, digested)

    @contextmanager
    def mapped(self, name: str, start: int, stop: int, *, digested: bool = True) -> Iterator[Array]:
        """Expose the stored bits of elements `start` to `stop` of a plain tensor in a local file."""
        info = self._info(name)
        piece = piece_of(info, start, stop)
        with self._fetcher.mapped(info.file, piece.range, digested=digested) as data:
            yield raw_bits(data, info.dtype, piece.count, skip=piece.skip)

    def _walk(
        self, tensors: list[TensorInfo], max_bytes: int, raw: bool, digested: bool
    ) -> Iterator[TensorChunk]:
        for plain, group in groupby(tensors, key=lambda info: info.storage is None):
            if plain:
                yield from self._stream(list(group), max_bytes, raw_bits if raw else decode, digested)
                continue
            for info in group:
                yield from self._lines(info, max_bytes, raw)

    def _stream(
        self, tensors: list[TensorInfo], max_bytes: int, decoder: Callable[..., Array], digested: bool
    ) -> Iterator[TensorChunk]:
        # The fetcher requests ahead of what it has yielded; this holds what lies between.
        asked: deque[tuple[TensorInfo, int, Piece]] = deque()

        def requests() -> Iterator[tuple[str, ByteRange]]:
            for info in tensors:
                for start, piece in _cut(info, max_bytes):
                    asked.append((info, start, piece))
                    yield info.file, piece.range

        for data in self._fetcher.stream(requests(), digested=digested):
            info, start, piece = asked.popleft()
            yield TensorChunk(
                name=info.name,
                start=start,
                stop=start + piece.count,
                values=decoder(data, info.dtype, piece.count),
            )
        if asked:
            raise RuntimeError(f"the fetcher ended {len(asked)} ranges early")

    def _lines(self, info: TensorInfo, max_bytes: int, raw: bool) -> Iterator[TensorChunk]:
        """Walk over a tensor whose lines are scattered in the file: one fetch per chunk."""
        width = line_elements(info.shape)
        step = width * max(1, max_bytes // (4 * max(1, width)))
        for start in range(0, info.n_elements, step):
            stop = min(start + step, info.n_elements)
            values = self._read([TensorSlice.blocks(info.name, [(start, stop)])], raw=raw)[0]
            yield TensorChunk(name=info.name, start=start, stop=stop, values=values)

    def _read(
        self, slices: Sequence[TensorSlice], *, raw: bool, max_waste: float | None = None
    ) -> list[Array]:
        plans = self._plans(slices)
        wanted = _by_file(plans)
        view = self._fetcher.fetch(wanted, max_waste=max_waste).view if wanted else _nothing
        return [plan.assemble(view, raw=raw) for plan in plans]

    def _plans(self, slices: Iterable[TensorSlice]) -> list[SlicePlan]:
        return [plan_slice(wanted, self._info(wanted.name)) for wanted in slices]

    def _one(self, name: str, rows: slice | Sequence[int] | None) -> TensorSlice:
        if rows is None:
            return TensorSlice.whole(name)
        if not isinstance(rows, slice):
            return TensorSlice.scattered(name, rows)
        if rows.step not in (None, 1):
            raise BadSelection(say("part.tensor", name=quoted(name)), say("problem.rows-step", got=rows.step))
        start = 0 if rows.start is None else rows.start
        stop = self._info(name).n_rows if rows.stop is None else rows.stop
        return TensorSlice.rows(name, start, stop)

    def _info(self, name: str) -> TensorInfo:
        if name in self.index:
            return self.index[name]
        # Comparing with every name of a very large model would take longer than reading it.
        close = difflib.get_close_matches(name[:200], islice(self.index, _N_COMPARED), n=1)
        raise BadSelection(
            say("part.tensor", name=quoted(name)),
            say("problem.no-tensor", n=len(self.index)),
            hint=say("hint.did-you-mean", name=quoted(close[0])) if close else None,
        )


def _cut(info: TensorInfo, max_bytes: int) -> Iterator[tuple[int, Piece]]:
    """Cut a tensor where elements begin on a byte."""
    dtype = DTYPES[info.dtype]
    step = max_bytes // dtype.group_bytes * dtype.group
    for start in range(0, info.n_elements, step):
        yield start, piece_of(info, start, min(start + step, info.n_elements))


def _by_file(plans: Iterable[SlicePlan]) -> dict[str, list[ByteRange]]:
    wanted = by_file(
        (file, item) for plan in plans for file, ranges in plan.ranges.items() for item in ranges
    )
    return {file: merged(wanted[file]) for file in sorted(wanted)}


def _nothing(file: str, wanted: ByteRange) -> Buffer:
    raise AssertionError(f"an empty plan asked for bytes {wanted} of {file}")
