"""Marks in the plane (curves, bars, points, histograms, ridges, intervals, lines) and in space."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

from modelkin.message import phrase

from ._figure import Axis, Panel
from ._text import breadth, wrapped
from ._ticks import name_ticks
from .marks import (
    Arrow3D,
    Bars,
    BarSeries,
    Histogram,
    Intervals,
    Lines,
    Mark,
    Plane3D,
    ReferenceLine,
    Ridges,
    Scatter,
    TextMark,
    Trajectory3D,
)
from .pen import DASHES, Pen, rgb
from .values import array, fixed

_RASTER = 2000
"""From this many points on, they are one image in an SVG."""


def draw_lines(axes: Axes, mark: Lines, pen: Pen) -> None:
    """Draw a curve, its band below it, with markers where there are few points."""
    colour = pen.colour(mark.style)
    x, y = array(mark.x), array(mark.y)
    if mark.low:
        axes.fill_between(
            x, array(mark.low), array(mark.high), color=colour, alpha=0.18, linewidth=0, zorder=1.5
        )
    data = mark.role == "data"
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=DASHES[mark.style.dash],
        linewidth=0.7 if mark.thin else 1.5 if data else 1.3,
        alpha=0.65 if mark.thin else 1.0,
        marker=(mark.style.marker or None) if len(x) > 1 else mark.style.marker or "o",
        markersize=3.4 if len(x) <= 60 else 2.2,
        markevery=max(1, len(x) // 60),
        markeredgewidth=0,
        # Above the data: a curve that runs along its expectation must not hide it.
        zorder=3 if data else 3.6,
    )


def draw_scatter(axes: Axes, mark: Scatter, pen: Pen) -> None:
    """Draw points; many points are small and see-through."""
    many = len(mark.x) > 150
    axes.scatter(
        array(mark.x),
        array(mark.y),
        s=6 if many else 22,
        alpha=0.45 if many else 0.9,
        color=pen.colour(mark.style),
        marker=mark.style.marker or "o",
        linewidths=0,
        rasterized=len(mark.x) > _RASTER,
        zorder=3 if mark.role == "data" else 2,
    )


def draw_histogram(axes: Axes, mark: Histogram, pen: Pen) -> None:
    """Draw shares of all values, including those outside the bins; a null is an outline."""
    colour = pen.colour(mark.style)
    counts = array(mark.counts)
    total = float(np.nansum(counts)) + mark.below + mark.above
    shares = counts / total if total else counts
    data = mark.role == "data"
    if data:
        axes.stairs(shares, array(mark.edges), fill=True, color=colour, alpha=0.35, linewidth=0)
    axes.stairs(
        shares,
        array(mark.edges),
        color=colour,
        linestyle=DASHES[mark.style.dash],
        linewidth=1.3,
        zorder=3 if data else 4,
    )


def draw_ridges(axes: Axes, marks: list[Ridges], pen: Pen) -> None:
    """Draw all ridges of a panel on one scale of heights."""
    tallest = max((np.nanmax(array(mark.heights)) for mark in marks), default=1.0) or 1.0
    rows = marks[0].rows
    for row in range(len(rows)):
        for mark in marks:
            edges = array(mark.edges)
            middle = (edges[:-1] + edges[1:]) / 2
            height = array(mark.heights[row]) / tallest * 2.2
            colour = pen.colour(mark.style)
            base = float(len(rows) - 1 - row)
            depth = 3 + row * 0.01
            axes.fill_between(
                middle, base, base + height, color=colour, alpha=0.35, linewidth=0, zorder=depth
            )
            axes.plot(
                middle,
                np.where(height > 0, base + height, np.nan),
                color=colour,
                linewidth=0.9,
                linestyle=DASHES[mark.style.dash],
                zorder=depth + 0.005,
            )
    name_ticks(axes.yaxis, range(len(rows)), [pen.text(name, 14) for name in reversed(rows)])
    axes.set_ylim(-0.3, len(rows) + 1.6)


def draw_reference(axes: Axes, mark: ReferenceLine, pen: Pen) -> None:
    """Draw a line across the panel, and its band."""
    colour = pen.colour(mark.style)
    line, span = (axes.axhline, axes.axhspan) if mark.axis == "y" else (axes.axvline, axes.axvspan)
    if mark.low is not None and mark.high is not None:
        span(mark.low, mark.high, color=colour, alpha=0.16, linewidth=0, zorder=1)
    line(mark.value, color=colour, linestyle=DASHES[mark.style.dash], linewidth=1.2, zorder=2.4)


def draw_text(axes: Axes, mark: TextMark, pen: Pen, *, alone: bool) -> None:
    """Write words into a corner, or, alone in a panel, across it."""
    vertical, horizontal = mark.corner.split()
    size = pen.words if alone else pen.letters
    # A panel of words is aligned with the panels above it, next to the names of their ticks.
    lines = wrapped(pen.text(mark.text), pen.letters_across(pen.panel_width * (0.8 if alone else 0.7), size))
    axes.text(
        (0.0 if alone else 0.02) if horizontal == "left" else 0.98,
        0.97 if vertical == "top" else 0.03,
        "\n".join(lines),
        transform=axes.transAxes,
        va=vertical if vertical == "top" else "bottom",
        ha=horizontal,
        fontsize=size,
        linespacing=1.35,
        bbox=None
        if alone
        else {"facecolor": pen.theme.background, "edgecolor": pen.theme.grid, "alpha": 0.85, "pad": 2.5},
        zorder=6,
    )


def _side_letters(pen: Pen) -> int:
    """Room for names at the side of a panel."""
    return pen.letters_across(pen.panel_width * 0.38, 8)


def draw_bars(axes: Axes, mark: Bars, pen: Pen) -> None:
    """Draw bars from zero, with their values and the ends of their errors."""
    places = np.arange(len(mark.labels), dtype=float)
    beside = 1 if mark.overlaid else max(1, len(mark.series))
    breadth = (0.96 if mark.slim else 0.78 if beside > 1 else 0.6) / beside
    for i, series in enumerate(mark.series):
        at = places + (0 if mark.overlaid else (i - (beside - 1) / 2) * breadth)
        _draw_series(axes, mark, series, at, breadth, pen)
    if mark.slim:
        return
    if mark.horizontal:
        name_ticks(axes.yaxis, places, [pen.text(label, _side_letters(pen)) for label in mark.labels])
        axes.set_ylim(len(places) - 0.5, -0.5)
        axes.margins(x=0.14)
        axes.grid(axis="y", visible=False)
    else:
        axes.grid(axis="x", visible=False)
        axes.set_xlim(-0.6, len(places) - 0.4)
        axes.margins(y=0.12)
        _bar_labels(axes, mark, places, pen)


def _bar_labels(axes: Axes, mark: Bars, places: np.ndarray, pen: Pen) -> None:
    room = int(pen.letters_across((pen.panel_width - 0.6) / max(1, len(places)), 8))
    lines = [wrapped(pen.text(label), room - 1) for label in mark.labels]
    if (
        room >= 8
        and max(breadth(line) for label in lines for line in label) <= room
        and max(map(len, lines)) <= 3
    ):
        name_ticks(axes.xaxis, places, ["\n".join(label) for label in lines])
    else:
        names = [pen.text(label, 26) for label in mark.labels]
        name_ticks(axes.xaxis, places, names, rotation=35)


def _draw_series(axes: Axes, mark: Bars, series: BarSeries, at: np.ndarray, breadth: float, pen: Pen) -> None:
    colour = pen.colour(series.style)
    values = array(series.values)
    chance = series.role != "data"
    looks: dict[str, Any] = {
        "facecolor": "none" if chance else colour,
        "edgecolor": colour,
        "linewidth": 0.0 if mark.slim and not chance else 0.9,
        "linestyle": DASHES[series.style.dash] if chance else "-",
        "hatch": "////" if chance and not mark.slim else None,
    }
    there = np.isfinite(values)
    bars = axes.barh if mark.horizontal else axes.bar
    bars(at[there], values[there], breadth * (1.0 if mark.slim else 0.92), **looks)
    ends = np.array([values, values])
    if series.low:
        ends = np.array([array(series.low), array(series.high)])
        error = np.abs(ends - values)
        bar: dict[str, Any] = {"xerr": error} if mark.horizontal else {"yerr": error}
        x, y = (values, at) if mark.horizontal else (at, values)
        axes.errorbar(x, y, **bar, fmt="none", ecolor=pen.theme.ink, elinewidth=1.0, capsize=2.5, zorder=4)
    for i, value in enumerate(series.values):
        if value is None:
            if not series.missing:
                continue
            _missing_bar(axes, mark, series.missing, float(at[i]), pen)
        elif mark.digits is not None:
            far = ends[1, i] if value >= 0 else ends[0, i]
            _bar_value(axes, mark, value, float(far if np.isfinite(far) else value), float(at[i]), pen)


def _bar_value(axes: Axes, mark: Bars, value: float, end: float, at: float, pen: Pen) -> None:
    text = fixed(value, mark.digits or 0)
    up = 1 if value >= 0 else -1
    bars = len(mark.labels) * (1 if mark.overlaid else len(mark.series))
    # Letters of 7 points are 0.62 as wide as high; the axis takes 0.7 inches, and bars 0.72 of the rest.
    crowded = len(text) * 7 * 0.62 > (pen.panel_width - 0.7) * 72 * 0.72 / bars
    where = (end, at) if mark.horizontal else (at, end)
    axes.annotate(
        text,
        where,
        xytext=(3 * up, 0) if mark.horizontal else (0, 2.5 * up),
        textcoords="offset points",
        ha=("left" if up > 0 else "right") if mark.horizontal else "center",
        va="center" if mark.horizontal else ("bottom" if up > 0 else "top"),
        rotation=90 if crowded and not mark.horizontal else 0,
        fontsize=7,
        zorder=5,
    )


def _missing_bar(axes: Axes, mark: Bars, reason: str, at: float, pen: Pen) -> None:
    transform = axes.get_yaxis_transform() if mark.horizontal else axes.get_xaxis_transform()
    axes.text(
        *((0.02, at) if mark.horizontal else (at, 0.04)),
        pen.text(reason, 34),
        transform=transform,
        rotation=0 if mark.horizontal else 90,
        ha="left" if mark.horizontal else "center",
        va="center" if mark.horizontal else "bottom",
        fontsize=7,
        style="italic",
        color=pen.theme.tones["muted"],
        zorder=5,
    )


def draw_intervals(axes: Axes, mark: Intervals, pen: Pen) -> None:
    """Draw a forest: effects with intervals, detection limits as grey brackets, reasons for missing rows."""
    colour = pen.colour(mark.style)
    places = range(len(mark.labels))
    right: list[str] = []
    for i in places:
        value, low, high = mark.values[i], mark.low[i], mark.high[i]
        reason = mark.reasons[i] if mark.reasons else ""
        if value is None:
            right.append("")
            axes.text(
                0.02,
                i,
                pen.text(
                    phrase("figure.not_tested", reason=reason), pen.letters_across(pen.panel_width * 0.5, 7.5)
                ),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=7.5,
                style="italic",
                color=pen.theme.tones["muted"],
                bbox={"facecolor": pen.theme.background, "edgecolor": "none", "pad": 1.0},
                zorder=5,
            )
            continue
        right.append(pen.text(reason, 30))
        if low is not None and high is not None:
            axes.plot([low, high], [i, i], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
        filled = not mark.strong or mark.strong[i]
        axes.plot(
            [value], [i], marker="o", markersize=6, color=colour, markeredgewidth=1.4, zorder=4,
            markerfacecolor=colour if filled else pen.theme.background,
        )  # fmt: skip
        limit = mark.limits[i] if mark.limits else None
        if limit is not None:
            grey = pen.theme.tones["muted"]
            axes.plot([limit], [i], marker="|", markersize=11, markeredgewidth=1.6, color=grey, zorder=3.5)
    name_ticks(axes.yaxis, places, [pen.text(label, _side_letters(pen)) for label in mark.labels])
    axes.set_ylim(len(mark.labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    if any(right):
        beside = axes.secondary_yaxis("right")
        name_ticks(beside.yaxis, places, right)
        beside.tick_params(length=0, labelsize=7.5)
        beside.spines["right"].set_visible(False)


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
