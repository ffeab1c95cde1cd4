"""Independence tests on the units of MLPs (Zhu, Ahmed, Kuditipudi and Liang, ICML 2025), from weights.

phi_U: rows of both up matrices of a layer are matched one to one, and Spearman's correlation of the match
with the identity is tested. phi_MATCH: the match of the gates is correlated with the match of the ups, so
that the order of the units does not matter; the publication does this on activations, here it is done on
weights.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.model import Model

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import Floats, RoleMatrix, SideReader, Spill, both_sides, expert_numbers, role_matrix
from .tails import assigned, fisher_log10_p, spearman_log10_p

Units = dict[tuple[int, int | None], tuple[RoleMatrix, ...]]
"""Layer and expert -> its matrices, units as rows."""


def matched_units(candidate: Floats, base: Floats, *, seed: int = 0) -> npt.NDArray[np.intp] | Message:
    """Match units one to one so that the sum of their cosines is largest.

    Rows and columns are shuffled first. Equal units, such as all-zero ones, can be matched in any way, and a
    solver that takes the first would find them in order, which is what the tests look for.
    """
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(candidate)), rng.permutation(len(base))
    mixed = assigned(unit_rows(candidate)[rows] @ unit_rows(base)[columns].T)
    if isinstance(mixed, Message):
        return mixed
    places = np.full(len(candidate), -1, dtype=np.intp)
    places[rows] = np.where(mixed >= 0, columns[mixed], -1)
    return places


def log10_p_of_order(candidate: Floats, base: Floats) -> float | Message:
    """Test whether matching units are in the same order."""
    places = matched_units(candidate, base)
    if isinstance(places, Message):
        return places
    (known,) = np.nonzero(places >= 0)
    return spearman_log10_p(known, places[known])


def log10_p_of_two_matches(candidate: tuple[Floats, Floats], base: tuple[Floats, Floats]) -> float | Message:
    """Test whether two matrices of the same units give the same match."""
    first = matched_units(candidate[0], base[0], seed=0)
    second = matched_units(candidate[1], base[1], seed=1)
    if isinstance(first, Message):
        return first
    if isinstance(second, Message):
        return second
    both = (first >= 0) & (second >= 0)
    return spearman_log10_p(first[both], second[both])


def unit_rows(rows: Floats) -> Floats:
    """Return rows of length one; rows of zeros stay as they are."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0), dtype=np.float32)


class _UnitMethod(ReferenceMethod):
    """A method that needs some matrices of all MLPs and experts of both models."""

    dense: ClassVar[tuple[Role, ...]]
    sparse: ClassVar[tuple[Role, ...]]

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for these matrices of all layers."""
        units = self._units(pair)
        return units if isinstance(units, Message) else _slices(units)

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Find the matrices and compare them."""
        units = self._units(pair)
        return units if isinstance(units, Message) else self._compared(pair, readers, units)

    def _units(self, pair: ReferencePair) -> tuple[Units, Units] | Message:
        units = both_sides(pair.models, lambda model: _units_of(model, self.dense, self.sparse))
        return units if isinstance(units, Message) else self._misfit(*units) or units

    @abstractmethod
    def _compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], units: tuple[Units, Units]
    ) -> RawScore | Message:
        """Read the matrices and compute a score from them."""

    @abstractmethod
    def _misfit(self, mine: Units, theirs: Units) -> Message | None:
        """Say why the matrices of both models cannot be compared."""


@final
class PhiU(_UnitMethod):
    """phi_U on up matrices, combined over layers by Fisher's method; the score is minus log10 p."""

    dense, sparse = (Role.MLP_UP,), (Role.EXPERT_UP,)

    def _compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], units: tuple[Units, Units]
    ) -> RawScore | Message:
        found = []
        for key, (mine,) in units[0].items():
            log10_p = log10_p_of_order(readers[0].matrix(mine), readers[1].matrix(units[1][key][0]))
            if isinstance(log10_p, Message):
                return log10_p
            found.append(log10_p)
        return combined(found)

    def _misfit(self, mine: Units, theirs: Units) -> Message | None:
        if mine.keys() != theirs.keys():
            return say("reference-layers")
        other = any(matrices[0].shape != theirs[key][0].shape for key, matrices in mine.items())
        return say("reference-shapes") if other else None


