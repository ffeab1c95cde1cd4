"""Norm gains and biases of all layers, over the dimensions of the residual stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import RoleEntry
from modelkin.message import say
from modelkin.stats import MIN_UNITS, AxisOptions, NotTestable, axis_test, joint_features
from modelkin.tensors import Array, TensorSlice

from ._interface import Method, Pair, Planned, Side, sample_probe
from ._result import EQUAL_VALUES, Evidence, Tested
from .axis import N_PERMUTATIONS, as_evidence

_MOST_VECTORS = 512
"""Most vectors used; more would add bytes but no power."""


@final
class NormProfile(Method):
    """Ask whether the gains single out the same dimensions in both models."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Read every one-dimensional tensor over the residual stream that both models have."""
        others = _vectors(pair.base)
        shared = [(entry, others[key]) for key, entry in _vectors(pair.candidate).items() if key in others]
        if not shared:
            return [say("no-norms")]
        mine, theirs = zip(*shared[:_MOST_VECTORS], strict=True)
        layers = tuple(sorted({entry.layer for entry in mine if entry.layer is not None}))

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
                exchangeable=True,  # `problem` has refused models for which it is not true
                seed=pair.seed,
                options=AxisOptions(unit_rows=False, n_permutations=N_PERMUTATIONS),
            )
            details = {"vectors": len(joint.used), "dimensions_left_out": int(np.count_nonzero(~kept))}
            found = as_evidence(self, result, layers=layers, details=details)
            if isinstance(found, Tested) and all(map(np.array_equal, candidate, base)):
                return found.flagged(EQUAL_VALUES)
            return found

        slices = ([TensorSlice.whole(entry.tensor) for entry in side] for side in (mine, theirs))
        return [sample_probe(*slices, evaluate=evaluate)]


def _trained(vectors: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """Say which dimensions were trained.

    Padding keeps its initial value (0 or 1) in all layers, and is at the same end of every padded model:
    strangers would agree there.
    """
    table = np.stack([np.asarray(vector, np.float32) for vector in vectors])
    untouched = ((table == 0) | (table == 1)).all(axis=0)
    constant = (table == table[0]).all(axis=0) & (len(table) > 1)
    return np.asarray(~(untouched | constant))


def _vectors(side: Side) -> dict[tuple[object, ...], RoleEntry]:
    return {
        (entry.stack, entry.role.value, entry.part, entry.layer): entry
        for entry in side.architecture.tensors
        if entry.axes == (("residual",),)
        and entry.segment is None
        and entry.expert is None
        and not entry.fixed
        and entry.part in ("weight", "bias")
    }
