"""MDIR: the polar factor of two embeddings, and how far its trace is from chance.

Zhang and Goldstein, 2025. For tokens that both models have, ``E' E_base`` has an orthogonal polar factor U.
Between relatives it is nearly a permutation with signs; a random one has small entries everywhere. The bound
is the large-deviation bound of the trace, with a union bound over permutations and signs::

    ln P <= -n^2 I(a) + ln n! + n ln 2,    I(a) = a^2/2 up to 1/2, then 1/8 - ln(2 (1 - a)) / 4

where a is the mean size of the matched entries.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.comparison.alignment import polar_factor
from modelkin.message import Message, say

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import SideReader, rows_slice
from .tails import LN10, assigned

LARGEST_SHARE = 1.0 - 1e-9
"""At one the bound is infinite; no computed value comes closer."""


_SMALLEST_STRETCH = 1e-12
"""Relative to the mean: a direction stretched less is lost in rounding, and so is its image."""

Floats = npt.NDArray[np.float64]


def log10_trace_bound(share: float, n: int, *, searched: bool) -> float:
    """Bound log10 P(trace of a random orthogonal matrix of size n >= share * n).

    If the best permutation and signs were `searched` for, that costs ``ln n! + n ln 2``.

    Examples
    --------
    >>> round(log10_trace_bound(0.5, 100, searched=False), 1)
    -542.9
    """
    a = min(max(share, 0.0), LARGEST_SHARE)
    rate = a * a / 2.0 if a <= 0.5 else 0.125 - 0.25 * math.log(2.0 * (1.0 - a))
    paid = math.lgamma(n + 1.0) + n * math.log(2.0) if searched else 0.0
    return min(0.0, (paid - n * n * rate) / LN10)


def _determines(cross: Floats, factor: Floats) -> bool:
    """Say whether a matrix determines its polar factor: for constant tables any would do."""
    stretch = factor.T @ cross
    stretch = (stretch + stretch.T) / 2.0
    size = float(np.trace(stretch)) / len(stretch)
    if not size > 0.0 or not math.isfinite(size):
        return False
    stretch[np.diag_indices_from(stretch)] -= _SMALLEST_STRETCH * size
    try:
        np.linalg.cholesky(stretch)
    except np.linalg.LinAlgError:
        return False
    return True


@final
class PolarTrace(ReferenceMethod):
    """Minus log10 of the bound for the best permutation with signs inside the polar factor."""

    uses_tokens = True

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for the rows of all shared tokens."""
        rows = pair.rows
        if isinstance(rows, Message):
            return rows
        widths = [model.index[name].shape[1] for model, name in zip(pair.models, rows.names, strict=True)]
        if widths[0] != widths[1]:
            return say("reference-widths")
        if len(rows) < widths[0]:
            return say("reference-rank", n=len(rows), m=widths[0])
        mine, theirs = ([rows_slice(name, numbers)] for name, numbers in rows.sides())
        return mine, theirs

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Take the polar factor and look for the permutation inside it."""
        rows = pair.rows
        if isinstance(rows, Message):
            return rows
        mine, theirs = (reader.rows(*side) for reader, side in zip(readers, rows.sides(), strict=True))
        cross = mine.T.astype(np.float64) @ theirs
        factor = polar_factor(cross)
        if not _determines(cross, factor):
            return say("reference-flat-tables")
        sizes = np.abs(factor)
        places = assigned(sizes)
        if isinstance(places, Message):
            return places
        n = len(factor)
        share = float(sizes[np.arange(n), places].mean())
        plain = float(np.trace(factor)) / n
        return RawScore(
            score=-log10_trace_bound(share, n, searched=True) + 0.0,
            details={
                "matched_share": share,
                "trace_share": plain,
                "trace_score": -log10_trace_bound(plain, n, searched=False) + 0.0,
                "tokens": float(len(rows)),
            },
        )
