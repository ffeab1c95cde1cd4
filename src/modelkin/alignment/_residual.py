"""Which coordinates of one residual stream face which of the other: learned on some rows, checked on others.

Rows are anything that both models read or write in the same order: embeddings of shared tokens, rows of the
output head, MLP units of some layers. How well the map fits is reported and is no evidence: strangers that
were trained on the same text have embeddings of like geometry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
FrameKind = Literal["identity", "permutation", "signed-permutation", "rotation"]

_NEARLY = 0.02
"""A costlier kind of map must fit better by this much to be preferred."""
_MATCHED = 0.6
"""Share of dimensions that must find each other before a permutation is tried."""
FEWEST_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """A map from the candidate's residual coordinates to the base's."""

    kind: FrameKind
    learned_from: str
    n_rows: int
    """Rows it was learned from; as many were kept apart for the check."""
    fit: float
    """Mean cosine of the rows kept apart, once mapped; 1 is perfect."""
    chance: float
    """The same for rows that do not belong together."""
    widths: tuple[int, int]
    places: npt.NDArray[np.intp] | None = field(repr=False, default=None)
    """For permutations: the candidate dimension that stands at each place of the base; -1 for none."""
    signs: Array | None = field(repr=False, default=None)
    matrix: Array | None = field(repr=False, default=None)
    """For rotations."""

    def apply(self, rows: npt.ArrayLike) -> Array:
        """Turn rows over the candidate's dimensions into rows over the base's."""
        values = np.asarray(rows, dtype=np.float32)
        if self.kind == "identity":
            return values
        if self.matrix is not None:
            return np.asarray(values @ self.matrix, dtype=np.float32)
        assert self.places is not None
        assert self.signs is not None
        return np.asarray(values[..., self.places] * (self.signs * (self.places >= 0)), dtype=np.float32)


def find_frame(candidate: npt.ArrayLike, base: npt.ArrayLike, *, learned_from: str, seed: int) -> Frame | str:
    """Find the simplest map that takes the candidate's rows to the base's.

    Tried in the order of their cost: as they are, a permutation with signs, a rotation (Procrustes). A
    costlier one is taken only where it fits the rows that were kept apart better. Widths may differ: then
    places without a counterpart stay empty.

    Parameters
    ----------
    candidate, base
        Rows that belong together, equally many.
    learned_from
        In words, what they are.
    seed
        Divides the rows into halves.

    Returns
    -------
    Frame or str
        A reason, where there are too few usable rows.
    """
    mine, theirs = _usable(candidate, base)
    if len(mine) < 2 * FEWEST_ROWS:
        return f"only {len(mine)} usable rows in {learned_from}; at least {2 * FEWEST_ROWS} are needed"
    order = np.random.default_rng(seed).permutation(len(mine))
    half = len(mine) // 2
    fit, check = order[:half], order[half : 2 * half]
    a, b = _centred(mine[fit]), _centred(theirs[fit])
    held = _centred(mine[check]), _centred(theirs[check])
    blank = Frame(
        kind="identity",
        learned_from=learned_from,
        n_rows=half,
        fit=0.0,
        chance=0.0,
        widths=(a.shape[1], b.shape[1]),
    )
    best: Frame | None = None
    for attempt in (_identity, _permutation, _rotation):
        made = attempt(a, b, blank)
        if made is None:
            continue
        frame = _checked(made, held)
        if best is None or frame.fit > best.fit + _NEARLY:
            best = frame
        if best.fit > 1.0 - _NEARLY:
            break  # nothing dearer can fit better
    assert best is not None
    return best


def polar_factor(matrix: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the orthogonal (or semi-orthogonal) matrix nearest to the given one."""
    left, _, right = np.linalg.svd(np.asarray(matrix, dtype=np.float64), full_matrices=False)
    return np.asarray(left @ right, dtype=np.float64)


def _identity(a: Array, b: Array, blank: Frame) -> Frame | None:
    return replace(blank, kind="identity") if a.shape[1] == b.shape[1] else None


def _permutation(a: Array, b: Array, blank: Frame) -> Frame | None:
    """Match dimensions by their values over rows; each must be the best of the other."""
    cosine = _unit_columns(a).T @ _unit_columns(b)
    size = np.abs(cosine)
    to_candidate, to_base = np.argmax(size, axis=0), np.argmax(size, axis=1)
    mutual = to_base[to_candidate] == np.arange(size.shape[1])
    if np.count_nonzero(mutual) < _MATCHED * min(size.shape):
        return None
    signs = np.sign(cosine[to_candidate, np.arange(size.shape[1])]).astype(np.float32)
    signed = bool((signs[mutual] < 0).any())
    return replace(
        blank,
        kind="signed-permutation" if signed else "permutation",
        places=np.where(mutual, to_candidate, -1),
        signs=signs,
    )


def _rotation(a: Array, b: Array, blank: Frame) -> Frame:
    matrix = polar_factor(a.T.astype(np.float64) @ b.astype(np.float64))
    return replace(blank, kind="rotation", matrix=matrix.astype(np.float32))


def _checked(frame: Frame, held: tuple[Array, Array]) -> Frame:
    """Measure a map on rows that it has not seen."""
    mapped, wanted = _unit_rows(frame.apply(held[0])), _unit_rows(held[1])
    return replace(
        frame,
        fit=float(np.einsum("ij,ij->i", mapped, wanted).mean()),
        chance=float(np.einsum("ij,ij->i", np.roll(mapped, 1, axis=0), wanted).mean()),
    )


def _usable(candidate: npt.ArrayLike, base: npt.ArrayLike) -> tuple[Array, Array]:
    mine, theirs = (np.asarray(rows, dtype=np.float32) for rows in (candidate, base))
    if len(mine) != len(theirs):
        raise ValueError(f"base: expected {len(mine)} rows, as candidate has, got {len(theirs)}")
    norms = [np.linalg.norm(rows, axis=1) for rows in (mine, theirs)]
    kept = np.isfinite(norms[0]) & np.isfinite(norms[1]) & (norms[0] > 0) & (norms[1] > 0)
    return _unit_rows(mine[kept]), _unit_rows(theirs[kept])


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=0), dtype=np.float32)


def _unit_rows(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-20), np.float32)


def _unit_columns(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=0, keepdims=True), 1e-20), np.float32)
