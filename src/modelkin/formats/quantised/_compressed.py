"""compressed-tensors, the packed integers: ``weight_packed``, ``weight_scale``, ``weight_shape``.

Codes run along the input without gaps, 32 codes of n bits in n integers; zero points run along the output.
``W = (code - zero) * scale``, where a missing zero point is half of the codes' range.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from modelkin.message import say
from modelkin.tensors import TensorInfo

from ._matrix import Matrix, PackedDown, PackedRows, Plain, ScaleGrid, grid_along_rows
from ._scheme import (
    FLOATS,
    FoundWeight,
    SchemeInput,
    expect_dtype,
    expect_shape,
    expect_stack,
    fail,
    part,
    weight,
)
from ._stored import ScaledRows


def find(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    index = checkpoint.index
    packed = {
        name.removesuffix("_packed"): info
        for name, info in index.items()
        if name.endswith(".weight_packed") and info.dtype != "U8"
    }
    shapes = {
        name: told
        for name, info in packed.items()
        for told in checkpoint.attempt(info, partial(_shape, checkpoint, info, name))
    }
    # Among weights packed alike, one tells for all how long the rows are.
    alike = {packed[name].shape: told for name, told in shapes.items()}
    read = checkpoint.small(alike.values())
    for name, own in shapes.items():
        told = alike[packed[name].shape]
        data = np.frombuffer(read.get(told.name, b""), "<i8" if told.dtype == "I64" else "<i4")
        make = partial(_weight, checkpoint, name, packed[name], own, tuple(data.tolist()))
        yield from checkpoint.attempt(packed[name], make)


def _shape(checkpoint: SchemeInput, codes: TensorInfo, name: str) -> TensorInfo:
    found = part(checkpoint.index, codes, f"{name}_shape")
    expect_dtype(found, "I64", "I32")
    return found


def _weight(
    checkpoint: SchemeInput, name: str, codes: TensorInfo, told: TensorInfo, shape: tuple[int, ...]
) -> FoundWeight:
    index = checkpoint.index
    expect_dtype(codes, "I32")
    lead = list(expect_stack(codes)[:-1])
    if len(shape) != len(codes.shape) or list(shape[:-1]) != lead or shape[-1] <= 0:
        fail(told, say("problem.quant-says", shape=str(list(shape)), packed=str(list(codes.shape))))
    n_columns = shape[-1]
    bits = _bits(checkpoint, codes, n_columns)
    scales = part(index, codes, f"{name}_scale")
    expect_dtype(scales, *FLOATS)
    n_groups = scales.shape[-1] if scales.shape else 0
    expect_shape(scales, (*lead, n_groups))
    if not n_groups or n_columns % n_groups:
        fail(scales, say("problem.quant-row-groups", n=n_columns, m=n_groups))
    order = index.get(f"{name}_g_idx")
    if order is not None:
        expect_dtype(order, "I32")
        expect_shape(order, (n_columns,))

    def grid(matrix: Matrix) -> ScaleGrid:
        group = n_columns // n_groups
        return grid_along_rows(matrix, n_rows=lead[-1], n_groups=n_groups, group=group, column_groups=order)

    zeros = index.get(f"{name}_zero_point")
    packed_zeros = zeros is not None and zeros.dtype == "I32"
    stored = ScaledRows(
        shape=shape,
        # Both codes and packed zero points are stored with half of the range added, which cancels.
        codes=PackedRows(
            info=codes, bits=bits, n_columns=n_columns, offset=0 if packed_zeros else 1 << (bits - 1)
        ),
        scale=grid(Plain(info=scales, n_columns=n_groups)),
        zero=None if zeros is None else grid(_zeros(zeros, bits, tuple(lead), n_groups)),
    )
    uses = [info.name for info in (scales, zeros, order) if info is not None]
    return weight(name, f"INT{bits}", shape, codes, stored, told.name, *uses)


def _zeros(zeros: TensorInfo, bits: int, lead: tuple[int, ...], n_groups: int) -> Matrix:
    expect_dtype(zeros, "I32", "I8")
    if zeros.dtype == "I8":
        expect_shape(zeros, (*lead, n_groups))
        return Plain(info=zeros, n_columns=n_groups)
    if len(lead) != 1:
        fail(zeros, say("problem.quant-zero-points"))
    expect_shape(zeros, (-(-lead[0] * bits // 32), n_groups))
    return PackedDown(info=zeros, bits=bits, n_rows=lead[0])


def _bits(checkpoint: SchemeInput, codes: TensorInfo, n_columns: int) -> int:
    """Return the bits per code: the width with which the row of integers holds just enough."""
    declared = {bits for inner in checkpoint.settings.weights() if (bits := inner.number("num_bits"))}
    fitting = [bits for bits in range(1, 9) if -(-n_columns * bits // 32) == codes.shape[-1]]
    chosen = [bits for bits in fitting if bits in declared] if declared else fitting
    if len(chosen) != 1:
        n, m = codes.shape[-1], n_columns
        if not declared:
            fail(codes, say("problem.quant-bits-unclear", n=n, m=m))
        fail(codes, say("problem.quant-bits-config", n=n, m=m, bits=", ".join(map(str, sorted(declared)))))
    return chosen[0]
