"""Where shared tokens are in both tables: equal ids, shifts, runs, order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.stats.ranks import spearman

from ._classes import shown

Ids = npt.NDArray[np.int64]

FIRST = 1000
"""The first ids, which are compared row by row: as many as of merges."""
_TABLE = 20
"""Rows of them that a report shows."""
_TOP_SHIFTS = 10
"""Shifts that are listed, most frequent first: the published table has as many."""
_SAMPLES = 8
"""Tokens of a run that are shown."""
_NEAR = 100
"""Ids that differ by at most this count as close; results name the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Neighbouring ids that stand for the same tokens in both, at one shift."""

    length: int
    candidate_start: int
    base_start: int
    shift: int
    """Candidate's id minus base's id."""
    single_bytes: int
    """Tokens of the run that are one byte: the 256 bytes come in a fixed order in many tokenizers."""
    words: int
    """The others."""
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRow:
    """One id in both tables."""

    id: int
    candidate: str | None
    base: str | None
    equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IdComparison:
    """The order of two vocabularies, over the tokens that both have."""

    shared: int
    same_id: int
    within_100: int
    """Shared tokens whose ids differ by at most 100."""
    n_shifts: int
    """Number of distinct shifts (candidate's id minus base's)."""
    shifts: tuple[tuple[int, int], ...]
    """The most common shifts: (shift, tokens)."""
    longest_run: Run | None
    first_1000_equal: int
    """Ids below 1000 that stand for the same token in both."""
    first_1000_at_shift: int
    """Ids of the base below 1000 whose token is at the most common shift in the candidate."""
    spearman: float | None
    """Rank correlation of ids; None below 3 shared tokens."""
    first_rows: tuple[IdRow, ...]
    """The first ids side by side."""


def compare_ids(candidate: Mapping[bytes, int], base: Mapping[bytes, int]) -> IdComparison:
    """Compare ids of the tokens that both vocabularies have, in the order of the base."""
    both = sorted(candidate.keys() & base.keys(), key=lambda token: (base[token], token))
    mine = np.fromiter((candidate[token] for token in both), np.int64, len(both))
    theirs = np.fromiter((base[token] for token in both), np.int64, len(both))
    difference = mine - theirs
    values, counts = np.unique(difference, return_counts=True)
    # Largest count first; among equals the smaller shift, so that the answer does not depend on a sort.
    order = np.lexsort((np.abs(values), -counts))[:_TOP_SHIFTS]
    shifts = tuple((int(values[i]), int(counts[i])) for i in order)
    rows = _first_rows(candidate, base)
    return IdComparison(
        shared=len(both),
        same_id=int(np.count_nonzero(difference == 0)),
        within_100=int(np.count_nonzero(np.abs(difference) <= _NEAR)),
        n_shifts=len(values),
        shifts=shifts,
        longest_run=_longest_run(both, mine, theirs),
        first_1000_equal=sum(row.equal for row in rows),
        first_1000_at_shift=int(np.count_nonzero((theirs < FIRST) & (difference == shifts[0][0])))
        if shifts
        else 0,
        spearman=rank_correlation(mine, theirs),
        first_rows=rows[:_TABLE],
    )


def rank_correlation(left: Ids, right: Ids) -> float | None:
    """Return the rank correlation; None where it is not defined."""
    if len(left) < 3 or any(np.ptp(ids) == 0 for ids in (left, right)):
        return None
    return spearman(left, right)


def _longest_run(both: list[bytes], mine: Ids, theirs: Ids) -> Run | None:
    if not both:
        return None
    breaks = np.flatnonzero((np.diff(mine) != 1) | (np.diff(theirs) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    lengths = np.diff(np.concatenate((starts, [len(both)])))
    best = int(np.argmax(lengths))
    start, length = int(starts[best]), int(lengths[best])
    tokens = both[start : start + length]
    return Run(
        length=length,
        candidate_start=int(mine[start]),
        base_start=int(theirs[start]),
        shift=int(mine[start] - theirs[start]),
        single_bytes=(singles := sum(len(token) == 1 for token in tokens)),
        words=length - singles,
        sample=tuple(shown(token) for token in tokens[:_SAMPLES]),
    )


def _first_rows(candidate: Mapping[bytes, int], base: Mapping[bytes, int]) -> tuple[IdRow, ...]:
    tables = []
    for vocabulary in (candidate, base):
        found: dict[int, bytes] = {}
        for token, number in vocabulary.items():
            if number < FIRST:
                found.setdefault(number, token)
        tables.append(found)
    rows = []
    for number in range(FIRST):
        left, right = (table.get(number) for table in tables)
        rows.append(
            IdRow(
                id=number,
                candidate=None if left is None else shown(left),
                base=None if right is None else shown(right),
                equal=left is not None and left == right,
            )
        )
    return tuple(rows)
