"""Integers of a few bits that only a config explains: GPTQ, AWQ and MLX.

GPTQ packs codes along the input, with one scale and zero point for each group of inputs; the first version of
the format stores zero points less one. ``W[o, i] = (code[i, o] - zero[g, o]) * scale[g, o]`` where ``g`` is
``g_idx[i]``.

AWQ has codes of four bits, eight in an integer, which run along the output in an order of its own (GEMM), or
along the input in plain order (GEMV). ``W[o, i] = (code - zero[g]) * scale[g]``, ``g = i // group_size``.

MLX packs codes along the input without gaps. ``W = code * scale + bias`` for each group of a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from modelkin.message import Message, say
from modelkin.tensors import TensorInfo

from ._fp4 import MX_BLOCK, four_bits
from ._matrix import Matrix, PackedDown, PackedRows, Plain, ScaleGrid, grid_along_rows
from ._scheme import (
    FLOATS,
    FoundWeight,
    SchemeInput,
    expect_dtype,
    expect_matrix,
    expect_shape,
    expect_stack,
    fail,
    part,
    weight,
)
from ._stored import ScaledColumns, ScaledRows

_GPTQ_BITS = (2, 3, 4, 8)
_FIRST, _SECOND = ("", "gptq"), ("gptq_v2",)


def gptq_problem(checkpoint: SchemeInput) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    version = _gptq_version(checkpoint)
    if version not in (*_FIRST, *_SECOND):
        return say("format.layout", layout=repr(version), known=("'gptq'", "'gptq_v2'"))
    bits = checkpoint.settings.number("bits")
    if bits not in _GPTQ_BITS:
        return _other_bits(bits, _GPTQ_BITS)
    return None


def _other_bits(bits: float | None, known: tuple[int, ...]) -> Message:
    """Say that codes of so many bits are not read, or that the config does not say how many there are."""
    if bits is None:
        return say("format.bits-unstated", known=known)
    return say("format.bits", bits=bits, known=known)


def find_gptq(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    for name, codes in checkpoint.index.items():
        if name.endswith(".qweight"):
            make = partial(_gptq_weight, checkpoint, name.removesuffix("qweight"), codes)
            yield from checkpoint.attempt(codes, make)


def _gptq_version(checkpoint: SchemeInput) -> str:
    return checkpoint.settings.word("checkpoint_format") or checkpoint.settings.word("format")


def _gptq_weight(checkpoint: SchemeInput, prefix: str, codes: TensorInfo) -> FoundWeight:
    index, settings = checkpoint.index, checkpoint.settings
    scales, zeros = (part(index, codes, prefix + name) for name in ("scales", "qzeros"))
    order = index.get(prefix + "g_idx")
    for info in (codes, zeros):
        expect_dtype(info, "I32")
    expect_dtype(scales, *FLOATS)
    if order is not None:
        expect_dtype(order, "I32")
        expect_shape(order, (max(1, order.n_elements),))
    n_words, n_outputs = expect_matrix(codes)
    bits = _gptq_bits(checkpoint, codes, order)
    n_inputs = 32 * n_words // bits if order is None else order.shape[0]
    if -(-n_inputs * bits // 32) != n_words:
        fail(codes, say("problem.quant-words", n=n_words, m=n_inputs, bits=bits))
    n_groups = expect_matrix(scales)[0]
    expect_shape(scales, (n_groups, n_outputs))
    expect_shape(zeros, (n_groups, -(-n_outputs * bits // 32)))
    group = _gptq_group(checkpoint, scales, n_inputs, n_groups)
    in_order = settings.values.get("desc_act") is not True
    first_version = _gptq_version(checkpoint) in _FIRST

    def grid(matrix: Plain | PackedRows) -> ScaleGrid:
        return ScaleGrid(
            matrix=matrix,
            n_columns=n_outputs,
            rows_each=n_inputs,
            grid_rows_each=n_groups,
            row_block=group,
            column_block=1,
            row_groups=order,
            in_order=in_order,
        )

    stored = ScaledRows(
        shape=(n_inputs, n_outputs),
        codes=PackedDown(info=codes, bits=bits, n_rows=n_inputs),
        scale=grid(Plain(info=scales, n_columns=n_outputs)),
        zero=grid(PackedRows(info=zeros, bits=bits, n_columns=n_outputs, add=int(first_version))),
    )
    uses = [scales.name, zeros.name, *([order.name] if order is not None else [])]
    shape = n_outputs, n_inputs
    return weight(f"{prefix}weight", f"GPTQ-{bits}", shape, codes, ScaledColumns(stored=stored), *uses)


def _gptq_bits(checkpoint: SchemeInput, codes: TensorInfo, order: TensorInfo | None) -> int:
    """Return the bits per code, which differ between modules only where the config says so."""
    declared = checkpoint.settings.number("bits") or 0
    if order is None or not checkpoint.settings.table("dynamic"):
        return declared
    bits = 32 * codes.shape[0] // order.shape[0]
    if bits not in _GPTQ_BITS:
        fail(codes, say("problem.quant-bits", known=", ".join(map(str, _GPTQ_BITS)), got=bits))
    return bits


def _gptq_group(checkpoint: SchemeInput, scales: TensorInfo, n_inputs: int, n_groups: int) -> int:
    """Return how many inputs share a scale."""
    declared = checkpoint.settings.number("group_size")
    size = n_inputs if declared is None or declared <= 0 else declared
    if -(-n_inputs // size) == n_groups:
        return size
    if checkpoint.settings.table("dynamic") and n_inputs % n_groups == 0:
        return n_inputs // n_groups
    return fail(
        scales, say("problem.quant-groups", n=n_inputs, size=size, wanted=-(-n_inputs // size), got=n_groups)
    )


# Where in its integer the code of each of eight outputs stands.
AWQ_ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)
_AWQ_LAYOUTS: Final = {"": "gemm", "gemm": "gemm", "exllama": "gemm", "ipex": "gemm", "gemv": "gemv"}
_AWQ_BITS: Final = 4


def awq_problem(checkpoint: SchemeInput) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    settings = checkpoint.settings
    bits = settings.number("bits") or settings.number("w_bit")
    if bits != _AWQ_BITS:
        return _other_bits(bits, (_AWQ_BITS,))
    if settings.word("backend") == "llm-awq" or _awq_layout(checkpoint) is None:
        layout = settings.word("version") or settings.word("checkpoint_format")
        return say("format.layout", layout=repr(layout or "llm-awq"), known=("'gemm'", "'gemv'"))
    return None


def find_awq(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    read = _awq_by_input if _awq_layout(checkpoint) == "gemm" else _awq_by_output
    for name, codes in checkpoint.index.items():
        if name.endswith(".qweight"):
            make = partial(read, checkpoint, name.removesuffix("qweight"), codes)
            yield from checkpoint.attempt(codes, make)


def _awq_layout(checkpoint: SchemeInput) -> str | None:
    settings = checkpoint.settings
    return _AWQ_LAYOUTS.get(settings.word("version") or settings.word("checkpoint_format"))


def _awq_parts(checkpoint: SchemeInput, prefix: str, codes: TensorInfo) -> tuple[TensorInfo, TensorInfo]:
    scales, zeros = (part(checkpoint.index, codes, prefix + name) for name in ("scales", "qzeros"))
    for info in (codes, zeros):
        expect_dtype(info, "I32")
        expect_matrix(info)
    expect_dtype(scales, *FLOATS)
    expect_matrix(scales)
    return scales, zeros


def _awq_group(checkpoint: SchemeInput, codes: TensorInfo, n_inputs: int) -> int:
    size = checkpoint.settings.number("group_size") or checkpoint.settings.number("q_group_size") or -1
    group = size if size > 0 else n_inputs
    if n_inputs % group:
        fail(codes, say("problem.quant-fill", n=n_inputs, group=group))
    return group


def _awq_by_input(checkpoint: SchemeInput, prefix: str, codes: TensorInfo) -> FoundWeight:
    scales, zeros = _awq_parts(checkpoint, prefix, codes)
    n_inputs, n_outputs = codes.shape[0], 8 * codes.shape[1]
    group = _awq_group(checkpoint, codes, n_inputs)
    expect_shape(scales, (n_inputs // group, n_outputs))
    expect_shape(zeros, (n_inputs // group, codes.shape[1]))

    def grid(matrix: Matrix) -> ScaleGrid:
        return ScaleGrid(
            matrix=matrix,
            n_columns=n_outputs,
            rows_each=n_inputs,
            grid_rows_each=n_inputs // group,
            row_block=group,
            column_block=1,
        )

    stored = ScaledRows(
        shape=(n_inputs, n_outputs),
        codes=PackedRows(info=codes, bits=_AWQ_BITS, n_columns=n_outputs, order=AWQ_ORDER),
        scale=grid(Plain(info=scales, n_columns=n_outputs)),
        zero=grid(PackedRows(info=zeros, bits=_AWQ_BITS, n_columns=n_outputs, order=AWQ_ORDER)),
    )
    shape = n_outputs, n_inputs
    return weight(
        f"{prefix}weight", "AWQ-4", shape, codes, ScaledColumns(stored=stored), scales.name, zeros.name
    )


def _awq_by_output(checkpoint: SchemeInput, prefix: str, codes: TensorInfo) -> FoundWeight:
    scales, zeros = _awq_parts(checkpoint, prefix, codes)
    n_outputs, n_inputs = codes.shape[0], 8 * codes.shape[1]
    group = _awq_group(checkpoint, codes, n_inputs)
    n_groups = n_inputs // group
    # Rows of scales and zero points are padded for the kernels that use them.
    if zeros.shape[0] != n_outputs or 8 * zeros.shape[1] < n_groups:
        fail(zeros, say("problem.quant-zero-rows", n=n_outputs, m=n_groups, got=str(list(zeros.shape))))
    if scales.shape[0] != n_outputs or scales.shape[1] < n_groups:
        fail(scales, say("problem.quant-scale-rows", n=n_outputs, m=n_groups, got=str(list(scales.shape))))

    def grid(matrix: Matrix) -> ScaleGrid:
        return grid_along_rows(matrix, n_rows=n_outputs, n_groups=n_groups, group=group)

    stored = ScaledRows(
        shape=(n_outputs, n_inputs),
        codes=PackedRows(info=codes, bits=_AWQ_BITS, n_columns=n_inputs),
        scale=grid(Plain(info=scales, n_columns=n_groups)),
        zero=grid(PackedRows(info=zeros, bits=_AWQ_BITS, n_columns=n_groups)),
    )
    return weight(f"{prefix}weight", "AWQ-4", stored.shape, codes, stored, scales.name, zeros.name)


_MLX_BITS = (2, 3, 4, 5, 6, 8)


def mlx_problem(checkpoint: SchemeInput) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    mode = checkpoint.settings.word("mode") or "affine"
    if mode in ("affine", "mxfp4"):
        return None
    return say("format.mode", mode=repr(mode), known=("'affine'", "'mxfp4'"))


def find_mlx(checkpoint: SchemeInput) -> Iterator[FoundWeight]:
    """Yield all weights that are stored this way."""
    for name, info in checkpoint.index.items():
        if name.endswith(".weight") and info.dtype == "U32":
            make = partial(_mlx_weight, checkpoint, name.removesuffix("weight"), info)
            yield from checkpoint.attempt(info, make)


def _mlx_weight(checkpoint: SchemeInput, prefix: str, codes: TensorInfo) -> FoundWeight:
    settings = checkpoint.settings.of(prefix.removesuffix("."))
    scales = part(checkpoint.index, codes, f"{prefix}scales")
    *lead, n_words = expect_stack(codes)
    expect_dtype(codes, "U32")
    if scales.dtype == "U8" and settings.word("mode") == "mxfp4":
        stored = four_bits(codes, replace(scales, dtype="F8_E8M0"), block=MX_BLOCK)
        return weight(codes.name, "MXFP4", stored.shape, codes, stored, scales.name)
    biases = part(checkpoint.index, codes, f"{prefix}biases")
    bits, group = settings.number("bits"), settings.number("group_size")
    if bits not in _MLX_BITS or group is None or group <= 0:
        fail(
            codes,
            say("problem.quant-config", bits=bits, group=group, known=", ".join(map(str, _MLX_BITS))),
        )
    n_columns, rest = divmod(32 * n_words, bits)
    if rest or n_columns % group:
        fail(codes, say("problem.quant-word-groups", n=n_words, group=group, bits=bits))
    for info in (scales, biases):
        expect_dtype(info, *FLOATS)
        expect_shape(info, (*lead, n_columns // group))

    def grid(info: TensorInfo) -> ScaleGrid:
        matrix = Plain(info=info, n_columns=n_columns // group)
        return grid_along_rows(matrix, n_rows=lead[-1], n_groups=n_columns // group, group=group)

    stored = ScaledRows(
        shape=(*lead, n_columns),
        codes=PackedRows(info=codes, bits=bits, n_columns=n_columns),
        scale=grid(scales),
        bias=grid(biases),
    )
    return weight(codes.name, f"MLX-{bits}", stored.shape, codes, stored, scales.name, biases.name)
