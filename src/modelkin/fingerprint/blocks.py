"""From rows of one model to a block of a fingerprint. Every step treats all units of the model alike.

That keeps the test exact: whatever is done here to one model, an arbitrary order of its units before is an
arbitrary order of the block's rows after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.comparison.methods.axis import stands_alone
from modelkin.comparison.methods.tied import is_tied
from modelkin.message import Message, say
from modelkin.stats import is_sorted
from modelkin.tensors import Array

from .recipe import GRAM_BYTES, N_BUNDLES, N_COMPONENTS, N_FEATURES, Signs, Slot

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]

FEWEST_UNITS = 8
"""With fewer, the best of all orders has at best p = 1/5040."""
FEWEST_FOR_GRAM = 32
"""Units in each half: likeness with fewer says next to nothing."""
MOST_OFFSET_Z = 5.0
"""z at an offset of numbers between the two halves of a layer's units above which they are not exchangeable:
trained blocks reach 3.9, interleaved rows of gate and up 8 and more."""
_SMALL_GAIN = 0.25
"""Share of the root mean square of a vector below which a gain is small."""
_MANY_SMALL = 0.05
"""Share of small gains in a vector from which they may lie under a mask. Trained vectors of the zoo have at
most 0.01; a mask on fewer of 128 dimensions is no finding."""
_FEW_VECTORS = 0.125
"""Share of vectors that may have so many small gains without a mask: TinyLlama has them in its first norm
alone, one of 25."""
_STEP = 32.0
"""One standard deviation, in steps of 8 bits."""
_LEAST_EIGENVALUE = 1e-6
"""Share of the largest below which a feature is a sum of others, and only rounding would be whitened."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SketchedBlock:
    """One block, and what must be known about its units."""

    codes: Codes
    """Units by features; zero for unused units."""
    marks: tuple[str, ...] = ()
    """``tied``, ``sorted``: signs that the order of units may not be arbitrary."""


Sketched = SketchedBlock | Message
"""A block, or why there is none."""


def unit_directions(rows: Array) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return units of norm 1 without their mean, and which of them may be used.

    Units that are zero, NaN, or repeated in the model are zero.
    """
    values = np.asarray(rows, np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", values, values))
    usable = np.isfinite(norms) & (norms > 0.0)
    usable &= stands_alone(np.where(usable[:, None], values, 0.0))
    units = np.zeros_like(values)
    units[usable] = values[usable] / norms[usable, None]
    if usable.any():
        units[usable] -= units[usable].mean(axis=0)
    return units, usable


def order_marks(rows: Array) -> tuple[str, ...]:
    """Name the signs that the order of one model's units is not arbitrary."""
    norms = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    marks = ["tied"] if is_tied(rows) else []
    if len(norms) >= FEWEST_UNITS and np.isfinite(norms).all() and is_sorted(norms):
        marks.append("sorted")
    return tuple(marks)


def gain_marks(gains: Array) -> tuple[str, ...]:
    """Mark vectors of gains, (vectors, dimensions), of which many are small, as a mask leaves them.

    Strangers under one mask have small gains in the same places, whatever has filled its zeros since, so that
    dimensions are tied to places. Sums of ranks do not tell what is small.
    """
    sizes = np.abs(gains)
    limits = _SMALL_GAIN * np.sqrt(np.mean(sizes**2, axis=1, keepdims=True))
    many = np.mean(sizes <= limits, axis=1) >= _MANY_SMALL
    return ("tied",) if np.mean(many) > _FEW_VECTORS else ()


def block_of(
    features: Array, usable: npt.NDArray[np.bool_], slot: Slot, *, marks: tuple[str, ...] = ()
) -> Sketched:
    """Whiten features over the units that may be used, and round them to 8 bits."""
    n_usable = int(np.count_nonzero(usable))
    if n_usable < FEWEST_UNITS:
        return say("few-units", n=n_usable)
    values = np.asarray(features, np.float64)[usable]
    white = _whitened(values - values.mean(axis=0))
    if white is None:
        return say("equal-units")
    codes = np.zeros((slot.n_units, N_FEATURES), np.int8)
    rounded = np.clip(np.rint(white * _STEP), -127, 127).astype(np.int8)
    codes[np.flatnonzero(usable), : white.shape[1]] = rounded
    return SketchedBlock(codes=codes, marks=marks)


def _whitened(centred: Numbers) -> Numbers | None:
    """Transform features to unit variance and no correlation, as close to the originals as possible."""
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > _LEAST_EIGENVALUE * max(float(values[-1]), 0.0)
    if not kept.any() or not np.isfinite(values).all() or values[-1] <= 0.0:
        return None
    scale = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(centred @ (vectors * scale) @ vectors.T, np.float64)


def offset_z(first: Numbers, second: Numbers) -> float:
    """Return the largest |z| of the similarity of two halves at an offset of their numbers."""
    n = min(len(first), len(second))
    similarity = (first[:n] - first[:n].mean(axis=0)) @ (second[:n] - second[:n].mean(axis=0)).T
    sigma = float(np.linalg.norm(similarity)) / math.sqrt(max(1, n - 1))
    if not sigma > 0.0:
        return 0.0
    wrapped = np.concatenate([similarity, similarity], axis=1)
    sums = [float(np.trace(wrapped, offset=offset)) for offset in range(n)]
    return max(map(abs, sums)) / sigma


def token_gram(rows: Array, bundles: npt.NDArray[np.intp], signs: Signs) -> Codes | None:
    """Make the Gram matrix of bundles of tokens, without what all language models have in common.

    It does not change when coordinates are permuted or rotated. It is not a test: unrelated models are alike
    to some degree, so it only says where to look.
    """
    values = np.asarray(rows, np.float64)
    norms = np.linalg.norm(values, axis=1)
    usable = np.isfinite(norms) & (norms > 0.0)
    if np.count_nonzero(usable) < N_BUNDLES:
        return None
    units = np.where(usable[:, None], values, 0.0) / np.where(usable, norms, 1.0)[:, None]
    units[usable] -= units[usable].mean(axis=0)
    sums = np.zeros((N_BUNDLES, values.shape[1]))
    np.add.at(sums, bundles, units * signs[:, None])
    gram = sums @ sums.T
    eigenvalues, vectors = np.linalg.eigh(gram)
    strongest = np.argsort(-np.abs(eigenvalues))[:N_COMPONENTS]
    gram -= (vectors[:, strongest] * eigenvalues[strongest]) @ vectors[:, strongest].T
    found = gram[np.triu_indices(N_BUNDLES, 1)]
    size = float(np.sqrt(np.mean(found**2)))
    if not (math.isfinite(size) and size > 0.0):
        return None
    codes = np.clip(np.rint(found / size * _STEP), -127, 127).astype(np.int8)
    assert len(codes) == GRAM_BYTES
    return codes
