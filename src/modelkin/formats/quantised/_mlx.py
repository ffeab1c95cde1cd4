"""MLX: codes packed along the input without gaps; ``W = code * scale + bias`` for each group of a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from modelkin.message import Message, say
from modelkin.tensors import TensorInfo

from ._checks import FLOATS, expect_dtype, expect_shape, expect_stack, fail, part
from ._found import Checkpoint, Found, weight
from ._fp4 import MX_BLOCK, four_bits
from ._grid import Grid
from ._matrix import PackedRows, Plain
from ._stored import Stored

BITS = (2, 3, 4, 5, 6, 8)


def problem(checkpoint: Checkpoint) -> Message | None:
    """Say why a checkpoint of this scheme cannot be decoded, or None."""
    mode = checkpoint.settings.word("mode") or "affine"
    if mode in ("affine", "mxfp4"):
        return None
    return say("format.mode", mode=repr(mode), known=("'affine'", "'mxfp4'"))


def find(checkpoint: Checkpoint) -> Iterator[Found]:
    """Yield all weights that are stored this way."""
    for name, info in checkpoint.index.items():
        if name.endswith(".weight") and info.dtype == "U32":
            yield _weight(checkpoint, name.removesuffix("weight"), info)


def _weight(checkpoint: Checkpoint, prefix: str, codes: TensorInfo) -> Found:
    settings = checkpoint.settings.of(prefix.removesuffix("."))
    scales = part(checkpoint.index, codes, f"{prefix}scales")
    *lead, n_words = expect_stack(codes)
    expect_dtype(codes, "U32")
    if scales.dtype == "U8" and settings.word("mode") == "mxfp4":
        stored = four_bits(codes, replace(scales, dtype="F8_E8M0"), block=MX_BLOCK)
        return weight(codes.name, "MXFP4", stored.shape, codes, stored, scales.name)
    biases = part(checkpoint.index, codes, f"{prefix}biases")
    bits, group = settings.number("bits"), settings.number("group_size")
    if bits not in BITS or group is None or group <= 0:
        fail(
            codes, f"the config says {bits} bits in groups of {group}; known are {', '.join(map(str, BITS))}"
        )
    n_columns, rest = divmod(32 * n_words, bits)
    if rest or n_columns % group:
        fail(codes, f"{n_words} integers do not hold groups of {group} codes of {bits} bits")
    for info in (scales, biases):
        expect_dtype(info, *FLOATS)
        expect_shape(info, (*lead, n_columns // group))

    def grid(info: TensorInfo) -> Grid:
        return Grid(
            matrix=Plain(info=info, n_columns=n_columns // group),
            n_columns=n_columns // group,
            rows_each=lead[-1],
            grid_rows_each=lead[-1],
            row_block=1,
            column_block=group,
        )

    stored = Stored(
        shape=(*lead, n_columns),
        codes=PackedRows(info=codes, bits=bits, n_columns=n_columns),
        scale=grid(scales),
        bias=grid(biases),
    )
    return weight(codes.name, f"MLX-{bits}", stored.shape, codes, stored, scales.name, biases.name)
