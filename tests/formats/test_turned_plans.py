"""Lines that run across the rows of a file are planned alike in every format."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelkin.formats.gguf.storage import BlockRows, Turned
from modelkin.formats.gguf.types import TYPES
from modelkin.formats.onnx.storage import StoredLines, arranged
from modelkin.formats.onnx.stored import OnnxTensor
from modelkin.formats.quantised._matrix import Plain, ScaleGrid
from modelkin.formats.quantised._stored import ScaledColumns, ScaledRows
from modelkin.formats.torch.layout import strided
from modelkin.source import merged
from modelkin.tensors import Storage, TensorInfo

F16 = next(kind for kind in TYPES.values() if kind.name == "F16")


def gguf(lines: int, width: int) -> Storage:
    return Turned(stored=BlockRows(file="f", start=0, type=F16, n_rows=width, width=lines))


def torch(lines: int, width: int) -> Storage:
    return strided(file="f", start=0, dtype="F16", shape=(lines, width), strides=(1, lines))


def onnx(lines: int, width: int) -> Storage:
    shape = (width, lines)
    stored = OnnxTensor(name="w", dtype="F16", shape=shape, file="f", start=0, stop=2 * lines * width)
    return arranged(StoredLines(stored=stored, turned=True))


def quantised(lines: int, width: int) -> Storage:
    """Codes of two bytes, with a scale for all."""

    def matrix(name: str, shape: tuple[int, int]) -> Plain:
        stop = 2 * shape[0] * shape[1]
        info = TensorInfo(name=name, dtype="I16", shape=shape, file=name, start=0, stop=stop)
        return Plain(info=info, n_columns=shape[1])

    scale = ScaleGrid(
        matrix=matrix("scales", (1, 1)),
        n_columns=1,
        rows_each=width,
        grid_rows_each=1,
        row_block=width,
        column_block=lines,
    )
    stored = ScaledRows(shape=(width, lines), codes=matrix("f", (width, lines)), scale=scale)
    return ScaledColumns(stored=stored)


FORMATS = [gguf, torch, onnx, quantised]


def planned(storage: Storage, runs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return bytes and ranges of the matrix."""
    ranges = merged(storage.plan(runs).ranges["f"])
    return sum(item.length for item in ranges), len(ranges)


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize(("lines", "width"), [(4_096, 14_336), (14_336, 4_096), (4_096, 1_024)])
def test_lines_across_short_rows_are_read_as_one(make, lines, width):
    n_bytes, n_ranges = planned(make(lines, width), [(100, 116)])
    row = 2 * lines
    assert n_ranges == 1
    assert row * (width - 1) < n_bytes <= row * width


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("width", [1_024, 4_096, 14_336])
def test_lines_across_long_rows_cost_a_piece_of_each(make, width):
    assert planned(make(128_256, width), [(100, 116)]) == (2 * 16 * width, width)


@pytest.mark.parametrize("make", FORMATS)
def test_lines_spread_over_a_row_cost_the_row(make):
    runs = [(start, start + 1) for start in range(0, 128_256, 8_016)]
    n_bytes, n_ranges = planned(make(128_256, 64), runs)
    assert n_ranges == 1
    assert n_bytes > 2 * 128_256 * 63
