"""Curves over the depth: spreads of attention matrices (PDF, intrinsic fingerprint; Yoon and others, 2025).

The standard deviation of each of the query, key, value and output matrices makes a curve over the layers.
Curves are stretched to one length if depths differ, and correlated; the score is the mean of the four.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say

from ._interface import RawScore, ReferencePair
from .layered import LayeredMethod, Layers
from .reading import SideReader

Curve = npt.NDArray[np.float64]


def stretched(curve: Curve, length: int) -> Curve:
    """Return a curve with this many points, by linear interpolation."""
    places = np.linspace(0.0, len(curve) - 1.0, length)
    return np.asarray(np.interp(places, np.arange(len(curve)), curve))


def correlation(first: Curve, second: Curve) -> float | None:
    """Return Pearson's correlation, with the shorter curve stretched; None if one is constant."""
    length = max(len(first), len(second))
    both = [stretched(curve, length) for curve in (first, second)]
    centred = [curve - curve.mean() for curve in both]
    sizes = [float(np.linalg.norm(curve)) for curve in centred]
    # A curve that is flat up to rounding has no shape to compare.
    if min(sizes) <= 1e-12 * max(float(np.abs(curve).max()) for curve in both):
        return None
    return float(centred[0] @ centred[1] / (sizes[0] * sizes[1]))


@final
class SpreadCurves(LayeredMethod):
    """Mean correlation of the curves of standard deviations of queries, keys, values and outputs."""

    fewest_layers = 3
    """Two points always lie on a line: their correlation is 1 or -1."""

    def compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], layers: Layers
    ) -> RawScore | Message:
        """Read matrix by matrix and keep one number for each."""
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
            for place, role in enumerate(self.roles)
        }
        known = {name: value for name, value in found.items() if value is not None}
        if len(known) < len(found):
            return say("reference-flat-curve")
        return RawScore(score=float(np.mean(list(known.values()))), details=known)
