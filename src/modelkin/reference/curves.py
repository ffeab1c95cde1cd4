"""Curves over the depth: spreads of attention matrices (PDF, intrinsic fingerprint; Yoon and others, 2025).

The standard deviation of each of the query, key, value and output matrices makes a curve over the layers.
Curves are stretched to one length where depths differ, and correlated; the score is the mean of the four.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.model import Model

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import RoleMatrix, SideReader, both_sides, layer_matrices_of, slices_of

ROLES = (Role.ATTENTION_QUERY, Role.ATTENTION_KEY, Role.ATTENTION_VALUE, Role.ATTENTION_OUTPUT)
FEWEST_LAYERS = 3
"""Two points always lie on one line: their correlation is 1 or -1."""

Curve = npt.NDArray[np.float64]


def stretched(curve: Curve, length: int) -> Curve:
    """Return a curve with so many points, by linear interpolation."""
    places = np.linspace(0.0, len(curve) - 1.0, length)
    return np.asarray(np.interp(places, np.arange(len(curve)), curve))


def correlation(first: Curve, second: Curve) -> float | None:
    """Return Pearson's correlation, the shorter curve stretched; None where one is constant."""
    length = max(len(first), len(second))
    both = [stretched(curve, length) for curve in (first, second)]
    centred = [curve - curve.mean() for curve in both]
    sizes = [float(np.linalg.norm(curve)) for curve in centred]
    if min(sizes) <= 1e-12 * max(float(np.abs(curve).max()) for curve in both):
        return None
    return float(centred[0] @ centred[1] / (sizes[0] * sizes[1]))


@final
class SpreadCurves(ReferenceMethod):
    """Mean correlation of the curves of standard deviations of queries, keys, values and outputs."""

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Want all attention matrices."""
        layers = self._layers(pair)
        return layers if isinstance(layers, Message) else (slices_of(layers[0]), slices_of(layers[1]))

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Read matrix by matrix and keep one number of each."""
        layers = self._layers(pair)
        if isinstance(layers, Message):
            return layers
        curves = [
            np.array(
                [
                    [float(np.std(reader.matrix(matrix), dtype=np.float64)) for matrix in layer]
                    for layer in side
                ]
            )
            for reader, side in zip(readers, layers, strict=True)
        ]
        found = {
            role.value.removeprefix("attention_"): correlation(curves[0][:, place], curves[1][:, place])
            for place, role in enumerate(ROLES)
        }
        known = {name: value for name, value in found.items() if value is not None}
        if len(known) < len(ROLES):
            return say("reference-flat-curve")
        return RawScore(score=float(np.mean(list(known.values()))), details=known)

    def _layers(
        self, pair: ReferencePair
    ) -> tuple[list[tuple[RoleMatrix, ...]], list[tuple[RoleMatrix, ...]]] | Message:
        def find(model: Model) -> list[tuple[RoleMatrix, ...]] | Message:
            if model.architecture.is_known and len(model.architecture.layers) < FEWEST_LAYERS:
                return say("reference-few-layers", n=len(model.architecture.layers), m=FEWEST_LAYERS)
            return layer_matrices_of(model, ROLES)

        return both_sides(pair.models, find)
