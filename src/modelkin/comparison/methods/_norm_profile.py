"""Norm gains and biases of all layers, over the dimensions of the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import RoleEntry
from modelkin.message import Message, say
from modelkin.stats import MIN_UNITS, AxisOptions, NotTestable, axis_test, joint_features
from modelkin.tensors import Array, TensorSlice

from ._interface import Method, Pair, Plan, Side, sample_probe
from ._result import Evidence
from .axis import N_PERMUTATIONS, as_evidence

_MOST_VECTORS = 512
"""Vectors used at most; beyond that they add bytes and no power."""


@dataclass(frozen=True, slots=True)
class _Vector:
    key: tuple[object, ...]
    candidate: RoleEntry
    base: RoleEntry


@final
class NormProfile(Method):
    """Ask whether the gains single out the same dimensions in both models."""

    def plan(self, pair: Pair) -> Plan:
        """Read every one-dimensional tensor over the residual stream that both models have."""
        reason = residual_problem(pair)
        if reason is not None:
            return Plan(skipped=(self.skip(reason),))
        vectors = _shared_vectors(pair)[:_MOST_VECTORS]
        if not vectors:
            return Plan(skipped=(self.skip(say("no-norms")),))

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            kept = _trained(candidate) & _trained(base)
            if np.count_nonzero(kept) < MIN_UNITS:
                return self.skip(say("constant-gains"))
            joint = joint_features(
                candidate=[vector[kept] for vector in candidate], base=[vector[kept] for vector in base]
            )
            if isinstance(joint, NotTestable):
                return self.skip(say("constant-gains-why", reason=joint.reason))
            result = axis_test(
                candidate=joint.candidate,
                base=joint.base,
                exchangeable=True,  # residual_problem has refused models for which it is not
                seed=pair.seed,
                options=AxisOptions(unit_rows=False, n_permutations=N_PERMUTATIONS),
            )
            details: dict[str, float | int | str] = {
                "vectors": len(joint.used),
                "dimensions_left_out": int(np.count_nonzero(~kept)),
            }
            layers = sorted({v.candidate.layer for v in vectors if v.candidate.layer is not None})
            return as_evidence(
                self,
                result,
                layers=tuple(layers),
                details=details,
            )

        return Plan(
            probes=(
                sample_probe(
                    candidate=tuple(TensorSlice.whole(v.candidate.tensor) for v in vectors),
                    base=tuple(TensorSlice.whole(v.base.tensor) for v in vectors),
                    evaluate=evaluate,
                ),
            )
        )


def _trained(vectors: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """Say which dimensions were trained.

    Padding keeps its first value (0 or 1) in all layers, and stands at the same end of every model that is
    padded: strangers would agree there.
    """
    table = np.stack([np.asarray(vector, np.float32) for vector in vectors])
    untouched = ((table == 0) | (table == 1)).all(axis=0)
    constant = (table == table[0]).all(axis=0) & (len(table) > 1)
    return np.asarray(~(untouched | constant))


def residual_problem(pair: Pair) -> Message | None:
    """Say why the residual streams of two models cannot be compared dimension by dimension."""
    sides = (pair.candidate, pair.base)
    for side in sides:
        if not side.architecture.is_known:
            return say("unknown-architecture", model=side.name)
        space = side.architecture.space("residual")
        if not space.exchangeable:
            return say("residual-fixed", model=side.name, reason=space.why)
    widths = [side.architecture.sizes.get("residual") for side in sides]
    if None in widths or widths[0] != widths[1]:
        return say("hidden-sizes", n=widths[0], m=widths[1])
    return None


def _shared_vectors(pair: Pair) -> list[_Vector]:
    theirs = _vectors(pair.base)
    return [
        _Vector(key, entry, theirs[key]) for key, entry in _vectors(pair.candidate).items() if key in theirs
    ]


def _vectors(side: Side) -> dict[tuple[object, ...], RoleEntry]:
    return {
        (entry.stack, entry.role.value, entry.part, entry.layer): entry
        for entry in side.architecture.tensors
        if entry.axes == (("residual",),)
        and entry.segment is None
        and entry.expert is None
        and not entry.fixed
        and not entry.mtp
        and entry.part in ("weight", "bias")
    }
