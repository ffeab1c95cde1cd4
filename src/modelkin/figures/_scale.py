"""Colour scales that do not mislead: stated limits, signed values centred on what chance gives."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from modelkin.errors import UsageError
from modelkin.message import phrase, say

from ._record import Record
from .values import known, numbers

CHANCE = phrase("figure.chance")


class Scale(Record, frozen=True, kw_only=True):
    """From which value to which value the colours run."""

    kind: Literal["signed", "sequential"]
    low: float
    high: float
    label: str
    chance: float | None = None
    """The value that chance gives, marked on the colour bar. A signed scale is centred on it."""
    chance_label: str = CHANCE

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise UsageError("Scale", say("problem.low-high", low=self.low, high=self.high))
        if self.kind == "signed":
            centre = self.chance if self.chance is not None else 0.0
            if not math.isclose(self.high - centre, centre - self.low, rel_tol=1e-9, abs_tol=1e-12):
                raise UsageError("Scale", say("problem.signed-scale", centre=centre))


def signed_scale(
    values: Iterable[float | None],
    *,
    label: str,
    centre: float = 0.0,
    limit: float | None = None,
    chance_label: str = CHANCE,
) -> Scale:
    """Make a scale centred on what chance gives; without `limit` it reaches the farthest value."""
    reach = limit or max((abs(value - centre) for value in known(numbers(values))), default=0.0) or 1.0
    return Scale(
        kind="signed",
        low=centre - reach,
        high=centre + reach,
        label=label,
        chance=centre,
        chance_label=chance_label,
    )


def sequential_scale(
    values: Iterable[float | None],
    *,
    label: str,
    low: float | None = None,
    high: float | None = None,
    chance: float | None = None,
    chance_label: str = CHANCE,
) -> Scale:
    """Make a scale from the smallest to the largest value unless told otherwise."""
    cells = known(numbers(values)) or [0.0, 1.0]
    first = min(cells) if low is None else low
    last = max(cells) if high is None else high
    if first == last:
        last = first + 1.0
    return Scale(
        kind="sequential", low=first, high=last, label=label, chance=chance, chance_label=chance_label
    )