@final
class PhiMatch(_UnitMethod):
    """phi_MATCH on weights: gates matched against ups; the score is minus log10 p.

    Layers of equal number are tested; if depths differ, every pair of layers, corrected for their number.
    """

    dense, sparse = (Role.MLP_GATE, Role.MLP_UP), (Role.EXPERT_GATE, Role.EXPERT_UP)

    def _compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], units: tuple[Units, Units]
    ) -> RawScore | Message:
        if units[0].keys() == units[1].keys():
            return _all_or_reason(
                [
                    log10_p_of_two_matches(_read(readers[0], matrices), _read(readers[1], units[1][key]))
                    for key, matrices in units[0].items()
                ]
            )
        with Spill() as kept:
            for key, matrices in units[1].items():
                for place, kept_rows in enumerate(_read(readers[1], matrices)):
                    kept.keep((key, place), kept_rows)
            pairs, found = [], []
            for mine, matrices in units[0].items():
                rows = _read(readers[0], matrices)
                for theirs in units[1]:
                    log10_p = log10_p_of_two_matches(rows, (kept[theirs, 0], kept[theirs, 1]))
                    if isinstance(log10_p, Message):
                        return log10_p
                    pairs.append((mine[0], theirs[0]))
                    found.append(log10_p)
        best = int(np.argmin(found))
        numbers = [model.architecture.layers for model in pair.models]
        return RawScore(
            score=-min(0.0, found[best] + float(np.log10(len(found)))) + 0.0,
            details={"tests": float(len(found)), "smallest_log10_p": found[best]},
            layers=((numbers[0][pairs[best][0]], numbers[1][pairs[best][1]]),),
        )

    def _misfit(self, mine: Units, theirs: Units) -> Message | None:
        widths = {matrices[0].shape[1] for side in (mine, theirs) for matrices in side.values()}
        return None if len(widths) == 1 else say("reference-widths")


_Two = tuple[Floats, Floats]


def _read(reader: SideReader, matrices: tuple[RoleMatrix, ...]) -> _Two:
    return reader.matrix(matrices[0]), reader.matrix(matrices[1])


def _units_of(model: Model, dense: tuple[Role, ...], sparse: tuple[Role, ...]) -> Units | Message:
    if not model.architecture.is_known:
        return say("unknown-architecture", model=model.location.ref)
    found: Units = {}
    for place, layer in enumerate(model.architecture.layers):
        for expert in expert_numbers(model, layer, sparse[-1]):
            roles = dense if expert is None else sparse
            matrices = [role_matrix(model, role, layer, expert=expert) for role in roles]
            if all(matrix is not None for matrix in matrices):
                found[place, expert] = tuple(matrix for matrix in matrices if matrix is not None)
    return found or say("reference-no-units", model=model.location.ref, role=dense[0].value)


def _slices(units: tuple[Units, Units]) -> Wanted:
    mine, theirs = ([matrix.slice for found in side.values() for matrix in found] for side in units)
    return mine, theirs


def _all_or_reason(found: list[float | Message]) -> RawScore | Message:
    known = [value for value in found if not isinstance(value, Message)]
    return next((value for value in found if isinstance(value, Message)), None) or combined(known)


def combined(found: list[float]) -> RawScore:
    """Combine log10 p-values of layers by Fisher's method into a score."""
    return RawScore(
        score=-fisher_log10_p(found) + 0.0,
        details={"tests": float(len(found)), "smallest_log10_p": min(found)},
    )
