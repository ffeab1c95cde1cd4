"""Byte ranges, and the requests that read them: close ones joined, long ones split, at a known cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelkin.options import KIB, MIB


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """The half-open range of bytes from `start` up to, not including, `stop`."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"a byte range needs 0 <= start <= stop, got {self.start}..{self.stop}")

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.start}-{self.stop}"

    def contains(self, other: ByteRange) -> bool:
        """Say whether `other` lies entirely inside this range."""
        return self.start <= other.start and other.stop <= self.stop

    def clipped(self, stop: int) -> ByteRange:
        """Return this range cut at `stop`."""
        return ByteRange(min(self.start, stop), min(self.stop, stop))


def merged(ranges: Iterable[ByteRange], *, gap: int = 0) -> list[ByteRange]:
    """Join ranges that overlap, touch, or lie at most `gap` bytes apart; sorted, empty ones dropped."""
    result: list[ByteRange] = []
    for item in sorted(r for r in ranges if r.length):
        if result and item.start - result[-1].stop <= gap:
            result[-1] = ByteRange(result[-1].start, max(result[-1].stop, item.stop))
        else:
            result.append(item)
    return result


def subtracted(ranges: Iterable[ByteRange], covered: Iterable[ByteRange]) -> list[ByteRange]:
    """Return the parts of `ranges` that are not in `covered`, merged and sorted."""
    holes: list[ByteRange] = []
    cover = merged(covered)
    first = 0
    for item in merged(ranges):
        position = item.start
        while first < len(cover) and cover[first].stop <= position:
            first += 1
        for block in cover[first:]:
            if block.start >= item.stop:
                break
            if block.start > position:
                holes.append(ByteRange(position, block.start))
            position = max(position, block.stop)
        if position < item.stop:
            holes.append(ByteRange(position, item.stop))
    return holes


def split(item: ByteRange, *, piece: int) -> Iterator[ByteRange]:
    """Cut one range into consecutive pieces of at most `piece` bytes."""
    for start in range(item.start, item.stop, piece):
        yield ByteRange(start, min(start + piece, item.stop))


def total_length(ranges: Iterable[ByteRange]) -> int:
    """Sum of the lengths."""
    return sum(item.length for item in ranges)


FREE_WASTE = 64 * KIB
"""A plan may always waste this much by joining: on any connection a request costs more."""
SHORTEST_PIECE = 1 * MIB
"""Below this, splitting a range over more connections costs more than it gains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BytePlan:
    """Requests that get the wanted bytes, and what they cost. This is what ``--dry-run`` shows."""

    requests: tuple[tuple[str, ByteRange], ...]
    """(file, range), one for each planned request."""
    bytes_needed: int
    """Bytes that were asked for, each counted once."""
    bytes_stored: int = 0
    """Of these, bytes that need no request because they are stored."""

    @property
    def bytes_to_fetch(self) -> int:
        """Bytes the requests will fetch."""
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
    missing: Mapping[str, Sequence[ByteRange]],
    *,
    max_gap: int,
    max_waste: float,
    piece_bytes: int,
    connections: int,
) -> tuple[tuple[str, ByteRange], ...]:
    """Turn missing ranges into requests.

    Gaps are closed smallest first, while the wasted bytes stay within `max_waste` of the bytes needed
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
