"""What a method found. A test, an agreement of units, values of equal name; or why there is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, TypedDict

from modelkin.message import Message

Status = Literal["ok", "skipped"]
Details = Mapping[str, float | int | str | Message]
"""What is shown to people beside the numbers; no code reads it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Excess cosine on the diagonal: 0 is chance, 1 is identical. With its interval."""

    value: float
    low: float
    high: float
    level: float = 0.99
    """Share of repetitions in which the interval holds the true value."""


class Where(TypedDict, total=False):
    """Parts of two models that a finding is about; see `_Finding`."""

    component: str
    role: str | None
    layers: tuple[int, ...]
    base_layers: tuple[int, ...]
    frame: str


class FindingHeading(Where):
    """What every finding of a method begins with."""

    method: str
    version: str
    axis: str
    null: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """Which parts of two models a method looked at."""

    method: str
    version: str
    component: str
    axis: str
    """The space whose order was tested."""
    role: str | None = None
    layers: tuple[int, ...] = ()
    """Layers of the candidate; empty for what is outside the layers."""
    base_layers: tuple[int, ...] = ()
    """Layers of the base that they were compared with, where these are not the ones of equal number."""
    frame: str = "identity"
    """Coordinates of the residual stream in which it was made: as they are, or mapped by an alignment."""
    null: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested(_Finding):
    """A test with an exact null."""

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = True

    statistic: float
    log10_p: float
    """Rigorous: corrected for the parts of the test, never below what they can support."""
    effect: Effect
    n: int
    n_matched: int
    """Units whose best match is the unit of the same number."""
    z: float | None = None
    """None for a test of the order of matches, whose p-value is a count."""
    log10_p_extrapolated: float | None = None
    """Normal tail of z; an extrapolation beyond what permutations can show."""
    n_features: int | None = None
    detection_limit: float | None = None
    """Smallest effect that this test finds with 99.9 % power."""
    sign_free: bool = False
    """Whether only the square of a cosine means something, so that the effect is never far below zero."""
    reordered: bool = False
    """Whether it holds although units have other numbers."""
    flags: tuple[str, ...] = ()
    """What speaks against an arbitrary order of units, by name."""
    details: Details = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Where an agreement stands among those of pairs with unrelated models."""

    log10_p: float
    control_pairs: int
    largest_control: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(_Finding):
    """How many units two matchings agree on: without a null of its own, so controls show what is chance."""

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = False

    statistic: float
    effect: Effect
    n: int
    rank: Rank | None = None
    """None until it was held against controls."""
    details: Details = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness(_Finding):
    """How alike the values of two tensors of equal name are: no test, as nobody knows what they are for."""

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = False

    n: int
    """Values that were compared."""
    share_equal: float
    cosine: float | None = None
    pearson: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_Finding):
    """A test that was not made, with the reason."""

    status: ClassVar[Status] = "skipped"

    exact: bool
    """Whether the test would have been exact."""
    reason: Message


Evidence: TypeAlias = Tested | Agreement | Likeness | Skipped
