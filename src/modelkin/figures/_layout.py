"""From a description to a drawing: title and legend above, panels in rows, notes below. Nothing overlaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ._draw_heat import draw_heat_map
from ._draw_marks import (
    draw_bars,
    draw_histogram,
    draw_intervals,
    draw_lines,
    draw_reference,
    draw_ridges,
    draw_scatter,
    draw_solid,
    draw_text,
)
from ._draw_table import LINE, draw_table, table_lines
from ._figure import Axis, Figure, Panel
from ._settle import Room, settle
from ._text import wrapped
from ._ticks import name_ticks
from .clipping import remarks
from .legend import LEGEND_LINE, draw_legend, legend_entries, legend_lines
from .marks import (
    Bars,
    HeatMap,
    Histogram,
    Intervals,
    Lines,
    ReferenceLine,
    Ridges,
    Scatter,
    TableMark,
    TextMark,
)
from .pen import Pen
from .theme import Theme

if TYPE_CHECKING:
    from modelkin.document import Language

NARROW = 4.4
"""Inches of a drawing for a phone: at 360 pixels its letters are still 9 pixels high."""
DPI = 150
"""Dots per inch of a drawing unless told otherwise; letters are measured with them."""
_TITLE, _NOTE, _LINE = 11.5, 7.5, 1.4
"""Sizes of letters in points, and the height of a line in letters."""
_FEW_DECADES, _NARROW = 100.0, 5.0
"""Range of a log axis, largest over smallest: below the first, powers of ten give too few ticks, or none;
below the second, so do twice and five times these."""
_DRAWN: dict[type, Callable[[Axes, Any, Pen], None]] = {
    Lines: draw_lines,
    Bars: draw_bars,
    Histogram: draw_histogram,
    Scatter: draw_scatter,
    Intervals: draw_intervals,
    ReferenceLine: draw_reference,
    TableMark: draw_table,
}


def lay_out(figure: Figure, theme: Theme, *, language: Language, narrow: bool = False) -> Canvas:
    """Draw a description onto a new canvas, in a language that the fonts can write."""
    width = NARROW if narrow else figure.width
    columns = 1 if narrow else min(figure.columns, len(figure.panels))
    pen = Pen(theme=theme, panel_width=width / columns, language=language)
    title = wrapped(pen.text(figure.title), pen.letters_across(width - 0.3, _TITLE * 1.08))
    notes = [
        line
        for note in _notes(figure, language)
        for line in wrapped(pen.text(note), pen.letters_across(width - 0.3, _NOTE))
    ]
    entries = legend_entries(figure, pen, width)
    lines = legend_lines(entries, pen, width)
    head = 0.14 + len(title) * _TITLE * _LINE / 72
    legend = lines * LEGEND_LINE + 0.12 if entries else 0.06
    foot = len(notes) * _NOTE * _LINE / 72 + 0.14
    heights = _row_heights(figure.panels, columns, pen)
    height = head + legend + sum(heights) + foot

    canvas = Canvas(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(canvas)
    canvas.text(
        0.12 / width, 1 - 0.1 / height, "\n".join(title), va="top", fontsize=_TITLE, fontweight="bold",
        linespacing=1.25,
    )  # fmt: skip
    draw_legend(canvas, entries, pen, lines, top=height - head - 0.06)
    canvas.text(
        0.12 / width, 0.07 / height, "\n".join(notes), va="bottom", fontsize=_NOTE, linespacing=1.3,
        color=theme.tones["muted"],
    )  # fmt: skip
    panels: list[Any] = []
    for panel in figure.panels:
        panels.append(canvas.add_axes((0.1, 0.1, 0.8, 0.8), projection="3d" if panel.solid else None))
        _draw_panel(canvas, panels[-1], panel, pen)
    settle(canvas, panels, heights, columns, Room(0.005 * width, foot, 0.99 * width, sum(heights)))
    return canvas


def _notes(figure: Figure, language: Language) -> list[str]:
    """Collect what is written below: each remark once, with the panels it is about."""
    about: dict[str, list[str]] = {}
    for panel in figure.panels:
        why = language.wording(panel.without_null)
        without = (language.say("figure.no_null", why=why),) if why else ()
        notes = filter(None, [language.wording(panel.note)])
        for remark in (*notes, *without, *remarks(panel, language)):
            about.setdefault(remark, []).append(language.wording(panel.title))
    told = [
        remark if len(figure.panels) in (1, len(titles)) else f"{'; '.join(filter(None, titles))}: {remark}"
        for remark, titles in about.items()
    ]
    return [*filter(None, [language.wording(figure.note)]), *told]


def _row_heights(panels: Sequence[Panel], columns: int, pen: Pen) -> list[float]:
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    return [max(_height(panel, pen) for panel in row) for row in rows]


def _height(panel: Panel, pen: Pen) -> float:
    for mark in panel.marks:
        # As in `draw_heat_map`: cells are square if the map is nearly so.
        if isinstance(mark, HeatMap) and 0.6 < len(mark.rows) / max(1, len(mark.columns)) < 1.7:
            return min(max(panel.height, 0.82 * pen.panel_width * len(mark.rows) / len(mark.columns)), 6.0)
        if isinstance(mark, TableMark):
            return LINE * table_lines(mark, pen) + (0.4 if panel.title else 0.15)
        if isinstance(mark, Intervals):
            return max(1.6, 0.26 * len(mark.labels) + 0.85)
        if isinstance(mark, Bars) and mark.horizontal:
            return max(panel.height, 0.3 * len(mark.labels) * max(1, len(mark.series) * 0.6) + 0.8)
        if isinstance(mark, TextMark) and panel.only_words:
            lines = wrapped(pen.text(mark.text), pen.letters_across(pen.panel_width * 0.94, pen.words))
            return max(1.0, len(lines) * pen.words * 1.5 / 72 + 0.55)
    return max(panel.height, min(pen.panel_width * 0.8, 3.8)) if panel.solid else panel.height


def _draw_panel(canvas: Canvas, axes: Any, panel: Panel, pen: Pen) -> None:  # noqa: ANN401  plane or space
    beside = any(isinstance(mark, HeatMap) for mark in panel.marks)
    room = pen.panel_width * 0.7 if beside else pen.panel_width - 0.6
    title = wrapped(pen.text(panel.title), pen.letters_across(room, 10.5))
    if panel.title:
        axes.set_title("\n".join(title), y=1.0, linespacing=1.2)
    if panel.solid:
        draw_solid(axes, panel, pen)
        for mark in panel.marks:
            if isinstance(mark, TextMark):
                axes.text2D(0.02, 0.98, pen.text(mark.text), transform=axes.transAxes, va="top", fontsize=9)
        return
    if panel.only_words:
        axes.set_axis_off()
    _set_axis(axes, "x", panel.x, pen, room=pen.panel_width - 0.6)
    _set_axis(axes, "y", panel.y, pen, room=_height(panel, pen) - 0.7)
    _draw_plane(canvas, axes, panel, pen)
    for name in ("x", "y"):
        _set_limits(axes, name, getattr(panel, name), pen)


def _draw_plane(canvas: Canvas, axes: Axes, panel: Panel, pen: Pen) -> None:
    ridges = [mark for mark in panel.marks if isinstance(mark, Ridges)]
    if ridges:
        draw_ridges(axes, ridges, pen)
    for mark in panel.marks:
        match mark:
            case HeatMap():
                draw_heat_map(canvas, axes, mark, pen)
            case TextMark():
                draw_text(axes, mark, pen, alone=panel.only_words)
            case _ if type(mark) in _DRAWN:
                _DRAWN[type(mark)](axes, mark, pen)


def _set_axis(axes: Axes, name: str, spec: Axis, pen: Pen, *, room: float) -> None:
    words = "\n".join(wrapped(pen.text(spec.label), pen.letters_across(room, 8)))
    getattr(axes, f"set_{name}label")(words, fontsize=8)
    side = getattr(axes, f"{name}axis")
    if spec.kind == "log":
        getattr(axes, f"set_{name}scale")("log")
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter(NullFormatter())
    elif name == "x":
        side.set_major_locator(MaxNLocator(nbins=max(3, int(pen.panel_width * 1.6)), steps=[1, 2, 5, 10]))


def _set_limits(axes: Axes, name: str, spec: Axis, pen: Pen) -> None:
    if spec.low is not None or spec.high is not None:
        low, high = getattr(axes, f"get_{name}lim")()
        low = low if spec.low is None else spec.low
        high = high if spec.high is None else spec.high
        getattr(axes, f"set_{name}lim")(low, high)
    if spec.kind == "log":
        low, high = sorted(getattr(axes, f"get_{name}lim")())
        if high < _FEW_DECADES * low:
            narrow = high < _NARROW * low
            some = MaxNLocator(nbins=5) if narrow else LogLocator(subs=(1.0, 2.0, 5.0))
            getattr(axes, f"{name}axis").set_major_locator(some)
    if spec.ticks:
        places, words = zip(*spec.ticks, strict=True)
        name_ticks(getattr(axes, f"{name}axis"), places, list(map(pen.text, words)))
    if spec.reverse:
        getattr(axes, f"invert_{name}axis")()
