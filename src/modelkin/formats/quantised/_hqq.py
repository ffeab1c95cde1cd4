"""HQQ: one run of codes, folded: its first part sits in the high bits of each integer, its last in the low.

``W = (code - zero) * scale`` for groups along either axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from modelkin.message import say
from modelkin.source import ByteRange
from modelkin.tensors import Array, LinePlan, LineRuns, TensorInfo, View, by_file, decode, line_elements

from ._scheme import FLOATS, FoundWeight, SchemeInput, expect_dtype, fail, part, template, weight

# Bits -> codes in one integer, and the type of these integers.
_PACKED: Final = {8: (1, "U8"), 4: (2, "U8"), 2: (4, "U8"), 1: (8, "U8"), 3: (10, "I32")}
_SIDE: Final = ("shape", "nbits", "group_size", "axis")
_DROPPED: Final = (
    *("packing", "unpack_view_dtype", "view_as_float", "quant_scale", "quant_zero", "compute_dtype"),
    *("offload_meta", "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """One weight."""

    shape: tuple[int, ...]
    bits: int
    group: int
    axis: int
    """1: neighbours share a scale. 0: weights that are a fixed fraction of all weights apart do."""
    codes: TensorInfo
    scale: TensorInfo
    zero: TensorInfo

    @property
    def n_bytes(self) -> int:
        return self.codes.n_bytes + self.scale.n_bytes + self.zero.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        width = line_elements(self.shape)
        stretches = [(start * width, stop * width) for start, stop in runs]
        ranges = []
        for start, stop in stretches:
            ranges += [(self.codes.file, item) for _, item in self._pieces(start, stop)]
            ranges += [
                (info.file, item)
                for info in (self.scale, self.zero)
                for item in self._scales(info, start, stop)
            ]
        return LinePlan(ranges=by_file(ranges), build=partial(self._build, stretches, width))

    @property
    def _length(self) -> int:
        """Integers of the folded run."""
        return self.codes.n_elements

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, ByteRange]]:
        """Yield the parts of a stretch by fold: how far to shift, and which bytes."""
        per, dtype = _PACKED[self.bits]
        width = 4 if dtype == "I32" else 1
        while start < stop:
            fold, place = divmod(start, self._length)
            end = min(stop, (fold + 1) * self._length)
            first = self.codes.start + place * width
            yield (per - 1 - fold) * self.bits, ByteRange(first, first + (end - start) * width)
            start = end

    def _scales(self, info: TensorInfo, start: int, stop: int) -> list[ByteRange]:
        width = info.n_bytes // info.n_elements
        if self.axis == 0:  # neighbours have neighbouring scales, which start over at the end
            return [ByteRange(info.start, info.stop)]
        first, last = start // self.group, -(-stop // self.group)
        return [ByteRange(info.start + first * width, info.start + last * width)]

    def _build(self, stretches: list[tuple[int, int]], width: int, view: View) -> Array:
        return np.concatenate([self._stretch(view, *one) for one in stretches]).reshape(-1, width)

    def _stretch(self, view: View, start: int, stop: int) -> Array:
        mask = (1 << self.bits) - 1
        kind = "<u4" if _PACKED[self.bits][1] == "I32" else np.uint8
        parts = [
            np.frombuffer(view(self.codes.file, item), kind) >> shift & mask
            for shift, item in self._pieces(start, stop)
        ]
        weights = np.concatenate(parts).astype(np.float32)
        zero, scale = (self._spread(view, info, start, stop) for info in (self.zero, self.scale))
        with np.errstate(all="ignore"):
            weights -= zero
            weights *= scale
        return weights

    def _spread(self, view: View, info: TensorInfo, start: int, stop: int) -> Array:
        """Return the scale of each weight."""
        item = self._scales(info, start, stop)[0]
        width = info.n_bytes // info.n_elements
        values = decode(view(info.file, item), info.dtype, item.length // width)
        if self.axis == 0:
            spread: Array = values[np.arange(start, stop) % values.size]
            return spread
        skip = start % self.group
        return np.repeat(values, self.group)[skip : skip + stop - start]


def find(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    index = checkpoint.index
    codes = {name: info for name, info in index.items() if name.endswith(".W_q")}
    # Weights of one name and size are alike; what one says is true for all layers.
    alike = {(template(name), info.shape): name.removesuffix("W_q") for name, info in codes.items()}
    wanted = {
        prefix: infos
        for prefix in alike.values()
        for infos in checkpoint.attempt(codes[f"{prefix}W_q"], partial(_sides, checkpoint, prefix))
    }
    read = checkpoint.small([info for infos in wanted.values() for info in infos])
    for name, info in codes.items():
        prefix = name.removesuffix("W_q")
        sides = wanted.get(alike[template(name), info.shape])
        if sides is not None:
            yield from checkpoint.attempt(info, partial(_weight, checkpoint, prefix, info, sides, read))
        elif prefix not in alike.values():
            yield from checkpoint.attempt(info, partial(fail, info, say("problem.quant-like-others")))


def _sides(checkpoint: SchemeInput, prefix: str) -> list[TensorInfo]:
    index = checkpoint.index
    return [part(index, index[f"{prefix}W_q"], prefix + side) for side in _SIDE]


def _weight(
    checkpoint: SchemeInput,
    prefix: str,
    codes: TensorInfo,
    sides: list[TensorInfo],
    read: Mapping[str, bytes],
) -> FoundWeight:
    index = checkpoint.index
    told = [_numbers(one, read.get(one.name, b"")) for one in sides]
    shape, (bits, *_), (group, *_), (axis, *_) = told
    if bits not in _PACKED or axis not in (0, 1) or len(shape) != 2 or min(shape) < 1:
        fail(codes, say("problem.quant-axis", bits=bits, axis=axis, shape=str(list(shape))))
    n_all = math.prod(shape)
    if group < 1 or n_all % group:
        fail(codes, say("problem.quant-weight-groups", n=n_all, group=group))
    per, dtype = _PACKED[bits]
    expect_dtype(codes, dtype)
    rows, columns = (group, n_all // group) if axis == 0 else (n_all // group, group)
    if codes.n_elements != -(-rows // per) * columns:
        fail(codes, say("problem.quant-words", n=codes.n_elements, m=n_all, bits=bits))
    if per not in (1, 10) and rows % per:
        fail(codes, say("problem.quant-folded", n=rows, m=per))
    scale, zero = (part(index, codes, prefix + what) for what in ("scale", "zero"))
    for info in (scale, zero):
        expect_dtype(info, *FLOATS)
        if info.n_elements != n_all // group:
            fail(info, say("problem.quant-one-each", wanted=n_all // group, got=info.n_elements))
    storage = Folded(shape=shape, bits=bits, group=group, axis=axis, codes=codes, scale=scale, zero=zero)
    beside = (prefix + what for what in (*_SIDE, *_DROPPED))
    uses = [scale.name, zero.name, *(name for name in beside if name in index)]
    return weight(f"{prefix}weight", f"HQQ-{bits}", shape, codes, storage, *uses)


def _numbers(info: TensorInfo, data: bytes) -> tuple[int, ...]:
    expect_dtype(info, "I64", "I32", "U8")
    if not 1 <= info.n_elements <= 8 or len(data) != info.n_bytes:
        fail(info, say("problem.quant-few-numbers", got=info.n_elements))
    return tuple(int(value) for value in decode(data, info.dtype, info.n_elements))
