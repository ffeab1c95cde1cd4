"""Where panels go: the text around them is measured once, and drawing measures nothing again.

Matplotlib's layouts measure all text twice, and each drawn file measures it once more to place the labels of
its axes. Here text stays where it was put.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Side
from matplotlib.figure import Figure as Canvas
from matplotlib.transforms import Bbox, ScaledTranslation

from ._ticks import draw_ticks

_APART, _ABOVE = 0.1, 0.06
"""Inches kept free around a panel and its text: at its sides, above and below it."""
_USUAL = (0.6, 0.2, 0.3, 0.5)
"""Typical space for text left, right, above and below: a panel has as many ticks as fit its size."""
_TITLE_LINE, _TITLE_GAP = 0.185, 0.085
"""Inches of a line of a title, and below it."""


class Room(NamedTuple):
    """A part of a canvas, in inches from its lower left corner."""

    left: float
    bottom: float
    width: float
    height: float


def settle(canvas: Canvas, panels: Sequence[Any], heights: Sequence[float], columns: int, room: Room) -> None:
    """Place panels in rows: those of a column begin and end together, those of a row too."""
    beside = np.zeros((len(heights), columns, 4))
    beside[:] = _USUAL
    _place(canvas, panels, heights, beside, room)
    beside[:] = 0.0
    for i, axes in enumerate(panels):
        beside[divmod(i, columns)] = _beside(axes, canvas)
    _place(canvas, panels, heights, beside, room)


def _place(
    canvas: Canvas, panels: Sequence[Any], heights: Sequence[float], beside: np.ndarray, room: Room
) -> None:
    columns = beside.shape[1]
    left, right = (beside[:, :, side].max(axis=0) + _APART for side in (0, 1))
    above, below = (beside[:, :, side].max(axis=1) + _ABOVE for side in (2, 3))
    width = (room.width - (left + right).sum()) / columns
    tall = np.array(heights) / sum(heights) * (room.height - (above + below).sum())
    x = room.left + np.cumsum(left + width + right) - width - right
    y = room.bottom + room.height - np.cumsum(above + tall + below) + below
    across, up = canvas.get_size_inches()
    for i, axes in enumerate(panels):
        row, column = divmod(i, columns)
        place = (x[column] / across, y[row] / up, width / across, tall[row] / up)
        # Rounded, since ids in an SVG file are made from all bits.
        axes.set_position(tuple(round(float(part), 6) for part in place))


def _beside(axes: Any, canvas: Canvas) -> tuple[float, float, float, float]:  # noqa: ANN401  plane or space
    """Measure the text left, right, above and below, in inches."""
    title = axes.get_title("left")
    above = (title.count("\n") + 1) * _TITLE_LINE + _TITLE_GAP if title else 0.0
    if axes.name == "3d":
        return 0.0, 0.0, above, 0.0
    axes.apply_aspect()
    box = axes.bbox
    whole = Bbox.union([box, *(words for one in (axes, *axes.child_axes) for words in _words(one, canvas))])
    left, right, top, bottom = box.x0 - whole.x0, whole.x1 - box.x1, whole.y1 - box.y1, box.y0 - whole.y0
    return left / canvas.dpi, right / canvas.dpi, max(above, top / canvas.dpi), bottom / canvas.dpi


def _words(axes: Axes, canvas: Canvas) -> Iterator[Bbox]:
    """Draw ticks and labels of a pair of axes; return where they are."""
    locator = axes.get_axes_locator()
    if locator is not None:
        axes.apply_aspect(locator(axes, None))  # type: ignore[arg-type]  # ours need no renderer
    if not axes.axison:
        return
    for side in (axes.xaxis, axes.yaxis):
        # A label that places itself measures all ticks in every drawing.
        side.set_label_coords(0.5, 0.5)
        ticks = draw_ticks(canvas, axes, side)
        if ticks is not None:
            yield ticks
        if side.label.get_text():
            yield _label(axes, side, ticks or axes.bbox, canvas)


def _label(axes: Axes, side: Side, ticks: Bbox, canvas: Canvas) -> Bbox:
    """Put the label of an axis beyond its ticks, whatever size the axes will have."""
    box, pad = axes.bbox, side.labelpad / 72
    match side.get_label_position():
        case "left":
            at, (x, y) = (0.0, 0.5), ((min(ticks.x0, box.x0) - box.x0) / canvas.dpi - pad, 0.0)
        case "right":
            at, (x, y) = (1.0, 0.5), ((max(ticks.x1, box.x1) - box.x1) / canvas.dpi + pad, 0.0)
        case _:
            at, (x, y) = (0.5, 0.0), (0.0, (min(ticks.y0, box.y0) - box.y0) / canvas.dpi - pad)
    side.set_label_coords(*at, transform=axes.transAxes + ScaledTranslation(x, y, canvas.dpi_scale_trans))
    found = side.label.get_window_extent()
    # The length of a label does not move panels: it is wrapped to fit.
    middle_x, middle_y = (found.x0 + found.x1) / 2, (found.y0 + found.y1) / 2
    if side is axes.xaxis:
        return Bbox.from_extents(middle_x, found.y0, middle_x, found.y1)
    return Bbox.from_extents(found.x0, middle_y, found.x1, middle_y)
