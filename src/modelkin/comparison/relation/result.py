"""What became of each tensor, and what that says about the kind of kinship, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from modelkin.message import Message

Side = Literal["candidate", "base"]
Word = Literal[
    "equal",
    "rounded",
    "rescaled",
    "mixed",
    "turned",
    "scaled",
    "edited",
    "quantised",
    "sparse",
    "noise",
    "low-rank",
    "trained",
    "changed",
    "unlike",
]
"""What became of one tensor. ``rescaled``: equal except for factors of rows and columns. ``mixed``: equal
except for mixtures inside of heads. ``turned``: equal but for a rotation of the residual stream. ``scaled``:
equal except for factors or mixtures that no other tensor takes back. ``edited``: equal except for a few
numbers, which were changed by much. ``trained``: changed in a way that has
structure and more directions than few. ``changed``: of gains and biases, which have no directions, and of
matrices that changed by too much to say how. ``unlike``: what faces it is no more like it than chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChange:
    """What became of one tensor, in numbers over the compared values."""

    tensor: str
    base_tensor: str
    role: str
    component: str
    layer: int | None
    base_layer: int | None
    expert: int | None
    dtype: str
    base_dtype: str
    values: int
    """Values that were compared."""
    whole: bool
    """Whether these are all of it."""
    what: Word
    share_equal: float
    share_within_a_step: float
    """At most one step of the coarser stored format apart."""
    relative_change: float
    """Size of the difference over the size of the base: 0 is equal, 1.41 is what strangers have."""
    change_in_steps: float
    """Size of the difference over the size of a step of the stored format: below about 0.5 most of what
    training did cannot be seen, since it did not move a number to the next one that can be stored."""
    resolution: float
    """Size of a step over the size of the numbers: changes below half of it are lost in storage."""
    cosine: float | None
    """Of the centred values; None if one side is constant."""
    zeros: float
    """Share of zeros in the candidate."""
    base_zeros: float
    two_of_four: float | None
    """Share of groups of four in a line with at least two zeros; None if lines do not divide into fours."""
    kept_equal: float | None
    """Share of non-zero numbers, of the side with more zeros, that equal the other's; None if it has none."""
    rank: int | None
    """Directions of the difference after which only rounding is left; None if too many or not asked."""
    rank_most: int | None
    left_in_steps: float | None
    """What is left after these directions, in units of what rounding leaves."""
    over_chance: float | None
    """Largest singular value of the difference over that of the same numbers with random signs."""
    over_marchenko_pastur: float | None
    bits: int | None
    """Bits of the levels that the numbers of one side lie on, the candidate's if both do; None if there are
    none."""
    group: int | None
    levels: str | None
    """``ternary``, ``symmetric``, ``asymmetric``, ``table`` or ``float``."""
    reordered: bool
    """Whether rows or columns were first put into the base's order."""
    refitted: bool
    """Whether factors of rows and columns, or mixtures within heads, were undone first."""
    lost_in: Side | None = None
    """The side that lost numbers to levels or zeros which the other one still has; None if neither did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFinding:
    """One thing that the differences say, the numbers that decided it, and what it leaves open."""

    kind: str
    what: Message
    numbers: Mapping[str, float | int | str]
    cannot_tell: Message
