"""From two arrays to rows that can be tested: which units, which features, which scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, joined, say

from ._result import NotTestable
from .ranks import Array, is_constant, normal_scores, standardised

Vectors = Sequence[npt.ArrayLike] | npt.NDArray[np.floating[Any]]
"""A list of vectors, or a matrix with vectors in its rows."""
# With three units even the best of all 3! orders has p = 1/6; with four, 1/24.
MIN_UNITS = 4
# Longest rows whose squares are summed in single precision: in that many terms the error stays below 1e-5.
_LONGEST_SINGLE = 16_384
# Numbers whose squares are summed at once, where rows mean nothing.
_LINE = 4_096
# Sums of squares that single precision holds to full precision, with room for every term of a row.
_SAFE_SQUARES = 1e-25, 1e30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Rows of both models, ready to be compared."""

    candidate: Array
    base: Array
    candidate_norms: Array = field(repr=False)
    """Norms before any scaling."""
    base_norms: Array = field(repr=False)
    n_excluded: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointFeatures:
    """One row per unit, one column per vector of each model; all vectors are permuted together."""

    candidate: npt.NDArray[np.float64] = field(repr=False)
    base: npt.NDArray[np.float64] = field(repr=False)
    used: tuple[int, ...]
    """Which of the pairs became columns."""
    skipped: tuple[tuple[int, Message], ...]
    """Which did not, and why."""


def joint_features(
    *, candidate: Vectors, base: Vectors, rank_normalise: bool = True
) -> JointFeatures | NotTestable:
    """Put vectors over one axis, such as the norm gains of all layers, side by side.

    Vectors of neighbouring layers of one model are strongly dependent. Tested one by one and added up as if
    independent, a mean correlation of 0.013 over 46 layers looks like z = 5.5. As columns of one matrix
    they are permuted together, and the dependence is part of the null.

    Each column is centred and scaled to unit variance, so that `AxisTest.effect` is the mean correlation;
    `axis_test` is then called with ``unit_rows=False``.

    Vector k of one model is compared with vector k of the other, of equal length. `rank_normalise` replaces
    values by the normal quantiles of their ranks first, so that a few outlier dimensions cannot make a
    correlation. Pairs in which a vector is constant, or not finite, are skipped; if none is left, there is no
    test.
    """
    if len(candidate) != len(base):
        raise ValueError(f"base: expected {len(candidate)} vectors, as candidate has, got {len(base)}")
    scale = normal_scores if rank_normalise else standardised
    columns: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []
    used: list[int] = []
    skipped: list[tuple[int, Message]] = []
    for k, pair in enumerate(zip(candidate, base, strict=True)):
        first, second = (np.asarray(vector, dtype=np.float64).reshape(-1, 1) for vector in pair)
        if len(first) != len(second) or (columns and len(first) != len(columns[0][0])):
            raise ValueError(f"vectors {k}: expected one length throughout, got {len(first)}, {len(second)}")
        reason = _unusable(first, second)
        if reason is None:
            used.append(k)
            columns.append((scale(first), scale(second)))
        else:
            skipped.append((k, reason))
    if not columns:
        reasons = sorted({reason for _, reason in skipped}, key=str) or [say("no-vectors")]
        return NotTestable(reason=joined(reasons))
    return JointFeatures(
        candidate=np.hstack([first for first, _ in columns]),
        base=np.hstack([second for _, second in columns]),
        used=tuple(used),
        skipped=tuple(skipped),
    )


def paired_units(
    candidate: npt.ArrayLike, base: npt.ArrayLike, *, unit_rows: bool, rank_normalise: bool
) -> Units | NotTestable:
    """Make rows of equal number comparable; units that are zero or not finite in one model are left out."""
    first, second = _as_rows(candidate, "candidate"), _as_rows(base, "base")
    if len(first) != len(second):
        raise ValueError(f"base: expected {len(first)} units, as candidate has, got {len(second)}")
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"base: expected {first.shape[1]} features, as candidate has, got {second.shape[1]}")
    norms = row_norms(first), row_norms(second)
    usable = (norms[0] > 0.0) & (norms[1] > 0.0) & np.isfinite(norms[0]) & np.isfinite(norms[1])
    n_units = int(np.count_nonzero(usable))
    if n_units < MIN_UNITS:
        return NotTestable(reason=say("usable-of", n=n_units, k=len(first), m=MIN_UNITS))
    if n_units < len(first):
        first, second, norms = first[usable], second[usable], (norms[0][usable], norms[1][usable])
    for name, rows in (("candidate", first), ("base", second)):
        if is_constant(rows).all():
            return NotTestable(reason=say("all-units-equal", side=say(f"side.{name}")))
    options = {"unit_rows": unit_rows, "rank_normalise": rank_normalise}
    return Units(
        candidate=scaled(first, norms=norms[0], **options),
        base=scaled(second, norms=norms[1], **options),
        candidate_norms=norms[0],
        base_norms=norms[1],
        n_excluded=len(usable) - n_units,
    )


