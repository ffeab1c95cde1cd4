"""Tables of text: in columns if they fit, else one block of lines per row."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from ._text import shortened, wrapped
from .marks import TableMark
from .pen import Pen

_SIZE = 8.0
"""Of letters, in points: that of labels of axes."""
_GAP = 3
"""Letters between columns."""
LINE = 0.24
"""Inches of a line."""


def table_lines(mark: TableMark, pen: Pen) -> int:
    """Count the lines that a table needs."""
    if _fits(mark, pen):
        return len(mark.rows) + 1
    return len(_stacked(mark, pen))


def draw_table(axes: Axes, mark: TableMark, pen: Pen) -> None:
    """Write a table, its columns as wide as their words."""
    axes.set_axis_off()
    axes.set_xlim(0, _room(pen))
    axes.set_ylim(table_lines(mark, pen) - 0.4, -0.6)
    if _fits(mark, pen):
        _draw_columns(axes, mark, pen)
        return
    for j, (text, bold) in enumerate(_stacked(mark, pen)):
        weight = "bold" if bold else "normal"
        axes.text(0 if bold else 2, j, text, va="center", fontsize=_SIZE, fontweight=weight)
        if bold and j:
            axes.plot([0, _room(pen)], [j - 0.5] * 2, color=pen.theme.grid, linewidth=0.8)


def _room(pen: Pen) -> int:
    # Letters differ in width: space is counted in wide ones.
    return pen.letters_across(pen.panel_width - 0.2, _SIZE * 1.12)


def _cells(mark: TableMark, pen: Pen) -> list[tuple[str, ...]]:
    return [tuple(pen.text(cell.replace("\n", " ")) for cell in row) for row in (mark.columns, *mark.rows)]


def _widths(mark: TableMark, pen: Pen) -> list[int]:
    cells = _cells(mark, pen)
    return [max(4, *(len(row[i]) for row in cells)) for i in range(len(mark.columns))]


def _fits(mark: TableMark, pen: Pen) -> bool:
    """Whether columns fit, with the longest ones possibly cut a little."""
    widths = [min(width, 40) for width in _widths(mark, pen)]
    # A tenth too much is cut from the longest columns and loses some letters only.
    return sum(widths) + _GAP * (len(widths) - 1) <= _room(pen) * 1.1


def _stacked(mark: TableMark, pen: Pen) -> list[tuple[str, bool]]:
    """Write each row as its name and, below, what the other columns say; with whether it is a name."""
    lines: list[tuple[str, bool]] = []
    (_, *names), *rows = _cells(mark, pen)
    for first, *rest in rows:
        lines.append((shortened(first, _room(pen) - 2), True))
        told = "; ".join(f"{name}: {cell}" for name, cell in zip(names, rest, strict=True))
        lines += [(line, False) for line in wrapped(told, _room(pen) - 4)]
    return lines


def _draw_columns(axes: Axes, mark: TableMark, pen: Pen) -> None:
    align = mark.align or ("left",) * len(mark.columns)
    rows, widths = _cells(mark, pen), _widths(mark, pen)
    while sum(widths) + _GAP * (len(widths) - 1) > _room(pen) and max(widths) > 5:
        widths[int(np.argmax(widths))] -= 1
    total = sum(widths) + _GAP * (len(widths) - 1)
    left = 0
    for i, width in enumerate(widths):
        at = left if align[i] == "left" else left + width
        for j, row in enumerate(rows):
            weight = "bold" if j == 0 else "normal"
            text = shortened(row[i], width)
            axes.text(at, j, text, ha=align[i], va="center", fontsize=_SIZE, fontweight=weight)
        left += width + _GAP
    for j in range(len(rows)):
        colour = pen.theme.tones["muted"] if j == 0 else pen.theme.grid
        axes.plot([0, total], [j + 0.5] * 2, color=colour, linewidth=0.8, clip_on=False)
