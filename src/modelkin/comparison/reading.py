"""What the deep stage may read: each step is paid for beforehand; sketches that are needed again are kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from modelkin.comparison.methods import Part, Survey
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

_BATCH_BYTES = 64_000_000
_KEPT_BYTES = 256_000_000
"""Of each model: all layers are compared once more in every map of the residual stream that is tried."""


@dataclass(slots=True)
class Reading:
    """Reads both models of a pair until a number of bytes of either is used up.

    Bytes are counted whether they are stored or not, so that a second run, which finds all of them in the
    store, decides as the first one did.
    """

    models: tuple[Model, Model]
    room: int
    spent: list[int] = field(default_factory=lambda: [0, 0])
    asked: tuple[list[TensorSlice], list[TensorSlice]] = field(default_factory=lambda: ([], []))
    """Everything that was paid for."""
    _kept: tuple[dict[tuple[str, tuple[TensorSlice, ...]], Array | None], ...] = field(
        default_factory=lambda: ({}, {}), repr=False
    )
    _kept_bytes: list[int] = field(default_factory=lambda: [0, 0])

    def pay(self, mine: Sequence[TensorSlice], theirs: Sequence[TensorSlice]) -> bool:
        """Say whether so much may still be read of both; if so, it counts as read."""
        costs = [
            model.plan(slices).bytes_needed for model, slices in zip(self.models, (mine, theirs), strict=True)
        ]
        if any(spent + cost > self.room for spent, cost in zip(self.spent, costs, strict=True)):
            return False
        for side, (cost, slices) in enumerate(zip(costs, (mine, theirs), strict=True)):
            self.spent[side] += cost
            self.asked[side].extend(slices)
        return True

    def pay_survey(self, survey: Survey, *, keep: str = "") -> bool:
        """Pay for the parts of a survey, without those that are kept from an earlier one.

        `keep` names surveys that make the same of the same slices; without a name nothing is kept.
        """
        new = [self._new(side, parts, keep) for side, parts in enumerate((survey.candidate, survey.base))]
        slices = [[item for part in parts for item in part.slices] for parts in new]
        paid = self.pay(slices[0], slices[1])
        if paid and keep:
            for side, parts in enumerate(new):
                self._kept[side].update({(keep, part.slices): None for part in parts})
        return paid

    def read_survey(self, survey: Survey, *, keep: str = "") -> tuple[list[Array], list[Array]]:
        """Read what was paid for."""
        return self.read_parts(0, survey.candidate, keep=keep), self.read_parts(1, survey.base, keep=keep)

    def read_parts(self, side: int, parts: Sequence[Part], *, keep: str = "") -> list[Array]:
        """Read and reduce parts in batches: bytes in flight are bounded, whatever the number of layers."""
        kept = self._kept[side]
        found = {
            number: known
            for number, part in enumerate(parts)
            if (known := kept.get((keep, part.slices))) is not None
        }
        numbers = [number for number in range(len(parts)) if number not in found]
        for number, rows in zip(
            numbers, read_parts(self.models[side], [parts[n] for n in numbers]), strict=True
        ):
            found[number] = rows
            key = keep, parts[number].slices
            if key in kept and self._kept_bytes[side] + rows.nbytes <= _KEPT_BYTES:
                kept[key] = rows
                self._kept_bytes[side] += rows.nbytes
        return [found[number] for number in range(len(parts))]

    def _new(self, side: int, parts: Iterable[Part], keep: str) -> list[Part]:
        return [part for part in parts if self._kept[side].get((keep, part.slices)) is None]


def read_parts(model: Model, parts: Sequence[Part]) -> list[Array]:
    """Read and reduce parts in batches."""
    reduced: list[Array] = []
    for batch in _batches(model, parts):
        arrays = iter(model.read([item for part in batch for item in part.slices]))
        reduced += [part.reduce([next(arrays) for _ in part.slices]) for part in batch]
    return reduced


def _batches(model: Model, parts: Sequence[Part]) -> Iterable[list[Part]]:
    batch: list[Part] = []
    held = 0
    for part in parts:
        n_bytes = model.plan(part.slices).bytes_needed
        if batch and held + n_bytes > _BATCH_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(part)
        held += n_bytes
    if batch:
        yield batch
