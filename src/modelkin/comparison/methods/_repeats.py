"""Units that stand in one model several times: padding and other fillers, which nobody trained."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modelkin.tensors import Array

SAME = 1e-4
"""Distance of two directions below which they are one; rounding leaves less, training far more."""


def stands_alone(rows: Array) -> npt.NDArray[np.bool_]:
    """Say of each unit whether no other unit of the same model has its direction.

    Zeros that were added to fill up a block come back from some codes as one and the same small vector. Two
    strangers that were filled up in the same places agree there, all of them at once. Which units are left
    out depends on each model alone, so that the order of the others is as arbitrary as before.

    Units that are zero or no numbers stand alone: the test leaves them out itself.

    >>> stands_alone(np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 4.0], [0.0, 0.0], [0.0, 0.0]])).tolist()
    [False, True, False, True, True]
    """
    values = np.asarray(rows, np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", values, values))
    usable = np.flatnonzero((norms > 0.0) & np.isfinite(norms))
    alone = np.ones(len(values), np.bool_)
    if values.shape[1] < 2 or len(usable) < 2:
        return alone
    units = values[usable] / norms[usable, None]
    # Equal directions are neighbours when sorted along any line; of the others only few are, by chance.
    line = np.random.default_rng(0).standard_normal(units.shape[1])
    order = np.argsort(units @ line, kind="stable")
    near = np.linalg.norm(np.diff(units[order], axis=0), axis=1) < SAME
    repeated = np.concatenate([near, [False]]) | np.concatenate([[False], near])
    alone[usable[order[repeated]]] = False
    return alone
