"""The legend of a figure: every series once, with its colour, marker and dash; chance always among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from modelkin.message import phrase

from . import marks
from ._figure import Figure
from ._style import Style
from .pen import DASHES, Pen

LEGEND_LINE = 8.5 * 1.5 / 72
"""Inches of a line."""
_HANDLE = 0.28
"""Inches of the handle before a name."""


def legend_entries(figure: Figure, pen: Pen, width: float) -> list[tuple[Any, str]]:
    """List handles and names; entries that would look the same appear once."""
    found: dict[tuple[str, str], Any] = {}
    for panel in figure.panels:
        for mark in panel.marks:
            for name, kind, handle in _entries(mark, pen):
                if name:
                    found.setdefault((name, kind), handle)
    room = max(24, pen.letters_across(width - 0.7))
    return [(handle, pen.text(name, room)) for (name, _), handle in found.items()]


def legend_lines(entries: Sequence[tuple[Any, str]], pen: Pen, width: float) -> int:
    """Count the lines that entries need if each column has room for the longest name."""
    per_line = max(1, int((width - 0.24) / max((_breadth(name, pen) for _, name in entries), default=1.0)))
    return -(-len(entries) // per_line)


def draw_legend(
    canvas: Canvas, entries: Sequence[tuple[Any, str]], pen: Pen, lines: int, *, top: float
) -> None:
    """Draw entries column by column, in inches. Legends of matplotlib are measured again in every drawing."""
    left = 0.12
    for start in range(0, len(entries), max(1, lines)):
        column = entries[start : start + lines]
        for i, (handle, name) in enumerate(column):
            y = top - (i + 0.5) * LEGEND_LINE
            for part in handle if isinstance(handle, tuple) else (handle,):
                canvas.add_artist(_placed(part, canvas, left, y))
            canvas.text(
                left + _HANDLE + 0.1, y, name, fontsize=pen.letters, va="center_baseline",
                transform=canvas.dpi_scale_trans,
            )  # fmt: skip
        left += max(_breadth(name, pen) for _, name in column)


def _breadth(name: str, pen: Pen) -> float:
    """Inches of an entry, with the gap to the next one."""
    letters = sum(1.8 if letter > "\u1100" else 1.0 for letter in name)  # Hangul is nearly twice as wide
    return (letters * 0.56 * pen.letters + 40) / 72


def _placed(handle: Any, canvas: Canvas, x: float, y: float) -> Any:  # noqa: ANN401  a line or a patch
    if isinstance(handle, Line2D):
        handle.set_data([x, x + _HANDLE / 2, x + _HANDLE], [y, y, y])
        handle.set_markevery([1])
        placed: Any = handle
    else:
        placed = Rectangle((x, y - 0.04), _HANDLE, 0.08)
        placed.update_from(handle)
    placed.set_transform(canvas.dpi_scale_trans)
    return placed


def _entries(mark: marks.Mark, pen: Pen) -> Iterator[tuple[str, str, Any]]:  # noqa: C901  one case for each mark
    match mark:
        case marks.Lines() if not mark.thin:
            yield mark.name, mark.style.tone, _line(mark.style, pen, band=bool(mark.low))
        case marks.ReferenceLine():
            yield mark.label, mark.style.tone, _line(mark.style, pen, band=mark.low is not None)
        case marks.Scatter():
            handle = Line2D(
                [], [], color=pen.colour(mark.style), marker=mark.style.marker or "o", linestyle=""
            )
            yield mark.name, mark.style.tone, handle
        case marks.Bars():
            for bars in mark.series:
                yield bars.name, bars.style.tone, _patch(bars.style, pen, chance=bars.role != "data")
        case marks.Histogram():
            yield mark.name, mark.style.tone, _patch(mark.style, pen, chance=mark.role != "data")
        case marks.Ridges():
            yield mark.name, mark.style.tone, _patch(mark.style, pen, chance=False)
        case marks.Trajectory3D():
            yield mark.name, mark.style.tone, _line(mark.style, pen, band=False)
        case marks.Arrow3D():
            yield mark.name, mark.style.tone, _line(mark.style, pen, band=False)
        case marks.Plane3D():
            yield mark.name, mark.style.tone, Patch(facecolor=pen.colour(mark.style), alpha=0.3)
        case marks.Intervals():
            yield from _forest(mark, pen)
        case marks.HeatMap() if mark.path and mark.path_name:
            handle = Line2D(
                [], [], color=pen.theme.ink, marker=_path_marker(mark), fillstyle="none", linestyle=""
            )
            yield mark.path_name, "path", handle


def _path_marker(mark: marks.HeatMap) -> str:
    return "s" if max(len(mark.rows), len(mark.columns)) <= 12 else "."


def _forest(mark: marks.Intervals, pen: Pen) -> Iterator[tuple[str, str, Any]]:
    colour = pen.colour(mark.style)
    if any(mark.strong) or not mark.strong:
        yield (
            phrase("figure.meets" if mark.strong else "figure.effect"),
            "strong",
            Line2D([], [], color=colour, marker="o"),
        )
    if mark.strong and not all(mark.strong):
        hollow = Line2D([], [], color=colour, marker="o", markerfacecolor=pen.theme.background)
        yield phrase("figure.misses"), "weak", hollow
    if any(limit is not None for limit in mark.limits):
        grey = pen.theme.tones["muted"]
        handle = Line2D([], [], color=grey, marker="|", markersize=10, markeredgewidth=1.6, linestyle="")
        yield phrase("figure.limit"), "limit", handle


def _line(style: Style, pen: Pen, *, band: bool) -> Any:  # noqa: ANN401  handles of matplotlib have no common type
    colour = pen.colour(style)
    line = Line2D(
        [],
        [],
        color=colour,
        linestyle=DASHES[style.dash],
        marker=style.marker or None,
        markersize=4,
        linewidth=1.5,
    )
    return (Patch(facecolor=colour, alpha=0.18), line) if band else line


def _patch(style: Style, pen: Pen, *, chance: bool) -> Patch:
    colour = pen.colour(style)
    if chance:
        return Patch(facecolor="none", edgecolor=colour, linestyle="--", hatch="////")
    return Patch(facecolor=colour, edgecolor=colour, alpha=0.8)
