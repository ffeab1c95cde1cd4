"""Matrices in colours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from modelkin.message import phrase

from ._ticks import name_ticks
from .marks import HeatMap
from .pen import Pen, rgb
from .theme import readable_on
from .values import array, brief, fixed


def draw_heat_map(canvas: Canvas, axes: Axes, mark: HeatMap, pen: Pen) -> None:
    """Draw a matrix with its colour bar: arrows where colours end, a line where chance is."""
    colours = pen.colours(mark.scale)
    values = np.ma.masked_invalid(array(mark.values))
    rows, columns = values.shape
    axes.grid(visible=False)
    if np.ma.is_masked(values):
        under = Rectangle(
            (-0.5, -0.5), columns, rows, facecolor=pen.theme.missing, edgecolor=pen.theme.ink, hatch="///"
        )
        axes.add_patch(under)
        under.set_zorder(0.5)
    image = axes.imshow(
        values, cmap=colours, vmin=mark.scale.low, vmax=mark.scale.high, interpolation="nearest", zorder=1,
        # Cells are square if the map is nearly so; a long one would leave most of the panel empty.
        aspect="equal" if 0.6 < rows / columns < 1.7 else "auto",
    )  # fmt: skip
    _labels(axes, mark, pen)
    for place in mark.separators:
        axes.axhline(place - 0.5, color=pen.theme.background, linewidth=2.5)
        axes.axvline(place - 0.5, color=pen.theme.background, linewidth=2.5)
    if mark.digits is not None:
        _write_cells(axes, mark, pen, image)
    _mark_path(axes, mark, pen, image)
    below, above = mark.clipped()
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    # An inset keeps its distance from a matrix of square cells, wherever the layout puts it.
    beside = axes.inset_axes((1.03, 0.0, 0.045, 1.0))
    bar = canvas.colorbar(image, cax=beside, extend=extend[below > 0, above > 0])
    bar.outline.set_visible(False)
    bar.set_label(pen.text(_bar_words(mark)), fontsize=8)
    if (chance := _shown_chance(mark)) is not None:
        beside.axhline(chance, color=pen.theme.ink, linewidth=1.6)


def _shown_chance(mark: HeatMap) -> float | None:
    """Return chance if it lies inside the bar, so that a line can be drawn."""
    scale = mark.scale
    return scale.chance if scale.chance is not None and scale.low <= scale.chance <= scale.high else None


def _bar_words(mark: HeatMap) -> str:
    scale = mark.scale
    if scale.chance is None:
        return scale.label
    code = "figure.bar" if _shown_chance(mark) is None else "figure.bar_line"
    return phrase(code, label=scale.label, chance=scale.chance_label, value=brief(scale.chance))


def _labels(axes: Axes, mark: HeatMap, pen: Pen) -> None:
    letters = max((len(name) for name in mark.columns), default=1)
    apart = 11 if letters > 4 else 5.5 * letters + 4
    across = max(1, int(np.ceil(len(mark.columns) * apart / (_breadth(mark, pen) * 72))))
    down = max(1, int(np.ceil(len(mark.rows) / 16)))
    columns = range(0, len(mark.columns), _round_step(across))
    rows = range(0, len(mark.rows), _round_step(down))
    names = [pen.text(mark.columns[i], 16) for i in columns]
    # A letter of 8 points is 0.085 inches wide; seven tenths of the panel are the map, the rest its scale.
    long = max(map(len, names), default=0) * len(names) * 0.085 > pen.panel_width * 0.7
    name_ticks(axes.xaxis, columns, names, rotation=40 if long else 0)
    name_ticks(axes.yaxis, rows, [pen.text(mark.rows[i], 16) for i in rows])
    axes.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _breadth(mark: HeatMap, pen: Pen) -> float:
    """Inches that are left for the matrix, beside the names of its rows and the colour bar."""
    longest = min(16, max((len(name) for name in mark.rows), default=1))
    return max(0.4, pen.panel_width - 1.0 - 0.065 * longest)


def _round_step(step: int) -> int:
    return next(nice for nice in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if nice >= step)


def _write_cells(axes: Axes, mark: HeatMap, pen: Pen, image: AxesImage) -> None:
    assert mark.digits is not None
    texts = {
        (i, j): _cell_words(mark, i, j, value)
        for i, row in enumerate(mark.values)
        for j, value in enumerate(row)
        if value is not None
    }
    widest = max((len(line) for text in texts.values() for line in text.split("\n")), default=1)
    size = min(8.5, _breadth(mark, pen) / len(mark.columns) * 72 / (0.66 * widest))
    if size < 3.5:  # points: smaller letters cannot be read
        return
    shades = _shades(mark, image)
    for (i, j), text in texts.items():
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=readable_on(rgb(shades[i, j])))


def _cell_words(mark: HeatMap, row: int, column: int, value: float) -> str:
    digits = mark.digits or 0
    expected = mark.expected[row][column] if mark.expected else None
    return (
        fixed(value, digits) if expected is None else f"{fixed(value, digits)}\n({fixed(expected, digits)})"
    )


def _mark_path(axes: Axes, mark: HeatMap, pen: Pen, image: AxesImage) -> None:
    if not mark.path:
        return
    few = max(len(mark.rows), len(mark.columns)) <= 12
    if few:
        for row, column in mark.path:
            box = Rectangle(
                (column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor=pen.theme.ink, linewidth=1.4
            )
            axes.add_patch(box)
        return
    shades = _shades(mark, image)
    shade = [readable_on(rgb(shades[row, column])) for row, column in mark.path]
    rows, columns = zip(*mark.path, strict=True)
    axes.scatter(columns, rows, s=5, c=shade, linewidths=0, zorder=4)


def _shades(mark: HeatMap, image: AxesImage) -> npt.NDArray[np.float64]:
    """Colour of each cell, to choose a legible text colour."""
    return np.asarray(image.cmap(image.norm(np.nan_to_num(array(mark.values), nan=mark.scale.low))))[..., :3]
