"""bitsandbytes, four bits: one long run of codes in blocks, with one magnitude per block.

Two codes share a byte, the first in its high bits. The magnitudes may themselves be eight-bit codes.
``W = table[code] * absmax[block]``, ``absmax = table2[code2] * absmax2[block2] + offset``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from modelkin.message import say
from modelkin.source import ByteRange
from modelkin.tensors import (
    Array,
    LinePlan,
    LineRuns,
    TensorInfo,
    View,
    by_file,
    line_elements,
    looked_up,
    unpacked,
)
from modelkin.untrusted import JsonRefused, strict_object

from ._scheme import FoundWeight, SchemeInput, expect_dtype, expect_shape, fail, part, template, weight

_STATE: Final = ".quant_state.bitsandbytes__"
_TYPES: Final = {"nf4": "NF4", "fp4": "FP4"}
_MOST_AXES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantState:
    """What the JSON that accompanies a weight says."""

    shape: tuple[int, ...]
    block: int
    nested_block: int
    """Zero if magnitudes are plain numbers."""
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Magnitudes that are codes themselves."""

    table: TensorInfo
    absmax: TensorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FourBits:
    """One weight."""

    expected: QuantState
    """What another tensor of this kind says; that this one agrees is checked when it is read."""
    codes: TensorInfo
    absmax: TensorInfo
    table: TensorInfo
    state: TensorInfo
    nested: Nested | None

    @property
    def n_bytes(self) -> int:
        return sum(info.n_bytes for info in (self.codes, self.absmax, *self._always))

    @property
    def _always(self) -> tuple[TensorInfo, ...]:
        """What every reading needs: the tables, and the magnitudes of magnitudes."""
        nested = (self.nested.table, self.nested.absmax) if self.nested is not None else ()
        return (self.table, self.state, *nested)

    def plan(self, runs: LineRuns) -> LinePlan:
        width = line_elements(self.expected.shape)
        # Whole blocks: a row need not begin at one.
        n_all, block = math.prod(self.expected.shape), self.expected.block
        blocks = [(start * width // block, -(-stop * width // block)) for start, stop in runs]
        ranges = [(info.file, ByteRange(info.start, info.stop)) for info in self._always]
        for first, last in blocks:
            ranges.append((self.codes.file, self._codes(first * block, min(last * block, n_all))))
            ranges.append((self.absmax.file, self._magnitudes(first, last)))
        return LinePlan(ranges=by_file(ranges), build=partial(self._build, runs, blocks, width))

    def _codes(self, start: int, stop: int) -> ByteRange:
        return ByteRange(self.codes.start + start // 2, self.codes.start + -(-stop // 2))

    def _magnitudes(self, first: int, last: int) -> ByteRange:
        width = 4 if self.nested is None else 1
        return ByteRange(self.absmax.start + first * width, self.absmax.start + last * width)

    def _build(self, runs: LineRuns, blocks: list[tuple[int, int]], width: int, view: View) -> Array:
        state = read_state(self.state, bytes(view(self.state.file, _all(self.state))))
        expected = self.expected
        if (state.shape, state.block, state.nested_block) != (
            expected.shape,
            expected.block,
            expected.nested_block,
        ):
            fail(self.state, say("problem.quant-other-shape", shape=str(list(expected.shape))))
        table = _floats(view, self.table)
        lines = [
            self._stretch(view, table, state, first, last, start * width, stop * width)
            for (start, stop), (first, last) in zip(runs, blocks, strict=True)
        ]
        return np.concatenate(lines).reshape(-1, width)

    def _stretch(
        self, view: View, table: Array, state: QuantState, first: int, last: int, start: int, stop: int
    ) -> Array:
        """Return the weights from `start` up to `stop`, out of the blocks from `first` up to `last`."""
        block = state.block
        begin, end = first * block, min(last * block, math.prod(state.shape))
        data = np.frombuffer(view(self.codes.file, self._codes(begin, end)), np.uint8)
        codes = unpacked(data[:, None], 4)[:, ::-1]
        weights = np.zeros((last - first, block), np.float32)  # the last block may be incomplete
        weights.reshape(-1)[: end - begin] = looked_up(table, codes.reshape(-1)[: end - begin])
        with np.errstate(all="ignore"):
            weights *= self._absmax(view, state, first, last)[:, None]
        return weights.reshape(-1)[start - begin : stop - begin]

    def _absmax(self, view: View, state: QuantState, first: int, last: int) -> Array:
        data = view(self.absmax.file, self._magnitudes(first, last))
        if self.nested is None:
            return np.frombuffer(data, "<f4")
        codes = np.frombuffer(data, np.uint8)
        outer = _floats(view, self.nested.absmax)[np.arange(first, last) // state.nested_block]
        magnitudes = looked_up(_floats(view, self.nested.table), codes) * outer
        magnitudes += np.float32(state.offset)
        return magnitudes


def find(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    states = {name: info for name, info in checkpoint.index.items() if _STATE in name}
    # Opening would take one small read per tensor: instead, one tensor speaks for its kind, and
    # the others are checked against it when they are read.
    alike: dict[tuple[str, int], TensorInfo] = {}
    kinds: dict[str, tuple[str, int]] = {}
    for name, info in states.items():
        needed = partial(part, checkpoint.index, info, name.partition(_STATE)[0])
        for codes in checkpoint.attempt(info, needed):
            kinds[name] = template(name), codes.n_bytes
            alike.setdefault(kinds[name], info)
    read = checkpoint.small(alike.values())
    for name, kind in kinds.items():
        make = partial(_weight, checkpoint, states[name], alike[kind], read.get(alike[kind].name, b""))
        codes = checkpoint.index[name.partition(_STATE)[0]]
        yield from checkpoint.attempt(states[name], make, codes=codes)


def _weight(checkpoint: SchemeInput, info: TensorInfo, told: TensorInfo, data: bytes) -> FoundWeight:
    state = read_state(told, data)
    name, _, kind = info.name.partition(_STATE)
    label = _TYPES.get(kind)
    if label is None:
        fail(info, say("problem.expected-got", expected=" or ".join(_TYPES), got=repr(kind)))
    index = checkpoint.index
    codes = index[name]
    absmax, table = (part(index, info, f"{name}.{what}") for what in ("absmax", "quant_map"))
    n_all = math.prod(state.shape)
    expect_dtype(codes, "U8")
    if codes.n_bytes != -(-n_all // 2):
        fail(codes, say("problem.quant-shape-codes", n=codes.n_bytes, m=n_all, shape=str(list(state.shape))))
    n_blocks = -(-n_all // state.block)
    expect_shape(absmax, (n_blocks,))
    expect_dtype(table, "F32")
    expect_shape(table, (16,))
    nested = None
    expect_dtype(absmax, "U8" if state.nested_block else "F32")
    if state.nested_block:
        inner, outer = (part(index, info, f"{name}.nested_{what}") for what in ("quant_map", "absmax"))
        expect_dtype(inner, "F32")
        expect_shape(inner, (256,))
        expect_dtype(outer, "F32")
        expect_shape(outer, (-(-n_blocks // state.nested_block),))
        nested = Nested(table=inner, absmax=outer)
    storage = FourBits(expected=state, codes=codes, absmax=absmax, table=table, state=info, nested=nested)
    uses = [one.name for one in (info, absmax, table, *((nested.table, nested.absmax) if nested else ()))]
    return weight(name, label, state.shape, codes, storage, *uses)


def read_state(info: TensorInfo, data: bytes) -> QuantState:
    """Read the JSON that a tensor holds, and refuse what makes no sense."""
    try:
        found = strict_object(data, as_python_writes=True)
    except JsonRefused as error:
        fail(info, say("problem.json-object", why=error.reason))
    shape = found.get("shape")
    if not isinstance(shape, list) or not 1 <= len(shape) <= _MOST_AXES or not all(map(_is_size, shape)):
        fail(info, say("problem.quant-shape"))
    nested = "nested_blocksize" in found
    offset = found.get("nested_offset", 0.0)
    if not isinstance(offset, (int, float)) or not math.isfinite(offset):
        fail(info, say("problem.quant-offset"))
    return QuantState(
        shape=tuple(shape),
        block=_block(info, found.get("blocksize")),
        nested_block=_block(info, found.get("nested_blocksize")) if nested else 0,
        offset=float(offset),
    )


def _block(info: TensorInfo, size: object) -> int:
    # Even, so that a block begins on a byte.
    if not isinstance(size, int) or not 2 <= size <= 1 << 20 or size % 2:
        fail(info, say("problem.quant-blocks"))
    return size


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 48


def _all(info: TensorInfo) -> ByteRange:
    return ByteRange(info.start, info.stop)


def _floats(view: View, info: TensorInfo) -> Array:
    return np.frombuffer(view(info.file, _all(info)), "<f4")
