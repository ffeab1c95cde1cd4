"""Floats of four bits: NVFP4 (blocks of 16 with scales in FP8) and MXFP4 (blocks of 32, powers of two).

NVFP4 has one more scale, of the scales. Rows are stored as they are, except for the experts of gpt-oss, which
are stored output-first but known input-first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from modelkin.message import say
from modelkin.tensors import TensorInfo, float_table

from ._matrix import PackedRows, Plain, grid_along_rows, whole_grid
from ._scheme import FoundWeight, SchemeInput, expect_dtype, expect_shape, expect_stack, fail, part, weight
from ._stored import ScaledColumns, ScaledRows

MX_BLOCK, NV_BLOCK = 32, 16


def find(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    for name, info in checkpoint.index.items():
        if name.endswith("_blocks") and info.dtype == "U8" and len(info.shape) == 4:
            make = partial(_experts, checkpoint, name.removesuffix("_blocks"), info)
        elif name.endswith(".weight_packed") and info.dtype == "U8":
            make = partial(_packed, checkpoint, name.removesuffix("_packed"), info)
        elif info.dtype == "U8" and f"{name}_scale_2" in checkpoint.index:
            make = partial(_packed, checkpoint, name, info)
        else:
            continue
        yield from checkpoint.attempt(info, make)


def _experts(checkpoint: SchemeInput, name: str, codes: TensorInfo) -> FoundWeight:
    scales = part(checkpoint.index, codes, f"{name}_scales")
    expect_dtype(scales, "U8")
    n_experts, n_outputs, n_blocks, width = expect_stack(codes)  # it has four axes, or it would not be here
    if 2 * width != MX_BLOCK:
        fail(codes, say("problem.quant-block-bytes", wanted=MX_BLOCK // 2, got=width))
    expect_shape(scales, (n_experts, n_outputs, n_blocks))
    flat = replace(codes, shape=(n_experts, n_outputs, n_blocks * width))
    stored = four_bits(flat, replace(scales, dtype="F8_E8M0"), block=MX_BLOCK)
    shape = n_experts, n_blocks * MX_BLOCK, n_outputs
    # Loaders keep experts input-first, and so do unquantised copies.
    return weight(name, "MXFP4", shape, codes, ScaledColumns(stored=stored), scales.name)


def _packed(checkpoint: SchemeInput, name: str, codes: TensorInfo) -> FoundWeight:
    """Read what compressed-tensors and ModelOpt write."""
    index = checkpoint.index
    scales = part(index, codes, f"{name}_scale")
    expect_stack(codes)
    expect_dtype(codes, "U8")
    expect_dtype(scales, "U8", "F8_E8M0", "F8_E4M3")
    if scales.dtype != "F8_E4M3":
        stored = four_bits(codes, replace(scales, dtype="F8_E8M0"), block=MX_BLOCK)
        return weight(name, "MXFP4", stored.shape, codes, stored, scales.name)
    outer = index.get(f"{name}_scale_2")
    divides = outer is None
    if outer is None:
        outer = part(index, codes, f"{name}_global_scale")
    expect_dtype(outer, "F32")
    if any(length != 1 for length in outer.shape):
        fail(outer, say("problem.quant-one-number", shape=str(list(outer.shape))))
    stored = four_bits(codes, scales, block=NV_BLOCK)
    one = Plain(info=replace(outer, shape=(1, 1)), n_columns=1)
    stored = replace(stored, outer=whole_grid(one, stored.shape), outer_divides=divides)
    return weight(name, "NVFP4", stored.shape, codes, stored, scales.name, outer.name)


def four_bits(codes: TensorInfo, scales: TensorInfo, *, block: int) -> ScaledRows:
    """Return rows of four-bit floats, two in a byte, with one scale per block."""
    *lead, width = codes.shape
    n_columns = 8 * codes.n_bytes // max(1, codes.n_elements) * width // 4
    if n_columns % block:
        fail(codes, say("problem.quant-row-blocks", n=n_columns, block=block))
    expect_shape(scales, (*lead, n_columns // block))
    return ScaledRows(
        shape=(*lead, n_columns),
        codes=PackedRows(info=codes, bits=4, n_columns=n_columns, table=float_table("F4")),
        scale=grid_along_rows(
            Plain(info=scales, n_columns=n_columns // block),
            n_rows=lead[-1],
            n_groups=n_columns // block,
            group=block,
        ),
    )
