"""From what is wanted to what is requested: join near ranges, split long ones, know the cost beforehand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.options import KIB, MIB

from ._ranges import ByteRange, merged, split, total_length

FREE_WASTE = 64 * KIB
"""A plan may always waste this much by joining: a request costs more on any line."""
SHORTEST_PIECE = 1 * MIB
"""Below this, splitting a range over more connections costs more than it gains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePlan:
    """Requests that get the wanted bytes, and what they cost. This is what ``--dry-run`` shows."""

    requests: tuple[tuple[str, ByteRange], ...]
    """(file, range), one for each request to come."""
    bytes_needed: int
    """Bytes that were asked for, each counted once."""
    bytes_stored: int = 0
    """Of these, bytes that need no request because they are stored."""

    @property
    def bytes_to_fetch(self) -> int:
        """Bytes the requests will bring."""
        return sum(item.length for _, item in self.requests)

    @property
    def n_requests(self) -> int:
        """Number of range requests."""
        return len(self.requests)

    @property
    def files(self) -> tuple[str, ...]:
        """Files that will be touched."""
        return tuple(sorted({file for file, _ in self.requests}))


def plan_requests(
    missing: Mapping[str, list[ByteRange]],
    *,
    max_gap: int,
    max_waste: float,
    piece_bytes: int,
    connections: int,
) -> tuple[tuple[str, ByteRange], ...]:
    """Turn missing ranges into requests.

    Gaps are closed smallest first, while the bytes read in vain stay within `max_waste` of the bytes needed
    (or `FREE_WASTE`). Long ranges are cut so that all connections get an equal share.
    """
    ranges = {file: merged(items) for file, items in missing.items()}
    needed = sum(total_length(items) for items in ranges.values())
    gap = _affordable_gap(ranges, max_gap=max_gap, allowance=max(max_waste * needed, FREE_WASTE))
    joined = {file: merged(items, gap=gap) for file, items in ranges.items()}
    total = sum(total_length(items) for items in joined.values())
    rounds = max(1, math.ceil(total / (connections * piece_bytes)))
    piece = min(piece_bytes, max(SHORTEST_PIECE, math.ceil(total / (connections * rounds))))
    return tuple(
        (file, part) for file in sorted(joined) for item in joined[file] for part in split(item, piece=piece)
    )


def _affordable_gap(ranges: Mapping[str, list[ByteRange]], *, max_gap: int, allowance: float) -> int:
    """Return the largest gap such that closing all gaps up to it stays within the allowance."""
    gaps = sorted(
        right.start - left.stop
        for items in ranges.values()
        for left, right in itertools.pairwise(items)
        if right.start - left.stop <= max_gap
    )
    spent, best = 0, 0
    for position, gap in enumerate(gaps):
        spent += gap
        if spent > allowance:
            break
        # Equal gaps stand or fall together: closing "all gaps up to this one" must be affordable.
        if position + 1 == len(gaps) or gaps[position + 1] != gap:
            best = gap
    return best
