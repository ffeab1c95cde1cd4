"""Two fingerprints against each other: the exact test on every pair of blocks, corrected.

Half of the error budget is for blocks at the same place, alone and added up, half for all other pairs of
layers. A pair then counts as one test; looking at many pairs must be corrected for as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from modelkin.stats import joint_z, trace_test

from ._value import Fingerprint
from .recipe import DIMENSION_KINDS, LAYER_KINDS, SLOTS, UNIT_KINDS, Kind, slot_numbers

Numbers = npt.NDArray[np.float64]
_FEWEST_UNITS = 8
"""Units that both blocks must have: the same as for a block."""
_EVERYWHERE_Z = 3.0
"""z from which all layers together agree with layers that they do not face, or scatter; see `compare`'s own
guard."""
_ACROSS_ALONE_Z = 9.0
"""The same for layers across if one model shows nothing: strangers with public adapters have 15 to 37 then,
and a copy whose two sides have adapters 3.6."""
_MOST_SHARE = 3.0
"""What public numbers up to signs explain, as a multiple of the largest |z| between layers of one model.
Strangers with such numbers pass two times that, and none three times."""
_REPEATED_Z = 6.0
"""z from which two layers of one model count as the same."""
_MOST_LAG_Z = 5.0
"""z of the similarity of units some numbers apart above which the order of a block is not arbitrary. Trained
blocks reach 4.0 over all distances; chance passes 5 in one block of fifty thousand, and both models must."""
_MOST_LAG_EXCESS = 7.0
"""The same for all distances together, in standard deviations of chi squared: trained blocks reach 4.0. Below
both limits the variance of a product is at most a ninth larger than that of the formula."""
_BOUNDED = 4
"""Blocks whose bound is computed, those of largest |z|; the correction is for all."""
_LEAST_Z = 3.0
"""|z| below which a bound says nothing."""
N_POOLS = 4
"""Units of all layers, values of all layers, dimensions, everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProduct:
    """One pair of blocks, or several added up."""

    kind: str
    """Kind of the blocks; ``units``, ``values``, ``dimensions`` or ``all`` for sums."""
    layers: tuple[int, int] | None
    """Of candidate and base, if it is about one layer of each."""
    z: float
    effect: float
    """Cosine of the centred blocks."""
    log10_p: float | None = None
    """Corrected for all blocks of the pair; None if not worth computing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FingerprintProduct:
    """What two fingerprints say about a common origin."""

    log10_p: float
    """An upper bound, corrected for all blocks of this pair and for nothing else."""
    best: BlockProduct | None
    """The block or sum that it comes from; None if nothing could be tested, or |z| is below 3 in all."""
    blocks: tuple[BlockProduct, ...]
    """All blocks at the same place and all sums, then the strongest others."""
    refused: tuple[str, ...]
    """Kinds of blocks whose layers agree with all layers of both models, up to signs: their order is not
    arbitrary."""
    token_gram: float | None
    """Cosine of the Gram matrices of tokens: where to look, not evidence."""


class CentredBlock:
    """One block, centred over its used units, and the small product that chance depends on."""

    def __init__(self, rows: Numbers, used: npt.NDArray[np.bool_]) -> None:
        kept = rows[used]
        self.used = used
        self.key = used.tobytes()
        self.rows: Numbers = kept - kept.mean(axis=0) if len(kept) else kept
        self.covariance: Numbers = (self.rows.T @ self.rows).reshape(-1)
        self.size = float(np.linalg.norm(self.rows))
        self._all = rows

    @cached_property
    def is_ordered(self) -> bool:
        """Say whether units whose numbers are close, or a fixed distance apart, are alike.

        Then units cannot be exchanged one by one: rows of two matrices in turn, units in groups, or along a
        map. Two unrelated models of that kind agree, or disagree, in whole runs of units.
        """
        n = len(self.rows)
        if n < 2 * _FEWEST_UNITS:
            return False
        likeness = self.rows @ self.rows.T
        mean = (float(likeness.sum()) - float(np.trace(likeness))) / (n * (n - 1))
        likeness -= mean
        np.fill_diagonal(likeness, 0.0)
        sigma = float(np.linalg.norm(likeness)) / math.sqrt(n - 1)
        if not sigma > 0.0:
            return False
        wrapped = np.concatenate([likeness, likeness], axis=1)
        lags = np.array([np.trace(wrapped, offset=lag) for lag in range(1, (n + 1) // 2)]) / sigma
        excess = (float(lags @ lags) - len(lags)) / math.sqrt(2 * len(lags))
        return float(np.abs(lags).max()) > _MOST_LAG_Z or excess > _MOST_LAG_EXCESS

    def over(self, used: npt.NDArray[np.bool_]) -> CentredBlock:
        """Return the block over fewer units, centred again."""
        return CentredBlock(self._all, used)


class FingerprintRows:
    """The blocks of one fingerprint as centred rows, made on demand."""

    def __init__(self, made: Fingerprint) -> None:
        self.made = made
        self._rows: dict[int, CentredBlock] = {}
        self._repeats: dict[Kind, tuple[float, ...]] = {}

    def rows(self, number: int) -> CentredBlock:
        """Return a block."""
        if number not in self._rows:
            codes = self.made.block(number).astype(np.float64)
            self._rows[number] = CentredBlock(codes, np.asarray(codes.any(axis=1)))
        return self._rows[number]

    def layers(self, kind: Kind) -> list[int]:
        """Return the slots of a kind that hold a block."""
        return [number for number in slot_numbers(kind) if self.made.slots[number].n_units >= _FEWEST_UNITS]

    def repeats(self, kind: Kind) -> tuple[float, ...]:
        """Return how much different layers of this model agree: z of each two."""
        if kind not in self._repeats:
            numbers = self.layers(kind)
            self._repeats[kind] = tuple(
                pair.z
                for at, first in enumerate(numbers)
                for second in numbers[at + 1 :]
                if (pair := _paired(self.rows(first), self.rows(second))) is not None
            )
        return self._repeats[kind]


@dataclass(frozen=True, slots=True, eq=False)
class _PairedBlocks:
    """Two blocks over the units that both have."""

    mine: CentredBlock
    theirs: CentredBlock
    z: float
    effect: float

    def similarity(self) -> Numbers:
        """Return the double-centred similarity of all units."""
        return np.asarray(self.mine.rows @ self.theirs.rows.T)


def _paired(mine: CentredBlock, theirs: CentredBlock) -> _PairedBlocks | None:
    if mine.key != theirs.key:
        both = mine.used & theirs.used
        mine, theirs = mine.over(both), theirs.over(both)
    n = len(mine.rows)
    if n < _FEWEST_UNITS:
        return None
    squares = float(mine.covariance @ theirs.covariance)
    if not (squares > 0.0 and mine.size > 0.0 and theirs.size > 0.0):
        return None
    trace = float(np.vdot(mine.rows, theirs.rows))
    return _PairedBlocks(
        mine, theirs, trace * math.sqrt((n - 1) / squares), trace / (mine.size * theirs.size)
    )


def fingerprint_product(candidate: FingerprintRows, base: FingerprintRows) -> FingerprintProduct:
    """Test whether two models have a common origin, from their fingerprints alone."""
    for side in (candidate, base):
        side.made.check(side.made.model.ref)
    refused = tuple(kind for kind in LAYER_KINDS if _begun_alike(candidate, base, kind))
    cells = _cells(candidate, base)
    # What is left out after looking at the pair is corrected for all the same.
    price = tuple(math.log10(2 * (len(some) + more)) for some, more in zip(cells, (N_POOLS, 1), strict=True))
    equal, others = ([cell for cell in some if _may_be_tested(cell, refused)] for some in cells)
    told = [*_bounded(equal, price[0]), *_pools(candidate, base, equal, price[0])]
    far = _bounded(others, price[1])[:_BOUNDED]
    tested = [item for item in (*told, *far) if item.log10_p is not None]
    best = min(tested, key=lambda item: (item.log10_p or 0.0, -abs(item.z)), default=None)
    return FingerprintProduct(
        log10_p=0.0 if best is None or best.log10_p is None else best.log10_p,
        best=best,
        blocks=(*told, *far),
        refused=refused,
        token_gram=gram_cosine(candidate.made, base.made),
    )


def gram_cosine(candidate: Fingerprint, base: Fingerprint) -> float | None:
    """Return the cosine of the Gram matrices of tokens."""
    if not (candidate.token_gram and base.token_gram):
        return None
    mine, theirs = candidate.gram(), base.gram()
    size = float(np.linalg.norm(mine)) * float(np.linalg.norm(theirs))
    return float(mine @ theirs) / size if size > 0.0 else None


@dataclass(frozen=True, slots=True, eq=False)
class _FacingSlots:
    kind: Kind
    slots: tuple[int, int]
    layers: tuple[int, int] | None
    pair: _PairedBlocks

    @property
    def is_ordered(self) -> bool:
        """Whether the order of units is non-arbitrary in both models."""
        return self.pair.mine.is_ordered and self.pair.theirs.is_ordered


def _may_be_tested(cell: _FacingSlots, refused: Sequence[Kind]) -> bool:
    """Say whether the order of units is arbitrary in at least one model; small z need no answer."""
    return cell.kind not in refused and (abs(cell.pair.z) < _LEAST_Z or not cell.is_ordered)


def _cells(
    candidate: FingerprintRows, base: FingerprintRows
) -> tuple[list[_FacingSlots], list[_FacingSlots]]:
    """Return pairs of blocks at the same place, and all others."""
    equal: list[_FacingSlots] = []
    others: list[_FacingSlots] = []
    for kind in dict.fromkeys(slot.kind for slot in SLOTS):
        for first in candidate.layers(kind):
            for second in base.layers(kind):
                # If the order of units may be non-arbitrary in both models, nothing is tested.
                if set(candidate.made.slots[first].marks) & set(base.made.slots[second].marks):
                    continue
                pair = _paired(candidate.rows(first), base.rows(second))
                if pair is not None:
                    cell = _FacingSlots(kind, (first, second), _layers(candidate, first, base, second), pair)
                    same = cell.layers is None or cell.layers[0] == cell.layers[1]
                    (equal if same else others).append(cell)
    return equal, others


def _layers(
    candidate: FingerprintRows, first: int, base: FingerprintRows, second: int
) -> tuple[int, int] | None:
    mine, theirs = candidate.made.slots[first].layer, base.made.slots[second].layer
    return None if mine is None or theirs is None else (mine, theirs)


def _bounded(cells: Sequence[_FacingSlots], price: float) -> list[BlockProduct]:
    """Bound p of the strongest cells; the correction is for all of them."""
    found = []
    for rank, cell in enumerate(sorted(cells, key=lambda cell: -abs(cell.pair.z))):
        worth = rank < _BOUNDED and abs(cell.pair.z) >= _LEAST_Z
        tested = trace_test([cell.pair.similarity()]) if worth else None
        found.append(
            BlockProduct(
                kind=cell.kind,
                layers=cell.layers,
                z=cell.pair.z,
                effect=cell.pair.effect,
                log10_p=None if tested is None else min(0.0, tested.log10_p + price),
            )
        )
    return found


def _pools(
    candidate: FingerprintRows, base: FingerprintRows, equal: Sequence[_FacingSlots], price: float
) -> Iterator[BlockProduct]:
    """Add up blocks at the same place: those over the same units as one, different units as independent."""
    units = _by_layer(candidate, base, equal, UNIT_KINDS)
    values = _by_layer(candidate, base, equal, ("val",))
    dimensions = [[cell for cell in equal if cell.kind in DIMENSION_KINDS]]
    for name, groups in (
        ("units", units),
        ("values", values),
        ("dimensions", dimensions),
        ("all", [*units, *values, *dimensions]),
    ):
        if abs(joint_z([cell.pair.z for group in groups for cell in group])) < _LEAST_Z:
            continue
        kept = [[cell for cell in group if not cell.is_ordered] for group in groups]
        cells = [cell for group in kept for cell in group]
        tested = trace_test([made for group in kept for made in _together(group)])
        if tested is not None:
            yield BlockProduct(
                kind=name,
                layers=None,
                z=tested.z,
                effect=float(np.mean([cell.pair.effect for cell in cells])),
                log10_p=min(0.0, tested.log10_p + price),
            )


def _by_layer(
    candidate: FingerprintRows, base: FingerprintRows, equal: Sequence[_FacingSlots], kinds: Sequence[Kind]
) -> list[list[_FacingSlots]]:
    """Return the blocks of each layer; none if a model repeats layers, which are then not independent."""
    if any(_largest(side.repeats(kind)) > _REPEATED_Z for side in (candidate, base) for kind in kinds):
        return []
    found: dict[tuple[int, int] | None, list[_FacingSlots]] = {}
    for cell in equal:
        if cell.kind in kinds:
            found.setdefault(cell.layers, []).append(cell)
    return list(found.values())


def _together(cells: Sequence[_FacingSlots]) -> list[Numbers]:
    """Add up similarities over the same units; those over other units than the first's are left out."""
    total: Numbers | None = None
    for cell in cells:
        if cell.pair.mine.key != cells[0].pair.mine.key:
            continue
        similarity = cell.pair.similarity()
        similarity = similarity / np.linalg.norm(similarity)
        total = similarity if total is None else total + similarity
    return [] if total is None else [total]


