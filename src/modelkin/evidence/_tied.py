"""Units that are tied to coordinates by convention: there, equal numbers mean nothing."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

TIED = "in both models unit i is tied to coordinate i by design, so equal numbers mean nothing"
MOST_Z = 5.0
"""Chance reaches this once in two million models; an initialisation near the identity exceeds it by far."""
MOST_RHO = 0.75
"""The same for few units, which cannot reach `MOST_Z`. Both models must be tied, so one in ten thousand here
is one in a hundred million."""


def is_tied(rows: npt.ArrayLike) -> bool:
    """Say whether the strongest feature of a unit moves along with the unit's number.

    Some models begin near the identity (unit i reads dimension i), by design and not by chance. Two
    strangers of that kind agree in their numbering, and an order test would take it for a common origin.
    In a model of the usual kind the place of a unit's strongest feature has nothing to do with its own.
    """
    values = np.abs(np.asarray(rows, dtype=np.float64))
    usable = np.isfinite(values).all(axis=1) & (values.max(axis=1, initial=0.0) > 0)
    strongest = np.argmax(values[usable], axis=1)
    if len(strongest) < 4 or len(set(strongest.tolist())) < 3:
        return False
    places = np.flatnonzero(usable)
    rho = np.corrcoef(_ranks(places), _ranks(strongest))[0, 1]
    return bool(abs(rho) > MOST_RHO or abs(rho) * math.sqrt(len(places) - 1) > MOST_Z)


def _ranks(values: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)
