"""What a panel can hold, as data. Nothing here knows how it is drawn."""

from __future__ import annotations

from typing import Literal, TypeAlias

from modelkin.errors import UsageError
from modelkin.message import phrase, say

from ._record import Record
from ._scale import Scale
from ._style import NULL, Style
from .values import Grid, Numbers

Role = Literal["data", "null", "expectation", "threshold"]
"""What a mark stands for; null and expectation are what chance looks like."""
Point: TypeAlias = tuple[float, float, float]

SHOWS_CHANCE = ("null", "expectation")


def _same_length(mark: str, *columns: tuple[object, ...]) -> None:
    lengths = {len(column) for column in columns if column}
    if len(lengths) > 1:
        raise UsageError(mark, say("problem.columns-length", got=str(sorted(lengths))))


class Lines(Record, frozen=True, kw_only=True):
    """A curve, with a band from `low` to `high` if given. None is a gap, never bridged."""

    name: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    style: Style = Style()
    role: Role = "data"
    thin: bool = False

    def __post_init__(self) -> None:
        _same_length("Lines", self.x, self.y, self.low, self.high)


class BarSeries(Record, frozen=True, kw_only=True):
    """One colour of bars. A None value is drawn as missing, with the reason."""

    name: str
    values: Numbers
    low: Numbers = ()
    high: Numbers = ()
    style: Style = Style()
    role: Role = "data"
    missing: str = phrase("figure.not_measured")

    def __post_init__(self) -> None:
        _same_length("BarSeries", self.values, self.low, self.high)


class Bars(Record, frozen=True, kw_only=True):
    """Groups of bars side by side."""

    labels: tuple[str, ...]
    series: tuple[BarSeries, ...]
    horizontal: bool = False
    digits: int | None = None
    """Decimals of the value written at each bar; None writes none."""
    slim: bool = False
    """Without gaps and labels: for many bars."""
    overlaid: bool = False
    """Draw series in one place, if they never overlap: one colour for some bars, one for others."""

    def __post_init__(self) -> None:
        _same_length("Bars", self.labels, *(series.values for series in self.series))


class HeatMap(Record, frozen=True, kw_only=True):
    """A matrix in colours; cells that are None are shown as missing."""

    values: Grid
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    scale: Scale
    digits: int | None = None
    """Decimals written into the cells; None writes none."""
    expected: Grid = ()
    """Expectation of each cell, written below its value in brackets."""
    path: tuple[tuple[int, int], ...] = ()
    """Cells (row, column) that are marked: a diagonal, or layers that face each other."""
    path_name: str = ""
    separators: tuple[int, ...] = ()
    """Draw a line before these rows and columns."""

    def __post_init__(self) -> None:
        _same_length("HeatMap", self.rows, self.values)
        _same_length("HeatMap", self.rows, self.expected)
        for row in (*self.values, *self.expected):
            _same_length("HeatMap", self.columns, row)

    def clipped(self) -> tuple[int, int]:
        """Count the cells below and above the limits of the colours."""
        cells = [value for row in self.values for value in row if value is not None]
        return sum(v < self.scale.low for v in cells), sum(v > self.scale.high for v in cells)


class Histogram(Record, frozen=True, kw_only=True):
    """Counts between edges; `below` and `above` are how many values lie outside all bins."""

    name: str
    edges: Numbers
    counts: Numbers
    below: int = 0
    above: int = 0
    style: Style = Style()
    role: Role = "data"

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts) + 1:
            raise UsageError("Histogram", say("problem.edges"))


class Scatter(Record, frozen=True, kw_only=True):
    """Points."""

    name: str
    x: Numbers
    y: Numbers
    style: Style = Style()
    role: Role = "data"

    def __post_init__(self) -> None:
        _same_length("Scatter", self.x, self.y)


class Ridges(Record, frozen=True, kw_only=True):
    """Densities, one above the other: shares of all values per unit of x, including those outside."""

    name: str
    rows: tuple[str, ...]
    edges: Numbers
    heights: Grid
    outside: tuple[int, ...] = ()
    """How many values of each row lie outside the edges."""
    style: Style = Style()

    def __post_init__(self) -> None:
        _same_length("Ridges", self.rows, self.heights, self.outside)


class Intervals(Record, frozen=True, kw_only=True):
    """Effects with intervals, one row each, and the smallest effect the test would have found."""

    labels: tuple[str, ...]
    values: Numbers
    low: Numbers
    high: Numbers
    limits: Numbers = ()
    """Detection limits; None if there is none."""
    reasons: tuple[str, ...] = ()
    """Beside each row: why there is no value, or a remark."""
    strong: tuple[bool, ...] = ()
    """Rows that meet the decision rule; the others are drawn hollow."""
    style: Style = Style()

    def __post_init__(self) -> None:
        columns = (self.values, self.low, self.high, self.limits, self.reasons, self.strong)
        _same_length("Intervals", self.labels, *columns)


class ReferenceLine(Record, frozen=True, kw_only=True):
    """A null, expectation or threshold across the panel, with a band from `low` to `high` if given."""

    value: float
    label: str
    axis: Literal["x", "y"] = "y"
    role: Role = "null"
    low: float | None = None
    high: float | None = None
    style: Style = NULL


class TextMark(Record, frozen=True, kw_only=True):
    """Words in a corner of the panel."""

    text: str
    corner: Literal["top left", "top right", "bottom left", "bottom right"] = "top left"


class TableMark(Record, frozen=True, kw_only=True):
    """Rows of text. Numbers belong to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: tuple[Literal["left", "right"], ...] = ()

    def __post_init__(self) -> None:
        _same_length("Table", self.columns, self.align, *self.rows)


class Trajectory3D(Record, frozen=True, kw_only=True):
    """A path through space; its first point is a large circle, its last one a star."""

    name: str
    points: tuple[Point, ...]
    style: Style = Style()


class Arrow3D(Record, frozen=True, kw_only=True):
    """An arrow from `tail` to `tip`."""

    name: str
    tip: Point
    tail: Point = (0.0, 0.0, 0.0)
    style: Style = Style()
    role: Role = "data"


class Plane3D(Record, frozen=True, kw_only=True):
    """A filled polygon in space."""

    name: str
    corners: tuple[Point, ...]
    opacity: float = 0.15
    style: Style = Style()
    role: Role = "data"


Mark: TypeAlias = (
    Lines
    | Bars
    | HeatMap
    | Histogram
    | Scatter
    | Ridges
    | Intervals
    | ReferenceLine
    | TextMark
    | TableMark
    | Trajectory3D
    | Arrow3D
    | Plane3D
)
SOLID = (Trajectory3D, Arrow3D, Plane3D)
WORDS = (TextMark, TableMark)


def shows_chance(mark: Mark) -> bool:
    """Whether a mark shows what chance, or the expectation, looks like."""
    if isinstance(mark, HeatMap):
        return mark.scale.chance is not None or (mark.digits is not None and bool(mark.expected))
    if isinstance(mark, Bars):
        return any(series.role in SHOWS_CHANCE for series in mark.series)
    return getattr(mark, "role", "data") in SHOWS_CHANCE
