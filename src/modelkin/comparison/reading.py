"""The one executor of probes: each is priced, then read and evaluated; a rehearsal only prices them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np

from modelkin.comparison.methods import Part, Probe
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

_BATCH_BYTES = 64_000_000
"""Bytes of parts that are read and reduced together; meanwhile they exist as bytes and as numbers of twice
the size."""
_KEPT_BYTES = 256_000_000
"""Per model, for what probes keep."""
_Found = TypeVar("_Found")
_Item = TypeVar("_Item")
Kept: TypeAlias = dict[tuple[str, tuple[TensorSlice, ...]], Array | None]
"""What probes keep, by their name for it and the slices; None if it is paid for, and not read yet."""
_REHEARSED: Array = np.empty(0, np.float32)
"""What stands for numbers that an earlier stage would have read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A dry run: records what would be read, and reads nothing.

    Which way a comparison takes depends on what it finds. As nothing is found, the costlier way is taken;
    where either may be costlier, the rehearsal says which.
    """

    reordered: bool = False
    """Whether units are assumed to be reordered, in the same coordinates."""
    passes: tuple[list[list[TensorSlice]], list[list[TensorSlice]]] = field(default_factory=lambda: ([], []))
    """What would be read of candidate and base, pass by pass: ranges are joined within a pass."""
    differences: tuple[list[TensorSlice], list[TensorSlice]] = field(default_factory=lambda: ([], []))
    """What would be read of candidate and base beyond that, if they turn out to be relatives."""
    rooms: list[int] = field(default_factory=list)
    """Byte allowances that were too small for everything, one entry per occurrence."""

    @property
    def asked(self) -> tuple[list[TensorSlice], list[TensorSlice]]:
        """Return everything that would be read of candidate and base, except differences of relatives."""
        mine, theirs = ([item for each in side for item in each] for side in self.passes)
        return mine, theirs

    def note(self, candidate: Iterable[TensorSlice], base: Iterable[TensorSlice]) -> None:
        """Record one pass over both models."""
        for side, slices in zip(self.passes, (candidate, base), strict=True):
            side.append(list(slices))


@dataclass(slots=True)
class Reading:
    """Reads probes of both models of a pair, until the byte allowance of either is used up.

    Bytes count whether or not they are stored, so that a second run, which finds all of them in the store,
    decides as the first one did.
    """

    models: tuple[Model, Model]
    room: int
    rehearsal: Rehearsal | None = None
    max_waste: float | None = None
    """Share of unneeded bytes that joining ranges may add; they count too."""
    spent: list[int] = field(default_factory=lambda: [0, 0])
    kept: InitVar[tuple[Kept, Kept] | None] = None
    """What earlier stages have read; it is not read again."""
    _kept: tuple[Kept, Kept] = field(default_factory=lambda: ({}, {}), repr=False)
    _kept_bytes: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self, kept: tuple[Kept, Kept] | None) -> None:
        for held, known in zip(self._kept, kept or ({}, {}), strict=True):
            held.update(known)

    @property
    def left(self) -> int:
        """Bytes that may still be read of the model with more bytes read."""
        return max(0, self.room - max(self.spent))

    def run(self, probe: Probe[_Found]) -> _Found | None:
        """Charge, read and evaluate a probe; None if too few bytes are left, or nothing is read."""
        return self.read(probe) if self.pay(probe) else None

    def pay(self, *probes: Probe[_Found]) -> bool:
        """Say whether this much may still be read of both models; if so, charge it."""
        new = [[self._new(side, probe) for probe in probes] for side in (0, 1)]
        slices = [[item for parts in side for part in parts for item in part.slices] for side in new]
        costs = [
            model.cost(wanted, max_waste=self.max_waste)
            for model, wanted in zip(self.models, slices, strict=True)
        ]
        if any(spent + cost > self.room for spent, cost in zip(self.spent, costs, strict=True)):
            if self.rehearsal is not None:
                self.rehearsal.rooms.append(self.room)
            return False
        if self.rehearsal is not None:
            self._rehearse(new)
        for side, cost in enumerate(costs):
            self.spent[side] += cost
            for probe, parts in zip(probes, new[side], strict=True):
                if probe.keep:
                    self._kept[side].update({(probe.keep, part.slices): None for part in parts})
        return True

    def _rehearse(self, sides: list[list[list[Part]]]) -> None:
        """Record the passes in which parts would be read."""
        assert self.rehearsal is not None
        for model, probes, passes in zip(self.models, sides, self.rehearsal.passes, strict=True):
            for parts in probes:
                batches = _batches(model, parts, self.max_waste)
                passes += [[item for part in batch for item in part.slices] for batch in batches]

    def read(self, probe: Probe[_Found]) -> _Found | None:
        """Read and evaluate a probe that was charged; None in a rehearsal."""
        if self.rehearsal is not None:
            return None
        return probe.evaluate(
            self._read_parts(0, probe.candidate, probe.keep), self._read_parts(1, probe.base, probe.keep)
        )

    def _read_parts(self, side: int, parts: Sequence[Part], keep: str) -> list[Array]:
        kept = self._kept[side]
        found = {
            number: known
            for number, part in enumerate(parts)
            if (known := kept.get((keep, part.slices))) is not None
        }
        numbers = [number for number in range(len(parts)) if number not in found]
        for number, rows in zip(
            numbers,
            read_parts(self.models[side], [parts[n] for n in numbers], max_waste=self.max_waste),
            strict=True,
        ):
            found[number] = rows
            key = keep, parts[number].slices
            if key in kept and self._kept_bytes[side] + rows.nbytes <= _KEPT_BYTES:
                kept[key] = rows
                self._kept_bytes[side] += rows.nbytes
        return [found.pop(number) for number in range(len(parts))]

    def forget(self) -> None:
        """Release what probes keep, once none of them will be read again."""
        for side, kept in enumerate(self._kept):
            kept.clear()
            self._kept_bytes[side] = 0

    def _new(self, side: int, probe: Probe[_Found]) -> list[Part]:
        parts = (probe.candidate, probe.base)[side]
        return [part for part in parts if self._kept[side].get((probe.keep, part.slices)) is None]


def price(
    models: tuple[Model, Model], probes: Sequence[Probe[_Found]], *, max_waste: float | None = None
) -> int:
    """Return how many bytes probes cost together, for the costlier model."""
    sides = zip(models, _slices(probes), strict=True)
    return max(model.cost(slices, max_waste=max_waste) for model, slices in sides)


def read_together(
    models: tuple[Model, Model],
    probes: Sequence[Probe[_Found]],
    rehearsal: Rehearsal | None = None,
    *,
    max_waste: float | None = None,
) -> Iterator[tuple[Probe[_Found], list[Array], list[Array]]]:
    """Read small probes in one pass over each model, side by side; yield what to evaluate."""
    wanted = _slices(probes)
    if rehearsal is not None:
        rehearsal.note(*wanted)
        return
    with ThreadPoolExecutor(len(models)) as pool:
        read = pool.map(lambda model, slices: model.read(slices, max_waste=max_waste), models, wanted)
        mine, theirs = map(iter, read)
    for probe in probes:
        yield (
            probe,
            [part.reduce([next(mine) for _ in part.slices]) for part in probe.candidate],
            [part.reduce([next(theirs) for _ in part.slices]) for part in probe.base],
        )


def kept_of(probe: Probe[_Found], read: tuple[Sequence[Array], Sequence[Array]] | None) -> tuple[Kept, Kept]:
    """Return what a probe keeps for later stages; of one that is only rehearsed, stand-ins."""
    kept: tuple[Kept, Kept] = {}, {}
    for side, parts in enumerate((probe.candidate, probe.base) if probe.keep else ()):
        arrays = [_REHEARSED] * len(parts) if read is None else read[side]
        kept[side].update(((probe.keep, part.slices), rows) for part, rows in zip(parts, arrays, strict=True))
    return kept


def _slices(probes: Iterable[Probe[_Found]]) -> tuple[list[TensorSlice], list[TensorSlice]]:
    listed = list(probes)
    return (
        [item for probe in listed for part in probe.candidate for item in part.slices],
        [item for probe in listed for part in probe.base for item in part.slices],
    )


def read_parts(model: Model, parts: Sequence[Part], *, max_waste: float | None = None) -> list[Array]:
    """Read and reduce parts in batches: bytes in flight are bounded, whatever the number of layers."""
    reduced: list[Array] = []
    for batch in _batches(model, parts, max_waste):
        arrays = iter(model.read([item for part in batch for item in part.slices], max_waste=max_waste))
        reduced += [part.reduce([next(arrays) for _ in part.slices]) for part in batch]
    return reduced


def _batches(model: Model, parts: Sequence[Part], max_waste: float | None) -> Iterator[list[Part]]:
    return in_batches(parts, lambda part: model.cost(part.slices, max_waste=max_waste))


def in_batches(items: Iterable[_Item], n_bytes: Callable[[_Item], int]) -> Iterator[list[_Item]]:
    """Divide what is read into batches of bounded size, or of one item."""
    batch: list[_Item] = []
    held = 0
    for item in items:
        size = n_bytes(item)
        if batch and held + size > _BATCH_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += size
    if batch:
        yield batch
