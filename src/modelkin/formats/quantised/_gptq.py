"""GPTQ: codes packed along the input, with one scale and zero point for each group of inputs.

``W[o, i] = (code[i, o] - zero[g, o]) * scale[g, o]`` with ``g = g_idx[i]``. The first version of the format
stores zero points less one.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.message import Message, say
from modelkin.tensors import TensorInfo

from ._checks import FLOATS, expect_dtype, expect_matrix, expect_shape, fail, part
from ._found import Checkpoint, Found, weight
from ._grid import Grid
from ._matrix import PackedDown, PackedRows, Plain
from ._stored import Stored, Transposed

BITS = (2, 3, 4, 8)
_FIRST, _SECOND = ("", "gptq"), ("gptq_v2",)


def problem(checkpoint: Checkpoint) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    version = _version(checkpoint)
    if version not in (*_FIRST, *_SECOND):
        return say("format.layout", layout=repr(version), known=("'gptq'", "'gptq_v2'"))
    bits = checkpoint.settings.number("bits")
    if bits not in BITS:
        return say("format.bits", bits=bits, known=BITS)
    return None


def find(checkpoint: Checkpoint) -> Iterator[Found]:
    """Yield all weights that are stored this way."""
    for name, codes in checkpoint.index.items():
        if name.endswith(".qweight"):
            yield _weight(checkpoint, name.removesuffix("qweight"), codes)


def _version(checkpoint: Checkpoint) -> str:
    return checkpoint.settings.word("checkpoint_format") or checkpoint.settings.word("format")


def _weight(checkpoint: Checkpoint, prefix: str, codes: TensorInfo) -> Found:
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
    bits = _bits(checkpoint, codes, order)
    n_inputs = 32 * n_words // bits if order is None else order.shape[0]
    if -(-n_inputs * bits // 32) != n_words:
        fail(codes, f"{n_words} integers do not hold {n_inputs} codes of {bits} bits")
    n_groups = expect_matrix(scales)[0]
    expect_shape(scales, (n_groups, n_outputs))
    expect_shape(zeros, (n_groups, -(-n_outputs * bits // 32)))
    group = _group(checkpoint, scales, n_inputs, n_groups)
    in_order = settings.values.get("desc_act") is not True

    def grid(matrix: Plain | PackedRows) -> Grid:
        return Grid(
            matrix=matrix,
            n_columns=n_outputs,
            rows_each=n_inputs,
            grid_rows_each=n_groups,
            row_block=group,
            column_block=1,
            row_groups=order,
            in_order=in_order,
        )

    stored = Stored(
        shape=(n_inputs, n_outputs),
        codes=PackedDown(info=codes, bits=bits, n_rows=n_inputs),
        scale=grid(Plain(info=scales, n_columns=n_outputs)),
        zero=grid(
            PackedRows(info=zeros, bits=bits, n_columns=n_outputs, add=int(_version(checkpoint) in _FIRST))
        ),
    )
    uses = [scales.name, zeros.name, *([order.name] if order is not None else [])]
    shape = n_outputs, n_inputs
    return weight(f"{prefix}weight", f"GPTQ-{bits}", shape, codes, Transposed(stored=stored), *uses)


def _bits(checkpoint: Checkpoint, codes: TensorInfo, order: TensorInfo | None) -> int:
    """Return the bits of a code, which differ between modules only where the config says so."""
    declared = checkpoint.settings.number("bits") or 0
    if order is None or not checkpoint.settings.table("dynamic"):
        return declared
    bits = 32 * codes.shape[0] // order.shape[0]
    if bits not in BITS:
        fail(codes, f"expected codes of {', '.join(map(str, BITS))} bits, got {bits}")
    return bits


def _group(checkpoint: Checkpoint, scales: TensorInfo, n_inputs: int, n_groups: int) -> int:
    """Return how many inputs share a scale."""
    declared = checkpoint.settings.number("group_size")
    size = n_inputs if declared is None or declared <= 0 else declared
    if -(-n_inputs // size) == n_groups:
        return size
    if checkpoint.settings.table("dynamic") and n_inputs % n_groups == 0:
        return n_inputs // n_groups
    return fail(
        scales, f"{n_inputs} inputs in groups of {size} need {-(-n_inputs // size)} scales, got {n_groups}"
    )
