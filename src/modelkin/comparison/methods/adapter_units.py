"""Adapters without their base: whether their updates follow the numbering of a model's MLP units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.tensors import Array, TensorSlice

from ._interface import Factors, Findings, Method, Pair, Planned, Probe, Side, sample_probe
from ._result import Evidence, Skipped
from .axis import unit_evidence
from .blocks import Matrix, UnitChoice, n_features, n_units, spread, unit_block

SPACE = "mlp"
MOST_UNITS = 4096
"""More than other methods read: an update is faint, and its rows cost little."""
FEWEST_UNITS = 16
"""An update is faint: with fewer units a test could only say that it cannot tell."""
SHARE = 0.9
"""Share of the byte allowance: no other method reads an adapter without its base."""
MOST_TESTS = 4
"""At standard depth: few layers with many units each find more than many layers with few."""
ALIKE = 0.25
"""Cosine of two matrices A above which they began with the same numbers. After training from one seed, 0.51
to 0.96 were measured, after training one base from two seeds at most 0.17, of either sign."""
CHANCE = 6.0
"""Standard deviations that chance does not reach: small matrices need more than `ALIKE`."""

_CROSSWISE = ((Role.MLP_GATE, Role.MLP_UP), (Role.MLP_UP, Role.MLP_GATE))
"""What a gated unit learns in one of its two matrices passes through the other: the gradient of either is
multiplied by the output of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UpdatedLayer:
    layer: int
    updated: Role
    facing: Role


