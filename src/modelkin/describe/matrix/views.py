"""One tensor, or a part of one, as a flat list of values: which bytes to read, and in what order.

The same values of two models end up in the same places, whatever the layout: parts of fused tensors, experts
in one tensor, tensors stored input-first. The truncation test asks whether a smaller tensor is a part of a
larger one, as pruning would leave it: its first rows (or columns), or the first heads of each group of heads
that share a key, which is what pruning a model with grouped queries keeps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from modelkin.architecture import RoleEntry, Segment
from modelkin.describe.measures import NOTHING
from modelkin.message import Message, say
from modelkin.tensors import Array, Blocks, TensorInfo, TensorSlice, sample_blocks

BLOCK = 16_384
"""Values in a block of a sample: one request of 32 kB in BF16, which usually takes no longer than a smaller
one."""
RUNS = 4
"""Blocks of a larger sample: each is a request, and a Hub counts these. Four blocks of 65,536 values hold as
many rows as sixteen of a quarter that size; more of them lie in one head, which does not affect cosines of
unrelated tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A tensor or a part of it, in stored order."""

    info: TensorInfo
    full: tuple[int, ...]
    """Shape of the stored tensor, or of the one expert that is meant."""
    base: int = 0
    """Number of stored values before it."""
    segment: Segment | None = None
    """Which indices of one axis belong to it; None means all."""
    transposed: bool = False
    """Stored input-first."""
    note: Message = NOTHING
    """What part of the tensor it is."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the part, axes in the order of the file."""
        if self.segment is None:
            return self.full
        axis = self.segment.axis
        return (*self.full[:axis], len(self.segment), *self.full[axis + 1 :])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part, output first."""
        return self.stored_shape[::-1] if self.transposed else self.stored_shape

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.stored_shape)

    def cut(self, segment: Segment, note: Message) -> View:
        """Return the part with these indices of one axis."""
        return replace(self, segment=segment, note=note)

    def chosen(self, *, limit: int, seed: int, key: str, windows: int = 0) -> TensorSlice:
        """Choose what to read: all of it, or blocks at places that depend only on seed, key and shape.

        At most `limit` values are read; with `windows`, it is the length of each window.
        """
        blocks = [(0, self.size)]
        if self.size > limit and windows:
            blocks = published_windows(key, seed=seed, windows=windows, length=limit, size=self.size)
        elif self.size > limit:
            # A tensor hardly larger than the sample would be read whole in long blocks.
            block = min(limit, BLOCK if self.size < 2 * limit else max(BLOCK, limit // RUNS))
            like = replace(self.info, name=key, shape=self.stored_shape)
            sample = sample_blocks(like, n_blocks=limit // block, block_elements=block, seed=seed, key=key)
            assert isinstance(sample.selection, Blocks)
            blocks = [*sample.selection.blocks]
        runs = [run for start, stop in blocks for run in self._stored(start, stop)]
        return TensorSlice.blocks(self.info.name, _joined(runs))

    def ordered(self, values: Array, *, whole: bool) -> Array:
        """Return what was read with outputs first; a sample stays in stored order."""
        if whole and self.transposed:
            return values.reshape(self.stored_shape).T.reshape(-1)
        return values.reshape(-1)

    def _stored(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield stretches of the stored tensor that hold the values from `start` up to `stop`."""
        if self.segment is None:
            yield self.base + start, self.base + stop
            return
        inner = math.prod(self.full[self.segment.axis + 1 :])
        along, ranges = self.full[self.segment.axis], self.segment.ranges()
        begins = np.cumsum([0, *(last - first for first, last in ranges)]).tolist()
        row_size = begins[-1] * inner
        while start < stop:
            row, rest = divmod(start, row_size)
            at = bisect_right(begins, rest // inner) - 1
            inside = rest - begins[at] * inner
            count = min(stop - start, (begins[at + 1] - begins[at]) * inner - inside)
            first = self.base + (row * along + ranges[at][0]) * inner + inside
            yield first, first + count
            start += count


def published_windows(key: str, *, seed: int, windows: int, length: int, size: int) -> list[tuple[int, int]]:
    """Return the places that the published probe of attention weights reads, joined where they overlap.

    A window begins where the first eight bytes of a SHA-256 of name, seed and number point. The probe counts
    a value in two windows twice; here it counts once.

    Examples
    --------
    >>> published_windows("w", seed=0, windows=2, length=10, size=1000)
    [(397, 407), (944, 954)]
    """
    starts = sorted(
        int.from_bytes(sha256(f"{key}|{seed}|{window}".encode()).digest()[:8], "little") % (size - length)
        for window in range(windows)
    )
    found: list[tuple[int, int]] = []
    for start in starts:
        first = max(start, found[-1][1]) if found else start
        if start + length > first:
            found.append((first, start + length))
    return _joined(found)


def view_of(entry: RoleEntry, info: TensorInfo, *, expert: int | None) -> View | Message:
    """Make the view of an entry, or say why there is none."""
    if not info.is_float:
        return say("matrix-format", format=info.dtype)
    note = say("matrix-computed") if entry.fixed else NOTHING
    stacked = bool(entry.axes) and "experts" in entry.axes[0]
    if not stacked or expert is None or len(info.shape) < 3:
        return View(
            info=info,
            full=info.shape,
            segment=entry.segment,
            transposed=_turned(entry, info.shape),
            note=note,
        )
    rest = info.shape[1:]
    if expert >= info.shape[0]:
        return say("matrix-no-expert", expert=expert, n=info.shape[0])
    segment = entry.segment
    return View(
        info=info,
        full=rest,
        base=expert * math.prod(rest),
        segment=None if segment is None else replace(segment, axis=segment.axis - 1),
        transposed=_turned(entry, rest),
        note=note,
    )


def _turned(entry: RoleEntry, shape: tuple[int, ...]) -> bool:
    return entry.transposed and len(shape) == 2


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, stop in runs:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A way to cut a larger tensor to the shape of a smaller one."""

    name: str
    """``prefix`` or ``groups``."""
    segment: Segment
    note: Message


def truncations(
    small: View,
    large: View,
    *,
    spaces: tuple[tuple[str, ...], ...],
    small_sizes: Mapping[str, int],
    large_sizes: Mapping[str, int],
) -> Iterator[Truncation] | Message:
    """Return the ways to cut `large` to the shape of `small`, or why there is none.

    `spaces` says what the axes of the larger tensor are; the sizes of both models have their numbers of
    heads.
    """
    if large.segment is not None or small.transposed != large.transposed:
        return say("matrix-not-cut-fused")
    mine, theirs = small.stored_shape, large.stored_shape
    different = [axis for axis, sizes in enumerate(zip(mine, theirs, strict=False)) if sizes[0] != sizes[1]]
    if len(mine) != len(theirs) or len(different) != 1:
        return say("matrix-not-cut-axes")
    axis = different[0]
    return _truncations(axis, mine[axis], theirs[axis], _groups(spaces[axis], small_sizes, large_sizes))


def _truncations(
    axis: int, mine: int, theirs: int, groups: tuple[int, int, int] | None
) -> Iterator[Truncation]:
    note = say("matrix-first-rows" if axis == 0 else "matrix-first-columns", n=mine, m=theirs)
    whole = Segment(axis=axis, offset=0, length=mine, stride=mine, n_groups=1)
    yield Truncation(name="prefix", segment=whole, note=note)
    if groups is None:
        return
    n_groups, kept, there = groups
    length, stride = mine // n_groups, theirs // n_groups
    if n_groups > 1 and length * there == stride * kept:
        segment = Segment(axis=axis, offset=0, length=length, stride=stride, n_groups=n_groups)
        note = say("matrix-first-heads", n=kept, m=there, groups=n_groups)
        yield Truncation(name="groups", segment=segment, note=note)


def _groups(
    spaces: tuple[str, ...], small: Mapping[str, int], large: Mapping[str, int]
) -> tuple[int, int, int] | None:
    """Return the number of groups, and heads per group in both models; None if that makes no sense."""
    n_groups = large.get("kv_heads", 0)
    heads = small.get("heads", 0), large.get("heads", 0)
    if spaces[:1] != ("heads",) or not n_groups or small.get("kv_heads") != n_groups:
        return None
    if heads[0] % n_groups or heads[1] % n_groups or not heads[0] or heads[0] == heads[1]:
        return None
    return n_groups, heads[0] // n_groups, heads[1] // n_groups