def scaled(
    rows: Array,
    *,
    unit_rows: bool,
    rank_normalise: bool,
    norms: npt.NDArray[np.float64] | None = None,
) -> Array:
    """Apply the scaling that was asked for; either of them treats all units alike, so tests stay exact.

    `norms` of the rows need not be computed again if they are known.
    """
    if rank_normalise:
        rows, norms = normal_scores(rows).astype(rows.dtype), None
    if not unit_rows:
        return rows
    return of_length_one(rows, row_norms(rows) if norms is None else norms)


def of_length_one(rows: Array, norms: npt.NDArray[np.float64]) -> Array:
    """Divide rows by their norms; zeros stay zeros."""
    lengths = np.where(norms > 0.0, norms, 1.0)
    if rows.dtype == np.float32 and _is_safe(lengths**2).all():
        lengths = lengths.astype(np.float32)  # doubles would need three passes over the rows
    return np.asarray(rows / lengths[:, None], dtype=rows.dtype)


def _as_rows(values: npt.ArrayLike, name: str) -> Array:
    """Return a matrix of floats: single precision for narrower input, double otherwise."""
    rows = np.asarray(values)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"{name}: expected a matrix of units by features, got shape {rows.shape}")
    narrow = rows.dtype.itemsize <= 4 and rows.dtype.kind not in "iub"
    return rows.astype(np.float32, copy=False) if narrow else rows.astype(np.float64, copy=False)


def finite_or_zero(rows: Array) -> Array:
    """Return rows with zeros in place of what is not finite: the rows themselves if all of it is."""
    finite = np.isfinite(rows)
    return rows if finite.all() else np.where(finite, rows, rows.dtype.type(0))


def row_norms(rows: Array) -> npt.NDArray[np.float64]:
    """Return the Euclidean norm of each row, to five digits at least."""
    return np.asarray(np.sqrt(row_squares(rows)), dtype=np.float64)


def row_squares(rows: Array) -> npt.NDArray[np.float64]:
    """Return the sum of squares of each row, to five digits at least.

    In double precision, numpy turns every number into a double first, which takes four times as long as the
    sum. Single precision is enough for rows of ordinary length and size.

    >>> row_squares(np.array([[3.0, 4.0], [3e-30, 4e-30]], np.float32)).tolist()
    [25.0, 2.500000004797461e-59]
    """
    if rows.dtype != np.float32 or rows.shape[1] > _LONGEST_SINGLE:
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
    if not (safe := _is_safe(found)).all():
        again = rows[~safe]
        found[~safe] = np.einsum("ij,ij->i", again, again, dtype=np.float64)
    return np.asarray(found, dtype=np.float64)


def root_mean_square(values: Array) -> float:
    """Return the root of the mean square, to five digits at least; 0 of nothing."""
    flat = values.ravel(order="K")  # no copy of what is contiguous, in whichever order
    rest = flat.size % _LINE
    lines, last = flat[: flat.size - rest].reshape(-1, _LINE), flat[flat.size - rest :].reshape(1, -1)
    total = float(row_squares(lines).sum()) + float(row_squares(last).sum())
    return math.sqrt(total / flat.size) if flat.size else 0.0


def _is_safe(squares: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    least, most = _SAFE_SQUARES
    return np.asarray((squares > least) & (squares < most))


def _unusable(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Message | None:
    for name, column in (("candidate", first), ("base", second)):
        if not np.isfinite(column).all():
            return say("not-finite", side=say(f"side.{name}"))
        if is_constant(column).all():
            return say("values-equal", side=say(f"side.{name}"), n=_rounded(float(column[0, 0])))
    return None


def _rounded(value: float) -> float:
    return round(value) if math.isclose(value, round(value)) else float(f"{value:.4g}")