@final
class AdapterUnits(Method):
    """Ask whether an adapter's updates belong to the same-numbered units of a base, or of another adapter."""

    def problem(self, pair: Pair) -> None:
        """Adapters are compared unit by unit, whatever the residual streams are."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan tests if one side, or both, is an adapter without its base; none otherwise."""
        bare = [side for side in pair.sides if side.updates is not None]
        if not bare:
            return []
        made = self._both if len(bare) == 2 else self._one
        return [made(pair, place) for place in _places(pair)] or [say("adapter-no-update")]

    def _one(self, pair: Pair, place: _UpdatedLayer) -> Probe[Findings] | Skipped:
        """Plan the update of one matrix of a unit against the other matrix of the unit in a model."""
        turned = pair.candidate.updates is None
        adapter, model = (pair.base, pair.candidate) if turned else (pair.candidate, pair.base)
        factors = _factors(adapter, place)
        entry = model.architecture.find(place.facing, layer=place.layer)
        if entry is None:
            return self._skipped(place, say("model-lacks-tensor"))
        info = model.index[entry.tensor]
        n_all, width = n_units(entry, info, SPACE), n_features(entry, info, SPACE)
        shape = _shape(adapter, factors)
        if (n_all, width) != shape:
            return self._skipped(place, say("adapter-shape", n=shape[0], m=shape[1], k=n_all, l=width))
        if not model.architecture.space(SPACE).exchangeable:
            return self._skipped(place, say("order-fixed-in", space=SPACE, model=model.name))
        row_bytes = max(1, info.n_bytes * width // max(1, info.n_elements))
        affordable = int(SHARE * pair.byte_allowance) // (min(MOST_TESTS, pair.n_layers) * row_bytes)
        count = min(n_all, MOST_UNITS, max(FEWEST_UNITS, affordable))
        if count < FEWEST_UNITS:
            return self._skipped(place, say("few-units", n=count))
        first = (pair.seed * 2_654_435_761 + 7 * place.layer) % (n_all - count + 1)
        block = unit_block(
            entry,
            info,
            space=SPACE,
            choice=UnitChoice(first_unit=first, n_units=count),
        )
        mine = TensorSlice.whole(factors.a), TensorSlice.rows(factors.b, first, first + count)

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            (a, b), (weights,) = (base, candidate) if turned else (candidate, base)
            rows = _in_reach(a, b, block.matrix(weights))
            return self._tested(pair, place, rows[::-1] if turned else rows, sign_free=True)

        slices = ((block.slice,), mine) if turned else (mine, (block.slice,))
        return sample_probe(*slices, evaluate=evaluate, same_parts=False)

    def _both(self, pair: Pair, place: _UpdatedLayer) -> Probe[Findings] | Skipped:
        """Plan the updates of two adapters against each other: their products, which are gauge-invariant."""
        pairs = [_factors(side, place) for side in pair.sides]
        one, two = (_shape(side, held) for side, held in zip(pair.sides, pairs, strict=True))
        if one != two:
            return self._skipped(place, say("shapes-differ", n=one[0], m=one[1], k=two[0], l=two[1]))
        count = min(one[0], MOST_UNITS)
        if count < FEWEST_UNITS:
            return self._skipped(place, say("few-units", n=count))
        slices = [
            (
                TensorSlice.rows(held.b, 0, count),
                TensorSlice.whole(held.a),
                *(TensorSlice.whole(start.a) for start in _starts(side, pair, place.layer)),
            )
            for side, held in zip(pair.sides, pairs, strict=True)
        ]

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            if any(began_alike(mine, theirs) for mine, theirs in zip(candidate[2:], base[2:], strict=True)):
                return self._skipped(place, say("adapter-same-start"))
            # B usually begins as zeros. Otherwise, one seed gives it equal rows on any two bases.
            # Equal values of B mean that only with equal values of A: other seeds span other directions.
            if all(began_alike(candidate[number], base[number]) for number in (0, 1)):
                return self._skipped(place, say("adapter-same-factors"))
            rows = _updates_of(candidate[0], candidate[1]), _updates_of(base[0], base[1])
            return self._tested(pair, place, rows, sign_free=False)

        return sample_probe(*slices, evaluate=evaluate, same_parts=False)

    def _tested(
        self, pair: Pair, place: _UpdatedLayer, rows: tuple[Matrix, Matrix], *, sign_free: bool
    ) -> Evidence:
        return unit_evidence(
            self,
            rows,
            seed=pair.seed,
            sign_free=sign_free,
            updates=True,
            layers=(place.layer,),
            role=place.updated.value,
            details={"facing": place.facing.value},
        )

    def _skipped(self, place: _UpdatedLayer, reason: Message) -> Skipped:
        return self.skip(reason, layers=(place.layer,), role=place.updated.value)


def began_alike(mine: Array, theirs: Array) -> bool:
    """Say whether two matrices A grew from the same random numbers: from one seed, or one from the other's.

    They are then numbered alike wherever A is numbered, whatever the adapters were trained on.
    """
    n_rows = min(len(mine), len(theirs))
    left, right = (np.asarray(values[:n_rows], np.float64).reshape(-1) for values in (mine, theirs))
    if left.shape != right.shape or not left.size:
        return False
    length = math.sqrt(float(left @ left) * float(right @ right))
    limit = max(ALIKE, CHANCE / math.sqrt(left.size))
    return length > 0.0 and float(left @ right) / length > limit


def _places(pair: Pair) -> list[_UpdatedLayer]:
    """Choose layers, spread over the depth, in which something can be tested."""
    both = pair.candidate.updates is not None and pair.base.updates is not None
    choices = [(role, role) for role, _ in _CROSSWISE] if both else list(_CROSSWISE)
    common = _common(pair)
    found = [
        _UpdatedLayer(layer=layer, updated=updated, facing=facing)
        for updated, facing in choices
        for layer in sorted({layer for role, layer in common if role is updated})
        if _has(pair, facing, layer)
    ]
    layers = sorted({place.layer for place in found})
    n_layers = (
        pair.n_layers if both or pair.n_layers > MOST_TESTS else max(1, pair.n_layers // len(_CROSSWISE))
    )
    chosen = {layers[number] for number in spread(len(layers), n_layers)}
    return [place for place in found if place.layer in chosen]


def _common(pair: Pair) -> set[tuple[Role, int]]:
    """Return which weights all adapters of a pair update."""
    known = [side.updates.keys() for side in pair.sides if side.updates is not None]
    return set(known[0]).intersection(*known[1:]) if known else set()


def _has(pair: Pair, role: Role, layer: int) -> bool:
    """Say whether the model of a pair has a role in a layer; a pair of adapters has no model to lack it."""
    models = [side for side in pair.sides if side.updates is None]
    return all(side.architecture.find(role, layer=layer) is not None for side in models)


def _starts(side: Side, pair: Pair, layer: int) -> list[Factors]:
    """Return the down projection's matrices, if both adapters have them.

    Its A is numbered like the units, from random numbers unrelated to them. If two adapters begin with the
    same numbers, unit i of both learns from the same ones: an agreement that comes from no base.
    """
    known = (Role.MLP_DOWN, layer) in _common(pair)
    return [(side.updates or {})[Role.MLP_DOWN, layer]] if known else []


def _factors(side: Side, place: _UpdatedLayer) -> Factors:
    return (side.updates or {})[place.updated, place.layer]


def _shape(side: Side, factors: Factors) -> tuple[int, int]:
    """Return the shape of the weight that two factors update."""
    return side.index[factors.b].shape[0], side.index[factors.a].shape[1]


def _in_reach(a: Array, b: Array, weights: Matrix) -> tuple[Matrix, Matrix]:
    """Return updates and weights as seen in the few directions that A reads, in an orthonormal basis.

    The basis is one of many; cosines are the same in all.
    """
    basis, triangle = np.linalg.qr(np.asarray(a, np.float64).T)
    updates = np.asarray(b, np.float64) @ triangle.T
    seen = np.asarray(weights, np.float64) @ basis
    return np.asarray(updates, np.float32), np.asarray(seen, np.float32)


def _updates_of(b: Array, a: Array) -> Matrix:
    return np.asarray(np.asarray(b, np.float32) @ np.asarray(a, np.float32), np.float32)
