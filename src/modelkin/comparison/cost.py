"""What a comparison costs at most, and about how long it takes: known before a tensor is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelkin.comparison.claims import CARD_FILES, MAX_CARD_BYTES
from modelkin.comparison.identity import walks_at_most
from modelkin.comparison.names import names_alone
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.positions import table_bytes
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.tokens import pairing_bytes, summary_bytes
from modelkin.model import Model
from modelkin.options import Depth
from modelkin.source import FREE_WASTE, BytePlan

_CHECKS = 40
"""How often a table of positions may be read: once for each plan, and once at the end."""
_DISK_RATE, _LINE_RATE = 300e6, 20e6
"""Bytes per second of a disk and of a network connection, if nothing better is known."""
_CPU_RATES: dict[Depth, float] = {"quick": 1e6, "standard": 15e6, "deep": 25e6, "full": 40e6}
"""Bytes of both models that are tested per second, measured at width 4,096 on one core of a laptop."""
_LEAST_SECONDS = 0.5
"""What opening two models and reporting takes, however small they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingBound:
    """What is read of one model at most, in bytes, by purpose."""

    tensors: int
    """Samples and matrices of all stages that the depth allows."""
    differences: int = 0
    """Weights that are subtracted, if the models turn out to be relatives."""
    controls: int = 0
    """What is read of candidate or base again, for controls."""
    beside: int
    """Listing, headers, config, tokenizer and card."""
    walk: int
    """The model from end to end, if it is local (or at full depth) and no sample differs."""
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPrice:
    """What `compare` would request, and its bounds."""

    plans: tuple[BytePlan, BytePlan]
    """For candidate and base: the tensors, without those already stored."""
    at_most: tuple[ReadingBound, ReadingBound]
    controls: tuple[ReadingBound, ...] = ()
    unpaired: tuple[int, int] = (0, 0)
    """At full depth: bytes of tensors of candidate and base that face none of the same name and shape. They
    are not compared value by value, and only what the tests need of them is read."""
    seconds: float
    """A rough estimate for everything planned except walks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReading:
    """Something that may be read of two models because one of them is a control."""

    pair: ModelPair
    ways: Sequence[Rehearsal]
    """One of them is taken."""
    judged: bool = False
    """Whether the pair is judged like any other, so that equal models are walked over."""

    def of(self, model: Model) -> tuple[int, int]:
        """Return the bytes of one of the models: read in pieces, and from end to end."""
        side = self.pair.models.index(model)
        pieces = max(_tensors(self.pair, way, side) for way in self.ways)
        pieces += pairing_bytes(*self.pair.models)[side] + _CHECKS * table_bytes(model)
        return pieces, walks_at_most(self.pair, side, copies=False) if self.judged else 0


def bounds(
    pair: ModelPair,
    rehearsals: Sequence[Rehearsal],
    differences: tuple[int, int] = (0, 0),
    controls: Sequence[ControlReading] = (),
) -> tuple[ReadingBound, ReadingBound]:
    """Bound what is read of both models.

    Each of the `rehearsals` is one way that the comparison may take. `differences` are bytes of both models,
    if they are relatives, and `controls` what is read because there are controls.
    """
    mine, theirs = (_bound(pair, rehearsals, side, differences[side], controls) for side in (0, 1))
    return mine, theirs


def control_bounds(models: Sequence[Model], readings: Sequence[ControlReading]) -> tuple[ReadingBound, ...]:
    """Bound what is read of each control."""
    found = []
    for model in models:
        pieces, walk = _of_controls(model, readings)
        beside = _read_by_now(model)
        found.append(ReadingBound(tensors=pieces, beside=beside, walk=walk, total=pieces + beside + walk))
    return tuple(found)


def unpaired_bytes(pair: ModelPair) -> tuple[int, int]:
    """Return what full depth does not compare value by value: it needs equal names and shapes for that."""
    if pair.options.depth != "full":
        return 0, 0
    names = names_alone(*pair.models)
    mine, theirs = (
        sum(model.index[name].n_bytes for name in alone)
        for model, alone in zip(pair.models, names, strict=True)
    )
    return mine, theirs


def _of_controls(model: Model, readings: Sequence[ControlReading]) -> tuple[int, int]:
    costs = [reading.of(model) for reading in readings if model in reading.pair.models]
    return sum(pieces for pieces, _ in costs), sum(walk for _, walk in costs)


def _bound(
    pair: ModelPair,
    rehearsals: Sequence[Rehearsal],
    side: int,
    differences: int,
    readings: Sequence[ControlReading],
) -> ReadingBound:
    model = pair.models[side]
    tensors = max(_tensors(pair, rehearsal, side) for rehearsal in rehearsals)
    # Asking a server whether a file exists may return its beginning: the ledger is summed up last.
    beside = sum(min(model.file_size(name) or 0, MAX_CARD_BYTES) for name in CARD_FILES)
    beside += summary_bytes(*pair.models, pair.options.depth)[side] + _CHECKS * table_bytes(model)
    controls, walk = _of_controls(model, readings)
    walk += walks_at_most(pair, side)
    beside += _read_by_now(model)
    return ReadingBound(
        tensors=tensors,
        differences=differences,
        controls=controls,
        beside=beside,
        walk=walk,
        total=tensors + differences + controls + beside + walk,
    )


def _read_by_now(model: Model) -> int:
    model.totals()
    return sum(entry.n_bytes for entry in model.fetcher.ledger.entries)


def _tensors(pair: ModelPair, rehearsal: Rehearsal, side: int) -> int:
    model, passes = pair.models[side], rehearsal.passes[side]
    planned = sum(model.cost(slices, max_waste=pair.max_waste) for slices in passes)
    if not rehearsal.rooms:
        return planned
    # Not everything fits: then what fits is read, and each pass may fetch slightly more than was charged.
    room = max(rehearsal.rooms) + 2 * pair.sampled_bytes() + FREE_WASTE * len(passes)
    return max(planned, room)


def about_seconds(pair: ModelPair, plans: Sequence[BytePlan], *, n_controls: int = 0) -> float:
    """Estimate how long a comparison takes on this connection and one core; a control is compared twice."""
    computing = sum(plan.bytes_needed for plan in plans) / _CPU_RATES[pair.options.depth]
    reading = max(_reading(model, plan) for model, plan in zip(pair.models, plans, strict=True))
    return max(_LEAST_SECONDS, (reading + computing) * (1 + 2 * n_controls))


def _reading(model: Model, plan: BytePlan) -> float:
    if not model.fetcher.source.remote:
        return plan.bytes_needed / _DISK_RATE
    totals = model.totals()
    latency = totals.seconds / totals.requests if totals.requests else 0.1
    connections = model.fetcher.connections
    return plan.bytes_to_fetch / _LINE_RATE + latency * -(-plan.n_requests // connections)
