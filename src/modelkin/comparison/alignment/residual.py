"""Which coordinates of one residual stream face which of the other: learned on some rows, checked on others.

Rows are anything that both models read or write in the same order: embeddings of shared tokens, rows of the
output head, MLP units of some layers. How well the map fits is reported but is not evidence: strangers that
were trained on the same text have embeddings of similar geometry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say

Array = npt.NDArray[np.float32]
FrameKind = Literal["identity", "permutation", "signed-permutation", "rotation"]

_NEARLY = 0.02
"""A costlier kind of map must fit better by this much to be preferred."""
_MATCHED = 0.6
"""Share of dimensions that must match mutually before a permutation is tried."""
_LEARNED = 0.875
"""Largest share of rows to learn from if there are few; the rest are held out for the check."""
_ROWS_A_DIMENSION = 1.5
"""Rows that are enough to learn from: a rotation needs at least as many as there are dimensions."""
_ROUNDING = 1e-16
"""Eigenvalues below this share of the largest are rounding errors: double precision ends there."""
_CHECKED = 1024
"""Rows beyond those learned from: the mean cosine of this many is known to a thousandth."""
_SMALL = 2048
"""Up to this width the polar factor is taken from a singular value decomposition, which takes twice as long
as the eigenvectors of M'M but also holds where directions differ in size by more than eight orders."""
_HOPELESS = 0.01
"""If distances among rows agree less than this, no rotation can fit, and learning one is pointless. Rows that
are the same up to a rotation and noise, at cosine c, agree by about c squared."""
_COMPARED = 2048
"""Rows whose distances are compared."""
_STRIPE = 1024
"""Rows that are widened to double at once: 64 MB of the widest streams."""
FEWEST_ROWS = 32
"""Rows to learn from, and as many to check the map on: the error of a mean cosine is then below a fifth."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """A map from the candidate's residual coordinates to the base's."""

    kind: FrameKind
    learned_from: Message
    n_rows: int
    """Rows it was learned from; others were held out for the check."""
    fit: float
    """Mean cosine of the held-out rows, once mapped; 1 is perfect."""
    chance: float
    """The same for rows that do not belong together."""
    widths: tuple[int, int]
    places: npt.NDArray[np.intp] | None = field(repr=False, default=None)
    """For permutations: the candidate dimension at each place of the base; -1 for none."""
    signs: Array | None = field(repr=False, default=None)
    matrix: Array | None = field(repr=False, default=None)
    """For rotations."""
    sign_open: bool = False
    """Whether it may be all of it times minus one."""

    def reversed(self) -> Frame:
        """Return the map times minus one; the original coordinates have only one sign."""
        return replace(
            self,
            signs=None if self.signs is None else -self.signs,
            matrix=None if self.matrix is None else -self.matrix,
        )

    def is_settled_by(self, other: Frame) -> bool:
        """Say whether another is the same map with a sign that is no longer open."""
        same = (self.kind, self.learned_from, self.n_rows, self.fit)
        return (
            self.sign_open
            and not other.sign_open
            and same == (other.kind, other.learned_from, other.n_rows, other.fit)
        )

    def has_places_of(self, other: Frame) -> bool:
        """Say whether two permutations are the same one, signs aside."""
        if self.places is None or other.places is None:
            return False
        return np.array_equal(self.places, other.places)

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

    def as_matrix(self) -> Array:
        """Return the map as a matrix, candidate's dimensions by base's."""
        return self.apply(np.eye(self.widths[0], dtype=np.float32))


def find_frame(
    candidate: npt.ArrayLike, base: npt.ArrayLike, *, learned_from: Message, seed: int
) -> Frame | Message:
    """Find the simplest map from the candidate's rows to the base's.

    Tried in order of cost: identity, a permutation with signs, a rotation (Procrustes). A costlier one is
    taken only if it fits the held-out rows better. Widths may differ: then places without a counterpart stay
    empty. A rotation of equal widths is not tried if distances among rows, which no rotation changes, have
    nothing in common.

    Rows of the same number belong together; `learned_from` says what they are. The seed divides them into
    those to learn from and those held out: halves, if there are enough. If too few are usable, the result is
    the reason.
    """
    mine, theirs = (np.asarray(rows, dtype=np.float32) for rows in (candidate, base))
    del candidate, base  # wide models have rows of gigabytes: each copy goes when the next is made
    if len(mine) != len(theirs):
        raise ValueError(f"base: expected {len(mine)} rows, as candidate has, got {len(theirs)}")
    lengths = _row_lengths(mine), _row_lengths(theirs)
    usable = np.flatnonzero(np.all([np.isfinite(each) & (each > 0) for each in lengths], axis=0))
    if len(usable) < 2 * FEWEST_ROWS:
        return say("usable-rows", n=len(usable), place=learned_from, m=2 * FEWEST_ROWS)
    n_learned = _n_learned(len(usable), max(mine.shape[1], theirs.shape[1]))
    order = usable[np.random.default_rng(seed).permutation(len(usable))]
    fit, check = order[:n_learned], order[n_learned : 2 * n_learned]
    held = _directions(mine, lengths[0], check), _directions(theirs, lengths[1], check)
    blank = Frame(
        kind="identity",
        learned_from=learned_from,
        n_rows=n_learned,
        fit=0.0,
        chance=0.0,
        widths=(mine.shape[1], theirs.shape[1]),
    )
    best = _checked(blank, held) if mine.shape[1] == theirs.shape[1] else None
    if best is not None and best.fit > 1.0 - _NEARLY:
        return best  # nothing costlier can fit better
    a = _directions(mine, lengths[0], fit)
    del mine
    b = _directions(theirs, lengths[1], fit)
    del theirs
    hopeless = best is not None and _agreement_of_distances(a, b) < _HOPELESS
    # A permutation preserves distances too: if they have nothing in common, it can be no more
    # than some dimensions that kept their values, and fewer rows tell which.
    products = _Products.of(a[:_COMPARED], b[:_COMPARED]) if hopeless else _Products.of(a, b)
    del a, b
    for attempt in (_permutation,) if hopeless else (_permutation, _rotation):
        made = attempt(products, blank)
        if made is None:
            continue
        frame = _checked(made, held)
        if best is None or frame.fit > best.fit + _NEARLY:
            best = frame
        if best.fit > 1.0 - _NEARLY:
            break
    assert best is not None
    return best


def enough_rows(width: int, *, most: int) -> int:
    """Return how many rows a map of this many dimensions is learned from and checked on.

    If dimensions are few, that is `most` rows for each.
    """
    return min(most * width, int(_ROWS_A_DIMENSION * width) + _CHECKED)


def polar_factor(matrix: npt.NDArray[np.floating], *, rank: int | None = None) -> npt.NDArray[np.float64]:
    """Return the orthogonal (or semi-orthogonal) matrix nearest to the given one.

    Directions that the matrix does not determine (smaller than 10^-8 of the largest, in wide matrices) may
    come out as zero.

    `rank` is how many directions the matrix can determine, where these are not all: the rest of it is
    rounding, and comes out as zero.
    """
    if min(matrix.shape) <= _SMALL:
        left, _, right = np.linalg.svd(np.asarray(matrix, dtype=np.float64), full_matrices=False)
        return np.asarray(left[:, :rank] @ right[:rank], dtype=np.float64)
    if matrix.shape[0] < matrix.shape[1]:
        return polar_factor(matrix.T, rank=rank).T
    return _polar_by_eigenvectors(matrix, rank)


def _polar_by_eigenvectors(matrix: npt.NDArray[np.floating], rank: int | None) -> npt.NDArray[np.float64]:
    """Return M (M'M)^(-1/2), made orthogonal to rounding by one cubic step. At least as many rows as columns.

    Half the time of a decomposition at width 4096. The matrix is widened to float64 in stripes only: at
    8192 dimensions each further copy takes half a gigabyte.
    """
    gram = np.zeros((matrix.shape[1], matrix.shape[1]))
    for rows in _stripes(matrix):
        gram += rows.T @ rows
    sizes, vectors = np.linalg.eigh(gram)
    del gram
    known = sizes > _ROUNDING * max(float(sizes[-1]), 0.0)
    if rank is not None:
        known[: len(sizes) - rank] = False
    root = (vectors * np.where(known, 1.0 / np.sqrt(np.where(known, sizes, 1.0)), 0.0)) @ vectors.T
    del vectors
    found = np.concatenate([rows @ root for rows in _stripes(matrix)])
    del root
    step = found.T @ found
    step *= -0.5
    step[np.diag_indices_from(step)] += 1.5
    return np.asarray(found @ step, dtype=np.float64)


def _stripes(matrix: npt.NDArray[np.floating]) -> Iterator[npt.NDArray[np.float64]]:
    for start in range(0, len(matrix), _STRIPE):
        yield np.asarray(matrix[start : start + _STRIPE], dtype=np.float64)


def _agreement_of_distances(a: Array, b: Array) -> float:
    """Return the correlation of products among the first rows of one side with those of the other side."""
    products = [rows[:_COMPARED] @ rows[:_COMPARED].T for rows in (a, b)]
    pairs = np.triu_indices(len(products[0]), 1)
    both = np.array([values[pairs] for values in products], dtype=np.float64)
    both -= both.mean(axis=1, keepdims=True)
    size = float(np.sqrt(np.prod(np.einsum("ij,ij->i", both, both))))
    return float(both[0] @ both[1]) / size if size > 0 else 0.0


def _n_learned(n_rows: int, width: int) -> int:
    """Return how many rows to learn from: half, or more if that would be too few for a rotation."""
    enough = min(int(_LEARNED * n_rows), n_rows - FEWEST_ROWS, int(_ROWS_A_DIMENSION * width))
    return max(n_rows // 2, enough)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Products:
    """What permutations and rotations are learned from: columns of one side by columns of the other."""

    cross: Array
    norms: tuple[Array, Array]

    @classmethod
    def of(cls, a: Array, b: Array) -> _Products:
        return cls(cross=a.T @ b, norms=(_column_norms(a), _column_norms(b)))


def _permutation(products: _Products, blank: Frame) -> Frame | None:
    """Match dimensions by their values over rows; each must be the other's best match."""
    cosine = products.cross / products.norms[0][:, None] / products.norms[1]
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


def _rotation(products: _Products, blank: Frame) -> Frame:
    rank = min(blank.n_rows, *blank.widths)
    return replace(blank, kind="rotation", matrix=polar_factor(products.cross, rank=rank).astype(np.float32))


def _checked(frame: Frame, held: tuple[Array, Array]) -> Frame:
    """Measure a map on held-out rows."""
    mapped, wanted = unit_rows(frame.apply(held[0])), unit_rows(held[1])
    return replace(
        frame,
        fit=float(np.einsum("ij,ij->i", mapped, wanted).mean()),
        chance=float(np.einsum("ij,ij->i", np.roll(mapped, 1, axis=0), wanted).mean()),
    )


def _row_lengths(rows: Array) -> Array:
    """Return the length of each row, in stripes: squaring all numbers at once would be one more copy."""
    stripes = (rows[start : start + _STRIPE] for start in range(0, len(rows), _STRIPE))
    return np.concatenate([np.zeros(0, np.float32), *(np.linalg.norm(each, axis=1) for each in stripes)])


def _directions(rows: Array, lengths: Array, chosen: npt.NDArray[np.intp]) -> Array:
    """Return some rows, scaled to norm 1, without their mean."""
    picked = rows[chosen]
    picked /= lengths[chosen, None]
    picked -= picked.mean(axis=0)
    return picked


def unit_rows(rows: Array) -> Array:
    """Make every row one long; rows of zeros stay zero."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-20), np.float32)


def _column_norms(rows: Array) -> Array:
    return np.asarray(np.maximum(np.linalg.norm(rows, axis=0), 1e-20), dtype=np.float32)
