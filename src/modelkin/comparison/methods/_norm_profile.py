"""Norm gains and biases of all layers, over the dimensions of the residual stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
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
from .small_places import given_small_gains

_MOST_VECTORS = 512
"""Most vectors of a model that are used; more would add bytes but no power."""


@final
class NormProfile(Method):
    """Ask whether the gains single out the same dimensions in both models."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Read every one-dimensional tensor over the residual stream that both models have.

        Layers of equal number face each other, unless the pair says which do. For any pairing that was not
        chosen by gains the test is exact: one permutation moves all of them together.
        """
        shared = list(_facing(pair))
        if not shared:
            return [say("no-norms")]
        mine, theirs = zip(*shared, strict=True)
        layers, base_layers = _numbers(shared)
        if not pair.layer_pairs:
            base_layers = ()  # the same

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
            found = as_evidence(self, result, layers=layers, base_layers=base_layers, details=details)
            if isinstance(found, Tested):
                gains = (np.stack([side[k][kept] for k in joint.used], axis=1) for side in (candidate, base))
                found = given_small_gains(found, *gains, seed=pair.seed)
            if isinstance(found, Tested) and all(map(np.array_equal, candidate, base)):
                return found.flagged(EQUAL_VALUES)
            return found

        slices = ([TensorSlice.whole(entry.tensor) for entry in side] for side in (mine, theirs))
        # The deep stage may pair the same gains in another way.
        return [sample_probe(*slices, evaluate=evaluate, keep=self.card.name)]


def _facing(pair: Pair) -> Iterator[tuple[RoleEntry, RoleEntry]]:
    """Yield the vectors that face each other: of facing layers, or outside the layers."""
    theirs = stream_vectors(pair.base)
    facing: dict[int | None, list[int | None]] = {}
    for mine, other in pair.layer_pairs:
        facing.setdefault(mine, []).append(other)
    mapped = pair.candidate.architecture.main_stack if pair.layer_pairs else None
    for (stack, role, part, layer), entry in stream_vectors(pair.candidate).items():
        for number in [layer] if layer is None or stack != mapped else facing.get(layer, []):
            if (stack, role, part, number) in theirs:
                yield entry, theirs[stack, role, part, number]


def _numbers(shared: Iterable[tuple[RoleEntry, RoleEntry]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the layers of the candidate, and for each the layer of the base that it faces."""
    pairs = {
        (mine.layer, theirs.layer)
        for mine, theirs in shared
        if mine.layer is not None and theirs.layer is not None
    }
    return tuple(layer for layer, _ in sorted(pairs)), tuple(layer for _, layer in sorted(pairs))


def _trained(vectors: Sequence[Array]) -> npt.NDArray[np.bool_]:
    """Say which dimensions were trained.

    Padding keeps its initial value (0 or 1) in all layers, and is at the same end of every padded model:
    strangers would agree there.
    """
    table = np.stack([np.asarray(vector, np.float32) for vector in vectors])
    untouched = ((table == 0) | (table == 1)).all(axis=0)
    constant = (table == table[0]).all(axis=0) & (len(table) > 1)
    return np.asarray(~(untouched | constant))


def stream_vectors(side: Side) -> dict[tuple[str, str, str, int | None], RoleEntry]:
    """Return the gains and biases over the residual stream, by stack, role, part and layer."""
    found = (
        ((entry.stack, entry.role.value, entry.part, entry.layer), entry)
        for entry in side.architecture.tensors
        if entry.axes == (("residual",),)
        and entry.segment is None
        and entry.expert is None
        and not entry.fixed
        and entry.part in ("weight", "bias")
    )
    return dict(itertools.islice(found, _MOST_VECTORS))
