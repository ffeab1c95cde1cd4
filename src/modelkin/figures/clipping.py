"""What a panel does not show: values beyond its limits, in numbers. No figure clips silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelkin.message import Message, say

from ._figure import Axis, Panel
from .marks import Bars, HeatMap, Histogram, Intervals, Lines, Ridges, Scatter
from .values import Numbers, known

if TYPE_CHECKING:
    from modelkin.document import Language


def remarks(panel: Panel, language: Language) -> tuple[str, ...]:
    """List everything that is outside the limits or missing, as sentences to write below the panel."""
    return tuple(map(language.tell, _remarks(panel)))


def _remarks(panel: Panel) -> Iterator[Message]:
    for mark in panel.marks:
        if isinstance(mark, HeatMap):
            yield from _heat(mark)
        elif isinstance(mark, Histogram) and mark.below + mark.above:
            yield say("figure.outside_bins", name=mark.name, below=mark.below, above=mark.above)
        elif isinstance(mark, Ridges) and any(mark.outside):
            yield say("figure.outside_range", name=mark.name, count=sum(mark.outside))
    for axis, values in _drawn(panel):
        outside = _outside(axis, values)
        if outside:
            yield say("figure.outside_axis", n=outside, axis=axis.label)


def _heat(mark: HeatMap) -> Iterator[Message]:
    below, above = mark.clipped()
    cells = sum(len(row) for row in mark.values)
    if below or above:
        ends = {"low": mark.scale.low, "high": mark.scale.high}
        yield say("figure.colours_end", below=below, above=above, cells=cells, **ends)
    if mark.digits is not None and mark.expected:
        yield say("figure.in_brackets")
    missing = sum(value is None for row in mark.values for value in row)
    if missing:
        yield say("figure.hatched", missing=missing, cells=cells)


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
