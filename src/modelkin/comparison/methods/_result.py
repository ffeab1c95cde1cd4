"""What a method found: a test, an agreement, a contrast of layers, values of equal name; or why not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias, TypedDict

from modelkin.message import Message

Status = Literal["ok", "skipped"]
LOG10_ALPHA = -8.0
"""What one test must reach for a verdict: 10^-6, corrected for a hundred tests, components and stages."""
FEW_ORDERS = "few-orders"
"""Flag of a test that could not have reached that whatever the data: units have too few orders."""
ORDERED = frozenset({"sorted", "duplicated-blocks", "shift-dispersion"})
"""Flags of tests whose units are in an order that is not arbitrary: at most shifts of it count, which are too
few for any finding."""
HEADS_ALIKE = "heads-alike"
"""Flag of a test of heads that were found again without being the same: whoever has learned the same
coordinates has such heads too."""
EQUAL_VALUES = "equal-values"
"""Flag of a test whose values are all equal, bit for bit."""
CLAIMED = -3.0
"""log10 p from which a test claims something that the same units of other layers may explain."""
SINGLE_LAYER = "single-layer"
"""Flag of a test that claims something where no second pair of different layers was read: a recipe that
begins all layers alike would not be recognised."""
LEVEL = 0.99
"""Of intervals of effects."""
_FOUND, _NOT_FOUND = -6.0, -3.0
"""log10 p where a test finds something, and where it does not."""
Details = Mapping[str, float | int | str | Message]
"""What people are shown with the numbers; no code reads it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Excess cosine on the diagonal: 0 is chance, 1 is identical. With its interval."""

    value: float
    low: float
    high: float
    level: float = LEVEL
    """Share of repetitions in which the interval contains the true value."""


class Where(TypedDict, total=False):
    """Parts of two models that a finding is about; see `_Examined`."""

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
class _Examined:
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
    """Layers of the base that they were compared with, if not those of the same number."""
    frame: str = "identity"
    """Coordinates of the residual stream it was made in: the original ones, or mapped by an alignment."""
    null: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested(_Examined):
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
    """Whether only the square of a cosine is meaningful, so that the effect is never far below zero."""
    reordered: bool = False
    """Whether it holds although units were renumbered."""
    flags: tuple[str, ...] = ()
    """Signs that the order of units is not arbitrary, by name."""
    details: Details = field(default_factory=dict)

    def flagged(self, name: str) -> Tested:
        """Return the test with one more flag."""
        return replace(self, flags=(*self.flags, name))

    def at_most(self, log10_p: float, *, chosen_from: int, flag: str, alone: str) -> Tested:
        """Return the test with no more than what is left of it when something else is accounted for.

        `chosen_from` is out of how many tests it was chosen. It is flagged with `flag`; or with `alone`, if
        the test found something of which nothing is left.
        """
        left = min(0.0, log10_p + math.log10(chosen_from))
        nothing_left = self.log10_p < _FOUND and left > _NOT_FOUND
        return replace(
            self.flagged(alone if nothing_left else flag),
            log10_p=max(self.log10_p, left),
            log10_p_extrapolated=None,
            detection_limit=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """How an agreement ranks among those of pairs with unrelated models."""

    log10_p: float
    control_pairs: int
    largest_control: float
    packaged_pairs: int = 0
    """How many of the pairs include a model that comes with the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(_Examined):
    """How many units two matchings agree on: it has no null of its own, so controls show what chance does."""

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = False

    statistic: float
    effect: Effect
    n: int
    rank: Rank | None = None
    """None until it was compared with controls."""
    details: Details = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatched:
    """How much layers that do not face each other agree, in the same two models and coordinates."""

    n_pairs: int
    """Pairs of layers that were measured."""
    largest: float
    """Largest share of units that agree in one of them."""
    limit: float
    """Upper confidence limit of that share: what is taken for chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast(_Examined):
    """How many units agree in two layers that face each other, compared with layers that do not.

    Calibrated on the pair's own layers. Not exact: it assumes that unrelated models agree in facing layers
    about as rarely as in mismatched ones, and `null` says so.
    """

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = False

    statistic: float
    """Share of units that agree."""
    log10_p: float
    """Binomial tail with the limit of mismatched layers as chance, corrected for the two folds of layers and
    for the pairs of layers that this one was chosen from; not for the other layers of the component."""
    effect: Effect
    """The share that agrees, with its interval."""
    n: int
    n_matched: int
    """Units that agree."""
    mismatched: Mismatched
    rank: Rank | None = None
    """Among pairs with unrelated models of the caller; None if there are none."""
    archive: Rank | None = None
    """Among the packaged measurements of unrelated pairs; None if none is comparable."""
    could_agree: float = 1.0
    """Largest share of units that can agree: less where some of their partners were not read."""
    same_numbers: float | None = None
    """Share of units that hold exactly the numbers of a unit of the other layer, in another order; None if
    that was not counted, or if strangers could have the same numbers."""
    details: Details = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness(_Examined):
    """How alike the values of two tensors of equal name are: not a test, as their purpose is unknown."""

    status: ClassVar[Status] = "ok"
    exact: ClassVar[bool] = False

    n: int
    """Values that were compared."""
    share_equal: float
    cosine: float | None = None
    pearson: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(_Examined):
    """A test that was not made, with the reason."""

    status: ClassVar[Status] = "skipped"

    exact: bool
    """Whether the test would have been exact."""
    reason: Message


Evidence: TypeAlias = Tested | Agreement | Contrast | Likeness | Skipped
