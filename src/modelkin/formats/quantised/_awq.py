"""AWQ: codes of four bits, eight in an integer, with one scale and zero point for each group of inputs.

They run along the output in an order of their own (GEMM), or along the input in plain order (GEMV).
``W[o, i] = (code - zero[g]) * scale[g]`` with ``g = i // group_size``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from modelkin.message import Message, say
from modelkin.tensors import TensorInfo

from ._checks import FLOATS, expect_dtype, expect_matrix, expect_shape, fail, part
from ._found import Checkpoint, Found, weight
from ._grid import Grid
from ._matrix import Matrix, PackedRows, Plain
from ._stored import Stored, Transposed

# Where in its integer the code of each of eight outputs stands.
ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)
_LAYOUTS: Final = {"": "gemm", "gemm": "gemm", "exllama": "gemm", "ipex": "gemm", "gemv": "gemv"}
_BITS: Final = 4


def problem(checkpoint: Checkpoint) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    settings = checkpoint.settings
    bits = settings.number("bits") or settings.number("w_bit")
    if bits != _BITS:
        return say("format.bits", bits=bits, known=_BITS)
    if settings.word("backend") == "llm-awq" or _layout(checkpoint) is None:
        layout = settings.word("version") or settings.word("checkpoint_format")
        return say("format.layout", layout=repr(layout or "llm-awq"), known=("'gemm'", "'gemv'"))
    return None


def find(checkpoint: Checkpoint) -> Iterator[Found]:
    """Yield all weights that are stored this way."""
    read = _by_input if _layout(checkpoint) == "gemm" else _by_output
    for name, codes in checkpoint.index.items():
        if name.endswith(".qweight"):
            yield read(checkpoint, name.removesuffix("qweight"), codes)


def _layout(checkpoint: Checkpoint) -> str | None:
    settings = checkpoint.settings
    return _LAYOUTS.get(settings.word("version") or settings.word("checkpoint_format"))


def _parts(checkpoint: Checkpoint, prefix: str, codes: TensorInfo) -> tuple[TensorInfo, TensorInfo]:
    scales, zeros = (part(checkpoint.index, codes, prefix + name) for name in ("scales", "qzeros"))
    for info in (codes, zeros):
        expect_dtype(info, "I32")
        expect_matrix(info)
    expect_dtype(scales, *FLOATS)
    expect_matrix(scales)
    return scales, zeros


def _group(checkpoint: Checkpoint, codes: TensorInfo, n_inputs: int) -> int:
    size = checkpoint.settings.number("group_size") or checkpoint.settings.number("q_group_size") or -1
    group = size if size > 0 else n_inputs
    if n_inputs % group:
        fail(codes, f"{n_inputs} inputs do not fill groups of {group}")
    return group


def _by_input(checkpoint: Checkpoint, prefix: str, codes: TensorInfo) -> Found:
    scales, zeros = _parts(checkpoint, prefix, codes)
    n_inputs, n_outputs = codes.shape[0], 8 * codes.shape[1]
    group = _group(checkpoint, codes, n_inputs)
    expect_shape(scales, (n_inputs // group, n_outputs))
    expect_shape(zeros, (n_inputs // group, codes.shape[1]))

    def grid(matrix: Matrix) -> Grid:
        return Grid(
            matrix=matrix,
            n_columns=n_outputs,
            rows_each=n_inputs,
            grid_rows_each=n_inputs // group,
            row_block=group,
            column_block=1,
        )

    stored = Stored(
        shape=(n_inputs, n_outputs),
        codes=PackedRows(info=codes, bits=_BITS, n_columns=n_outputs, order=ORDER),
        scale=grid(Plain(info=scales, n_columns=n_outputs)),
        zero=grid(PackedRows(info=zeros, bits=_BITS, n_columns=n_outputs, order=ORDER)),
    )
    shape = n_outputs, n_inputs
    return weight(
        f"{prefix}weight", "AWQ-4", shape, codes, Transposed(stored=stored), scales.name, zeros.name
    )


def _by_output(checkpoint: Checkpoint, prefix: str, codes: TensorInfo) -> Found:
    scales, zeros = _parts(checkpoint, prefix, codes)
    n_outputs, n_inputs = codes.shape[0], 8 * codes.shape[1]
    group = _group(checkpoint, codes, n_inputs)
    n_groups = n_inputs // group
    # Rows of scales and zero points are padded for the kernels that use them.
    if zeros.shape[0] != n_outputs or 8 * zeros.shape[1] < n_groups:
        fail(zeros, f"expected {n_outputs} rows of {n_groups} zero points, got {list(zeros.shape)} integers")
    if scales.shape[0] != n_outputs or scales.shape[1] < n_groups:
        fail(scales, f"expected {n_outputs} rows of {n_groups} scales, got {list(scales.shape)}")

    def grid(matrix: Matrix) -> Grid:
        return Grid(
            matrix=matrix,
            n_columns=n_groups,
            rows_each=n_outputs,
            grid_rows_each=n_outputs,
            row_block=1,
            column_block=group,
        )

    stored = Stored(
        shape=(n_outputs, n_inputs),
        codes=PackedRows(info=codes, bits=_BITS, n_columns=n_inputs),
        scale=grid(Plain(info=scales, n_columns=n_groups)),
        zero=grid(PackedRows(info=zeros, bits=_BITS, n_columns=n_groups)),
    )
    return weight(f"{prefix}weight", "AWQ-4", stored.shape, codes, stored, scales.name, zeros.name)
