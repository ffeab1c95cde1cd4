"""A figure as data: what is drawn, before anyone draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec.structs import force_setattr

from modelkin.errors import UsageError
from modelkin.message import say

from ._record import Record
from .marks import SOLID, WORDS, Bars, Mark, shows_chance


class Axis(Record, frozen=True, kw_only=True):
    """One axis: its labels, and its limits if they should not follow the data."""

    label: str = ""
    low: float | None = None
    high: float | None = None
    kind: Literal["linear", "log"] = "linear"
    ticks: tuple[tuple[float, str], ...] = ()
    """Places and words; empty leaves them to the drawing."""
    reverse: bool = False

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise UsageError(self.label or "axis", say("problem.low-high", low=self.low, high=self.high))


class Panel(Record, frozen=True, kw_only=True):
    """One pair of axes. It shows what chance looks like, or says why there is nothing to show."""

    title: str
    marks: tuple[Mark, ...]
    x: Axis = Axis()
    y: Axis = Axis()
    z: Axis = Axis()
    without_null: str = ""
    """Why no null or expectation is drawn; written below the panel."""
    note: str = ""
    camera: tuple[float, float] = (22.0, -60.0)
    """Elevation and azimuth in degrees, for marks in space."""
    height: float = 2.7
    """Inches."""

    def __post_init__(self) -> None:
        if not self.marks:
            raise UsageError(self.title, say("problem.one-mark"))
        kinds = {isinstance(mark, SOLID) for mark in self.marks if not isinstance(mark, WORDS)}
        if len(kinds) > 1:
            raise UsageError(self.title, say("problem.marks-space"))
        bars = [mark for mark in self.marks if isinstance(mark, Bars)]
        if any(((self.x if mark.horizontal else self.y).low or 0) > 0 for mark in bars):
            raise UsageError(
                self.title,
                say("problem.bars-zero"),
                hint=say("hint.points"),
            )
        if not (self.only_words or self.shows_chance or self.without_null):
            raise UsageError(
                self.title,
                say("problem.null-mark"),
                hint=say("hint.null-mark"),
            )

    @property
    def only_words(self) -> bool:
        """Whether the panel holds text alone."""
        return all(isinstance(mark, WORDS) for mark in self.marks)

    @property
    def shows_chance(self) -> bool:
        """Whether a null or expectation is drawn."""
        return any(shows_chance(mark) for mark in self.marks)

    @property
    def solid(self) -> bool:
        """Whether the panel is a view of space."""
        return any(isinstance(mark, SOLID) for mark in self.marks)


class Figure(Record, frozen=True, kw_only=True):
    """A title, panels in rows, a note below, and an alt text."""

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    note: str = ""
    alt: str = ""
    """Text that replaces the picture; made from the data if not given."""
    size: float = 0.0
    """Width in inches; 0 leaves it to the number of columns."""

    def __post_init__(self) -> None:
        if not self.panels:
            raise UsageError(self.title, say("problem.one-panel"))
        if self.columns < 1:
            raise UsageError(self.title, say("problem.one-column", got=self.columns))
        if not self.alt:
            from modelkin.document import ENGLISH

            from ._alt import alt_text

            force_setattr(self, "alt", alt_text(self, ENGLISH))

    @property
    def width(self) -> float:
        """Width in inches."""
        return self.size or {1: 7.2, 2: 10.0}.get(min(self.columns, len(self.panels)), 12.6)

    def to_json(self) -> str:
        """Write the description as JSON; `figure_from_json` gives an equal one."""
        from ._json import figure_to_json

        return figure_to_json(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Animation:
    """Figures of one shape, shown one after the other."""

    frames: tuple[Figure, ...]
    seconds: tuple[float, ...]
    """How long each frame is shown."""

    def __post_init__(self) -> None:
        if not self.frames or len(self.frames) != len(self.seconds):
            raise UsageError("Animation", say("problem.frames"))

    @property
    def alt(self) -> str:
        """Text that replaces the moving picture."""
        from modelkin.document import ENGLISH

        from ._alt import alt_of

        return alt_of(self, ENGLISH)
