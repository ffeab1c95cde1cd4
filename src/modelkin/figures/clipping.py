"""What a panel does not show: values beyond its limits, in numbers. No figure clips silently."""

from __future__ import annotations

from collections.abc import Iterator

from ._figure import Axis, Panel
from .marks import Bars, HeatMap, Histogram, Intervals, Lines, Ridges, Scatter
from .values import Numbers, known


def remarks(panel: Panel) -> tuple[str, ...]:
    """List everything that is outside the limits or missing, as sentences to write below the panel."""
    return tuple(_remarks(panel))


def _remarks(panel: Panel) -> Iterator[str]:
    for mark in panel.marks:
        if isinstance(mark, HeatMap):
            yield from _heat(mark)
        elif isinstance(mark, Histogram) and mark.below + mark.above:
            yield f"{mark.name}: {mark.below} values below and {mark.above} above the bins."
        elif isinstance(mark, Ridges) and any(mark.outside):
            yield f"{mark.name}: {sum(mark.outside)} values outside the range, counted in the heights."
    for axis, values in _drawn(panel):
        outside = _outside(axis, values)
        if outside:
            yield f"{outside} {'value' if outside == 1 else 'values'} outside the axis ({axis.label})."


def _heat(mark: HeatMap) -> Iterator[str]:
    below, above = mark.clipped()
    cells = sum(len(row) for row in mark.values)
    if below or above:
        limits = f"{mark.scale.low:.3g} to {mark.scale.high:.3g}"
        yield f"Colours end at {limits}: {below} cells below, {above} above, of {cells}."
    if mark.digits is not None and mark.expected:
        yield "In brackets: expected by chance."
    missing = sum(value is None for row in mark.values for value in row)
    if missing:
        yield f"Hatched: {missing} of {cells} cells without a value."


def _drawn(panel: Panel) -> Iterator[tuple[Axis, Numbers]]:
    for mark in panel.marks:
        if isinstance(mark, Lines | Scatter):
            yield panel.x, mark.x
            yield panel.y, mark.y
        elif isinstance(mark, Bars):
            yield from ((panel.x if mark.horizontal else panel.y, bars.values) for bars in mark.series)
        elif isinstance(mark, Intervals):
            yield panel.x, mark.values


def _outside(axis: Axis, values: Numbers) -> int:
    low = axis.low if axis.low is not None else -float("inf")
    high = axis.high if axis.high is not None else float("inf")
    return sum(not low <= value <= high for value in known(values))
