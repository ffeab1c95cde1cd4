"""Eight-bit numbers with scales: FP8 by blocks (DeepSeek), channels or tensors, and INT8.

``W = code * scale`` or ``(code - zero) * scale``; the shapes say which scale applies to which weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from modelkin.message import say
from modelkin.tensors import TensorInfo, count_lines

from ._matrix import Plain, ScaleGrid, whole_grid
from ._scheme import (
    FLOATS,
    FoundWeight,
    SchemeInput,
    expect_dtype,
    expect_shape,
    expect_stack,
    fail,
    part,
    template,
    weight,
)
from ._stored import ScaledRows

FP8: Final = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
_ENDINGS: Final = ("_scale_inv", "_scale")
_USUAL_BLOCK: Final = (128, 128)
_MX_BLOCK: Final = 32
# bitsandbytes stores the largest magnitude of each row, and codes of -127 to 127.
_PER_CODE: Final = 7.874015718698502e-3


def find(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all eight-bit weights that come with scales."""
    index = checkpoint.index
    layouts = _layouts(checkpoint)
    for name, info in index.items():
        if name.endswith(".SCB"):
            prefix = name.removesuffix("SCB")
            make = partial(_bitsandbytes, checkpoint, prefix, info, layouts)
            yield from checkpoint.attempt(info, make, codes=index.get(f"{prefix}weight"))
        for ending in _ENDINGS:
            codes = index.get(name.removesuffix(ending)) if name.endswith(ending) else None
            if codes is not None and codes.storage is None and codes.dtype in (*FP8, "I8"):
                make = partial(_weight, checkpoint, codes, info, inverse=ending == "_scale_inv")
                yield from checkpoint.attempt(info, make, codes=codes)


def _weight(checkpoint: SchemeInput, codes: TensorInfo, scales: TensorInfo, *, inverse: bool) -> FoundWeight:
    shape = expect_stack(codes)
    zeros = checkpoint.index.get(f"{codes.name}_zero_point")
    powers = scales.dtype == "U8"
    expect_dtype(scales, *FLOATS, *(("U8", "F8_E8M0") if codes.dtype in FP8 else ()))
    if powers:
        scales = replace(scales, dtype="F8_E8M0")
    scale = block_grid(checkpoint, codes, scales, default=_USUAL_BLOCK if inverse else None)
    zero = None
    if zeros is not None:
        expect_dtype(zeros, "I8", *FP8, *FLOATS)
        zero = block_grid(checkpoint, codes, zeros, default=None)
    by_blocks = scale.row_block not in (1, count_lines(shape)) and scale.column_block != shape[-1]
    label = "INT8" if codes.dtype == "I8" else "FP8-block" if by_blocks else "FP8"
    if scales.dtype == "F8_E8M0" and scale.row_block == 1 and scale.column_block == _MX_BLOCK:
        label = "MXFP8"
    stored = ScaledRows(shape=shape, codes=Plain(info=codes, n_columns=shape[-1]), scale=scale, zero=zero)
    uses = [scales.name, *([zeros.name] if zeros is not None else [])]
    return weight(codes.name, label, shape, codes, stored, *uses)


def _bitsandbytes(
    checkpoint: SchemeInput, prefix: str, scales: TensorInfo, layouts: Mapping[str, bytes | None]
) -> FoundWeight:
    codes = part(checkpoint.index, scales, f"{prefix}weight")
    expect_dtype(codes, "I8")
    expect_dtype(scales, "F32")
    shape = expect_stack(codes)
    expect_shape(scales, (count_lines(shape),))
    grid = block_grid(checkpoint, codes, scales, default=None)
    codes_of = Plain(info=codes, n_columns=shape[-1])
    stored = ScaledRows(shape=shape, codes=codes_of, scale=grid, factor=_PER_CODE)
    layout = checkpoint.index.get(f"{prefix}weight_format")
    if layout is not None and (told := layouts[template(layout.name)]) != bytes(len(told or b"")):
        fail(layout, say("problem.quant-gpu-order"))
    uses = [scales.name, *([layout.name] if layout is not None else [])]
    return weight(codes.name, "BNB-8", shape, codes, stored, *uses)


def _layouts(checkpoint: SchemeInput) -> Mapping[str, bytes | None]:
    """Read the order of codes, zero for row order. One layer speaks for all: no writer mixes orders."""
    layouts = {
        template(name): info
        for name, info in checkpoint.index.items()
        if name.endswith(".weight_format") and f"{name.removesuffix('weight_format')}SCB" in checkpoint.index
    }
    read = checkpoint.small(layouts.values())
    return {kind: read.get(info.name) for kind, info in layouts.items()}


def block_grid(
    checkpoint: SchemeInput, codes: TensorInfo, scales: TensorInfo, *, default: tuple[int, int] | None
) -> ScaleGrid:
    """Return which scale applies to which weights, as both shapes and the block size of the config say."""
    shape = codes.shape
    if all(length == 1 for length in scales.shape):
        return whole_grid(Plain(info=replace(scales, shape=(1, 1)), n_columns=1), shape)
    if len(scales.shape) == 1:
        # One per row, or one per matrix of a stack.
        rows_only = (*shape[:-1], 1) if scales.shape[0] == count_lines(shape) else None
        stack_only = (*shape[:1], 1, 1) if len(shape) == 3 and scales.shape == shape[:1] else None
        view = rows_only or stack_only
        if view is None:
            fail(
                scales,
                say("problem.quant-scales-neither", shape=str(scales.shape[0]), weights=str(list(shape))),
            )
        scales = replace(scales, shape=view)
    if len(scales.shape) != len(shape) or scales.shape[:-2] != shape[:-2]:
        fail(scales, say("problem.quant-shape-fit", shape=str(list(scales.shape)), weights=str(list(shape))))
    blocks = _declared(checkpoint) or default
    row_block, column_block = (
        _block(scales, shape[axis], scales.shape[axis], blocks[axis] if blocks else None) for axis in (-2, -1)
    )
    return ScaleGrid(
        matrix=Plain(info=scales, n_columns=scales.shape[-1]),
        n_columns=scales.shape[-1],
        rows_each=shape[-2],
        grid_rows_each=scales.shape[-2],
        row_block=row_block,
        column_block=column_block,
    )


def _declared(checkpoint: SchemeInput) -> tuple[int, int] | None:
    groups = (inner.pair("block_structure") for inner in checkpoint.settings.weights())
    return checkpoint.settings.pair("weight_block_size") or next(filter(None, groups), None)


def _block(scales: TensorInfo, length: int, n_scales: int, declared: int | None) -> int:
    """Return how many weights along an axis share a scale."""
    if n_scales == length:
        return 1
    if n_scales == 1:
        return length
    if declared is not None and -(-length // declared) == n_scales:
        return declared
    if n_scales and length % n_scales == 0:
        return length // n_scales
    return fail(scales, say("problem.quant-scales-fit", n=n_scales, m=length))