def _begun_alike(candidate: FingerprintRows, base: FingerprintRows, kind: Kind) -> bool:
    """Say whether all layers of both models started from the same public numbers, or were copied in both.

    Products of public matrices that adapters have added to every layer agree up to a sign, of each unit or of
    a layer as a whole. Then z scatters more than chance has it, within each model and across. That explains
    everything but a z far beyond those within the models, as copies have it. Of few layers, those of one
    model may happen to scatter little; then those across must do so all the more.
    """
    inside = candidate.repeats(kind), base.repeats(kind)
    scattered = sorted(map(_scatter, inside))
    is_scattered = scattered[0] > 0.0 and scattered[1] > _EVERYWHERE_Z
    least = _EVERYWHERE_Z if scattered[0] > _EVERYWHERE_Z else _ACROSS_ALONE_Z
    if not is_scattered and min(map(joint_z, inside)) <= _EVERYWHERE_Z:
        return False  # as in nearly all models
    pairs = [
        (pair.z, candidate.made.slots[first].layer == base.made.slots[second].layer)
        for first in candidate.layers(kind)
        for second in base.layers(kind)
        if (pair := _paired(candidate.rows(first), base.rows(second))) is not None
    ]
    across = [z for z, is_facing in pairs if not is_facing]
    if min(map(joint_z, (*inside, across))) > _EVERYWHERE_Z:
        return True
    is_explained = _largest([z for z, _ in pairs]) <= _MOST_SHARE * max(map(_largest, inside))
    return is_explained and is_scattered and _scatter(across) > least


def _scatter(scores: Sequence[float]) -> float:
    """Return by how many deviations the squares of z scores exceed their expectation."""
    return (math.fsum(z * z for z in scores) - len(scores)) / math.sqrt(2.0 * max(1, len(scores)))


def _largest(scores: Sequence[float]) -> float:
    return max(map(abs, scores), default=0.0)
