"""From a tensor of the pickle to bytes of the file: a plain run if possible, by lines if it is strided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from modelkin.errors import HeaderError
from modelkin.message import say
from modelkin.source import ByteRange
from modelkin.tensors import (
    APART,
    DTYPES,
    MAX_ELEMENTS,
    Array,
    LinePlan,
    LineRuns,
    Numbers,
    TensorInfo,
    View,
    decode,
    few_stretches,
    line_elements,
    numbers_of,
    raw_bits,
)
from modelkin.untrusted import plain, quoted

from ._contents import element_bytes, storage_bytes
from .values import TensorRef

_AT_ONCE = 1 << 20
"""Elements that are gathered in one go: their indices take eight bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strided:
    """A view of a run of numbers."""

    file: str
    start: int
    """Of the first element."""
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, none negative."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the elements, each counted as often as it appears in the tensor."""
        return int(np.prod(self.shape, dtype=np.int64)) * self._width

    @property
    def _width(self) -> int:
        return DTYPES[self.dtype].bits // 8

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan lines: the needed pieces, and what lies between those that are near."""
        return self._planned(self._firsts(numbers_of(runs)), line_elements(self.shape))

    def _planned(self, firsts: Numbers, width: int) -> LinePlan:
        """Plan this many elements of each line, starting at these places."""
        pieces = self._pieces(np.unique(firsts), width)
        ranges = [
            ByteRange(self.start + int(start) * self._width, self.start + int(stop) * self._width)
            for start, stop in pieces
        ]
        return LinePlan(ranges={self.file: ranges}, build=partial(self._build, firsts, width, pieces, ranges))

    def _firsts(self, lines: Numbers) -> Numbers:
        """Return where each line begins, in elements."""
        axes = np.unravel_index(lines, self.shape[:-1]) if len(self.shape) > 1 else ()
        places = np.zeros(lines.size, np.int64)
        for index, step in zip(axes, self.strides, strict=False):
            places += index * step
        return places

    def _pieces(self, firsts: Numbers, width: int) -> Numbers:
        """Return the stretches of elements that lines at these places take, in ascending order."""
        step = self.strides[-1]
        apart = APART // self._width if step > 1 else 0
        if step < apart or not apart:
            return np.stack(few_stretches(firsts, firsts + (width - 1) * step + 1, apart=apart), axis=1)
        # Neighbouring lines lie side by side at every step along the line.
        starts, stops = few_stretches(firsts, firsts + 1, apart=apart)
        steps = np.arange(width, dtype=np.int64)[:, None] * step
        begun, ended = (starts + steps).reshape(-1), (stops + steps).reshape(-1)
        order = np.argsort(begun, kind="stable")
        return np.stack(few_stretches(begun[order], ended[order], apart=apart), axis=1)

    def _build(
        self, firsts: Numbers, width: int, pieces: Numbers, ranges: list[ByteRange], view: View
    ) -> Array:
        step = self.strides[-1]
        parts = [raw_bits(view(self.file, item), self.dtype, item.length // self._width) for item in ranges]
        stored: npt.NDArray[Any] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        lengths = pieces[:, 1] - pieces[:, 0]
        # Where each piece begins in what was read, less where it begins in the tensor.
        shifts = np.cumsum(lengths) - lengths - pieces[:, 0]
        bits = np.empty((firsts.size, width), stored.dtype)
        along = np.arange(width, dtype=np.int64) * step
        n_lines = max(1, _AT_ONCE // width)
        for begin in range(0, firsts.size, n_lines):
            places = firsts[begin : begin + n_lines, None] + along
            if len(pieces) == 1:
                places += shifts[0]
            else:
                places += shifts[np.searchsorted(pieces[:, 0], places, side="right") - 1]
            np.take(stored, places, out=bits[begin : begin + n_lines], mode="clip")
        stored_order = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
        return decode(stored_order.reshape(-1).view(np.uint8).data, self.dtype, bits.size).reshape(bits.shape)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StridedColumns(Strided):
    """A matrix whose bytes run along the columns."""

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Plan some columns of lines."""
        start, stop = columns
        return self._planned(self._firsts(numbers_of(runs)) + start * self.strides[-1], stop - start)


def strided(
    *, file: str, start: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Strided:
    """Return a view: one that can be read by columns if columns are contiguous and lines are not."""
    by_columns = len(shape) == 2 and 0 < strides[0] < strides[1]
    kind = StridedColumns if by_columns else Strided
    return kind(file=file, start=start, dtype=dtype, shape=shape, strides=strides)


_FREE_ELEMENTS = 1 << 20
"""A view may repeat the numbers of its storage up to this size, or up to the storage's size."""


def place_tensor(name: str, tensor: TensorRef, *, file: str, place: ByteRange) -> TensorInfo:
    """Describe a tensor of a pickle by the bytes of its file, given where its storage lies.

    Raises `HeaderError` if it goes beyond its storage, or repeats a few numbers absurdly often.
    """
    where = say("part.tensor", name=quoted(name))
    shape, width = tensor.shape, element_bytes(tensor.dtype)
    n_elements = math.prod(shape)
    if math.prod(filter(None, shape)) > MAX_ELEMENTS:
        raise HeaderError(plain(file), say("problem.at-absurd-shape", where=where, shape=str(list(shape))))
    if not n_elements:
        return TensorInfo(
            name=name, dtype=tensor.dtype, shape=shape, file=file, start=place.start, stop=place.start
        )
    # The stride of an axis of length one is never used; writers leave anything there.
    strides = tuple(step if size > 1 else 0 for size, step in zip(shape, tensor.strides, strict=True))
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    n_stored = storage_bytes(tensor.storage)
    if (tensor.offset + span) * width > n_stored:
        raise HeaderError(
            plain(file),
            say("problem.torch-reaches", where=where, stop=(tensor.offset + span) * width, n=n_stored),
        )
    start = place.start + tensor.offset * width
    stop = start + span * width
    if _is_plain(shape, strides):
        return TensorInfo(name=name, dtype=tensor.dtype, shape=shape, file=file, start=start, stop=stop)
    if n_elements > max(_FREE_ELEMENTS, n_stored // width):
        raise HeaderError(
            plain(file), say("problem.torch-makes", where=where, n=n_elements, m=n_stored // width)
        )
    return TensorInfo(
        name=name,
        dtype=tensor.dtype,
        shape=shape,
        file=file,
        start=start,
        stop=stop,
        storage=strided(file=file, start=start, dtype=tensor.dtype, shape=shape, strides=strides),
    )


def _is_plain(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say whether the elements lie one after another in C order."""
    expected = 1
    for size, step in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True
