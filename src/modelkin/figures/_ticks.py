"""Ticks of axes in the plane. Those of matplotlib are five objects each, and each is measured many times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Side
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT, TICKRIGHT
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import Bbox

from .values import MINUS

_MARKS: dict[str, Any] = {"bottom": TICKDOWN, "left": TICKLEFT, "right": TICKRIGHT}


def name_ticks(side: Side, places: Iterable[float], names: Sequence[str], *, rotation: float = 0.0) -> None:
    """Return where an axis has ticks, and their labels."""
    side.set_major_locator(FixedLocator([*places]))
    side.set_major_formatter(FixedFormatter(names))
    side.set_tick_params(labelrotation=rotation)


def draw_ticks(canvas: Canvas, axes: Axes, side: Side) -> Bbox | None:
    """Draw the grid, the marks and the labels of the ticks that fit; return where the labels are."""
    looks = side.get_tick_params()
    where = "bottom" if side is axes.xaxis else "right" if looks.get("labelright") else "left"
    along: Any = axes.get_xaxis_transform() if where == "bottom" else axes.get_yaxis_transform()
    places, names = _named(side)
    small = _seen(side, side.get_minorticklocs())
    side.set_major_locator(NullLocator())
    side.set_minor_locator(NullLocator())
    if looks.get("gridOn") and len(places):
        ends = [((at, 0), (at, 1)) if where == "bottom" else ((0, at), (1, at)) for at in places]
        grid = LineCollection(
            ends, transform=along, colors=rcParams["grid.color"], linewidths=rcParams["grid.linewidth"]
        )
        grid.set_zorder(0.5)
        axes.add_artist(grid)
    length = looks.get("length", rcParams["xtick.major.size"])
    for ticks, size in ((places, length), (small, rcParams["xtick.minor.size"])):
        if len(ticks) and size:
            canvas.add_artist(_marks(ticks, size, where, along))
    pad = length + rcParams["xtick.major.pad"]
    # On the canvas, not on the axes, which would clip each of them.
    written = [
        canvas.add_artist(_name(axes, at, name, where, pad, looks))
        for at, name in zip(places, names, strict=True)
        if name
    ]
    return Bbox.union([name.get_window_extent() for name in written]) if written else None


def _named(side: Side) -> tuple[npt.NDArray[np.float64], list[str]]:
    """List the ticks that can be seen, with their names."""
    places, formatter = [float(place) for place in side.get_majorticklocs()], side.get_major_formatter()
    names = formatter.format_ticks(places)
    if formatter.get_offset():
        names = [f"{place:g}".replace("-", MINUS) for place in places]
    seen = _seen(side, places)
    kept = set(seen.tolist())
    return seen, [name for place, name in zip(places, names, strict=True) if place in kept]


def _seen(side: Side, places: npt.ArrayLike) -> npt.NDArray[np.float64]:
    found = np.asarray(places, dtype=np.float64)
    shown = side.get_transform()
    low, high = np.sort(shown.transform(np.asarray(side.get_view_interval(), dtype=np.float64)))
    at, slack = shown.transform(found), 1e-10 * (high - low)
    inside: npt.NDArray[np.float64] = found[(at >= low - slack) & (at <= high + slack)]
    return inside


def _marks(places: npt.NDArray[np.float64], size: float, where: str, along: Any) -> Line2D:  # noqa: ANN401
    edge = np.full(len(places), 1.0 if where == "right" else 0.0)
    x, y = (places, edge) if where == "bottom" else (edge, places)
    return Line2D(
        x, y, transform=along, linestyle="", marker=_MARKS[where], markersize=size, markeredgewidth=0.8,
        color=rcParams["xtick.color"], clip_on=False,
    )  # fmt: skip


def _name(axes: Axes, at: float, name: str, where: str, pad: float, looks: dict[str, Any]) -> Text:
    rotation = looks.get("rotation", 0.0)
    match where:
        case "bottom":
            (x, y), (transform, vertical, horizontal) = (at, 0.0), axes.get_xaxis_text1_transform(pad)
        case "left":
            (x, y), (transform, vertical, horizontal) = (0.0, at), axes.get_yaxis_text1_transform(pad)
        case _:
            (x, y), (transform, vertical, horizontal) = (1.0, at), axes.get_yaxis_text2_transform(pad)
    return Text(
        x, y, name, transform=transform, va=vertical, ha="right" if rotation else horizontal,
        rotation=rotation, rotation_mode="anchor" if rotation else None,
        fontsize=looks.get("labelsize", rcParams["xtick.labelsize"]), color=rcParams["xtick.labelcolor"],
        clip_on=False,
    )  # fmt: skip
