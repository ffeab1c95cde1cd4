"""Marks in space: paths, arrows and planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

from ._figure import Axis, Panel
from ._marks import Arrow3D, Mark, Plane3D, Trajectory3D
from .pen import DASHES, Pen, rgb
from .values import array


def draw_solid(axes: Any, panel: Panel, pen: Pen) -> None:  # noqa: ANN401  Axes3D is untyped
    """Draw a view of space."""
    axes.view_init(elev=panel.camera[0], azim=panel.camera[1])
    axes.computed_zorder = True
    for mark in panel.marks:
        _draw(axes, mark, pen)
    for name in "xyz":
        spec: Axis = getattr(panel, name)
        getattr(axes, f"set_{name}label")(pen.text(spec.label), fontsize=8, labelpad=-2)
        if spec.low is not None or spec.high is not None:
            getattr(axes, f"set_{name}lim")(spec.low, spec.high)
        side = getattr(axes, f"{name}axis")
        side.set_pane_color((*rgb(pen.theme.grid), 0.25))
        side.line.set_color(pen.theme.tones["muted"])
        side._axinfo["grid"].update(color=pen.theme.grid, linewidth=0.6)
        axes.tick_params(axis=name, labelsize=7, pad=-1)
    axes.locator_params(nbins=5)


def _draw(axes: Any, mark: Mark, pen: Pen) -> None:  # noqa: ANN401  Axes3D is untyped
    if isinstance(mark, Trajectory3D):
        points = array(mark.points)
        colour = pen.colour(mark.style)
        looks = {"color": colour, "depthshade": False, "edgecolors": pen.theme.ink, "linewidths": 0.6}
        axes.plot(*points.T, color=colour, linewidth=1.2, linestyle=DASHES[mark.style.dash])
        axes.scatter(*points[1:-1].T, s=9, color=colour, marker=mark.style.marker or "o", linewidths=0)
        axes.scatter(*points[:1].T, s=55, marker="o", **looks)
        axes.scatter(*points[-1:].T, s=95, marker="*", **looks)
    elif isinstance(mark, Arrow3D):
        step = np.subtract(mark.tip, mark.tail)
        axes.quiver(
            *mark.tail, *step, color=pen.colour(mark.style), linestyle=DASHES[mark.style.dash],
            linewidth=2.2 if mark.role == "data" else 1.2,
            arrow_length_ratio=0.12 if mark.role == "data" else 0,
        )  # fmt: skip
    elif isinstance(mark, Plane3D):
        face = Poly3DCollection([mark.corners], alpha=mark.opacity, linewidths=0)
        face.set_facecolor((*rgb(pen.colour(mark.style)), mark.opacity))
        axes.add_collection3d(face)
