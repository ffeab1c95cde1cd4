"""Two sets and what they share: tokens, merges, added tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many things both sides have, and the shares that follow from it (None of nothing)."""

    candidate: int
    """Different things of the candidate."""
    base: int
    shared: int
    only_candidate: int
    only_base: int
    union: int
    jaccard: float | None
    """Shared of the union."""
    of_candidate: float | None
    """Share of the candidate's that the base has."""
    of_base: float | None
    of_smaller: float | None
    """Share of the smaller set that the larger has."""


def overlap(*, candidate: int, base: int, shared: int) -> Overlap:
    """Work out all shares from three counts.

    Examples
    --------
    >>> overlap(candidate=10, base=4, shared=2).of_smaller
    0.5
    """
    union = candidate + base - shared
    return Overlap(
        candidate=candidate,
        base=base,
        shared=shared,
        only_candidate=candidate - shared,
        only_base=base - shared,
        union=union,
        jaccard=_share(shared, union),
        of_candidate=_share(shared, candidate),
        of_base=_share(shared, base),
        of_smaller=_share(shared, min(candidate, base)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
