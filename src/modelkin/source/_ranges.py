"""Byte ranges and their algebra: merge, subtract, split. Pure numbers; nothing here reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


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
        """Say whether `other` lies wholly inside this range."""
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
    """Return what of `ranges` is not in `covered`, merged and sorted."""
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
