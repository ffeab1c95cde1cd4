"""What is measured for one tensor, and sums over many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from modelkin.lineage.geometry import Floats, Grams, mixture, weight_errors
from modelkin.lineage.merge_result import MergeCell, MixtureShare
from modelkin.lineage.patterns import Arc, Sparse, fit_dropped, fit_elected, unchanged_share
from modelkin.lineage.selections import fit_banded, fit_by_variance, fit_stock

LEAST_UNCHANGED = 0.02
"""Share of values that stayed as in the base. Rounding leaves a few by chance; a sparse merge leaves most."""
_EVEN = 0.15
"""Of the median size, how far what is left may vary over most matrices. Noise varies by 0.03 and rounding to
three bits by 0.09; what relatives of the zoo learned besides, by 0.27 and more."""
_FEWEST_CROSSED = 4
"""Fewer tensors give no interval."""
# Enough for an interval of 95 %.
_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseFits:
    """How well each way of choosing differences from the base predicts one tensor, over its scale.

    None if a way was not tried: chosen differences leave some values as they are in the base.
    """

    unchanged: float
    dropped: Sparse | None
    elected: Sparse | None
    banded: Sparse | None
    varied: Sparse | None
    stock: Sparse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFit:
    """One tensor with everything its mixture is judged by, over the mean squared distance of the points."""

    cell: MergeCell
    gram: Floats
    left: float
    star: float
    floor: float | None
    """What rounding leaves."""
    arc: tuple[Arc, float] | None
    """The closest point on the arc between two parents, and what the straight line leaves."""
    sparse: SparseFits | None
    is_matrix: bool
    rounded: tuple[Floats, Floats] | None = None
    """What `gram` would be of the fitted mixture as it is stored, and of the same before rounding; None if it
    is not known, or if more than rounding is left."""
    size: float = 0.0
    """What the mixture leaves, over the sum of the candidate's squares."""
    dense: bool = False
    """Whether an expert faces the MLP of a dense model."""

    def single(self, place: int) -> float:
        """Return the squared distance of one parent."""
        return float(self.gram[place, place])


def sparse_fits(
    mine: Floats, parents: Sequence[Floats], base: Floats, scale: float, steps: Floats | None
) -> SparseFits | None:
    """Explain a tensor by chosen differences from a base; None if no value was changed by all parents.

    Parents that equal the base here have no differences to choose: then only what is unchanged is told.

    Parameters
    ----------
    mine, parents, base
        Values of one tensor.
    scale
        What squared distances are divided by.
    steps
        Distance of neighbouring numbers that the candidate's format can hold, if that is known.
    """
    delta, tasks = mine - base, [parent - base for parent in parents]
    moving = [task for task in tasks if task.any()]
    unchanged = unchanged_share(delta, moving) if moving else None
    if unchanged is None:
        return None
    if len(moving) < len(tasks):
        return SparseFits(
            unchanged=unchanged, dropped=None, elected=None, banded=None, varied=None, stock=None
        )
    sparse = unchanged >= LEAST_UNCHANGED

    def scaled(fit: Sparse | None) -> Sparse | None:
        return None if fit is None else replace(fit, left=fit.left / scale, size=fit.size / scale)

    return SparseFits(
        unchanged=unchanged,
        dropped=scaled(fit_dropped(delta, tasks, steps)) if sparse else None,
        elected=scaled(fit_elected(delta, tasks)) if sparse else None,
        banded=scaled(fit_banded(delta, tasks)) if sparse else None,
        varied=scaled(fit_by_variance(delta, tasks)),
        stock=scaled(fit_stock(delta, tasks)),
    )


def pooled_weights(fits: Sequence[CellFit]) -> tuple[MixtureShare, ...]:
    """Fit one mixture to several tensors, equally weighted; intervals from how much they differ."""
    parts = Grams(chunks=np.stack([fit.gram for fit in fits]), n=len(fits))
    weights = mixture(parts.total)
    if len(fits) <= len(weights):
        # Too few tensors to see how they differ: their own intervals are what is known.
        widths = [
            max(fit.cell.weights[i].high - fit.cell.weights[i].low for fit in fits) / 2
            for i in range(len(weights))
        ]
    else:
        widths = list(weight_errors(parts, weights))
    return shares(weights, np.asarray(widths), _moved_by_rounding(fits))


def shares(weights: Floats, errors: Floats, moved: Floats | None) -> tuple[MixtureShare, ...]:
    """Return weights with their intervals; what rounding may have moved them by is inside.

    Parameters
    ----------
    weights, errors
        Fitted weights, and half of their intervals by chance.
    moved
        How far rounding moves weights such as these, if that is known.
    """
    before = weights if moved is None else weights - moved
    return tuple(
        MixtureShare(value=float(w), low=float(min(w, b) - e), high=float(max(w, b) + e))
        for w, b, e in zip(weights, before, errors, strict=True)
    )


def _moved_by_rounding(fits: Sequence[CellFit]) -> Floats | None:
    """Return how far rounding moves the pooled weights, as far as tensors are mixtures up to rounding."""
    if not any(fit.rounded for fit in fits):
        return None
    stored, before = (
        np.sum([fit.rounded[side] if fit.rounded else fit.gram for fit in fits], axis=0) for side in (0, 1)
    )
    return np.asarray(mixture(stored) - mixture(before), np.float64)


def pooled_opposition(fits: Sequence[CellFit], seed: int) -> MixtureShare | None:
    """Return the opposition over tensors with a bootstrap 95 % interval."""
    used = [fit for fit in fits if fit.star > (fit.floor or 0.0)]
    if not used:
        return None
    left, star = np.asarray([fit.left for fit in used]), np.asarray([fit.star for fit in used])
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(used), size=(_DRAWS, len(used)))
    drawn = 1.0 - left[picks].sum(axis=1) / star[picks].sum(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return MixtureShare(value=float(1.0 - left.sum() / star.sum()), low=float(low), high=float(high))


def is_even(fits: Sequence[CellFit]) -> bool:
    """Say whether mixtures leave about the same share of every matrix, as noise and rounding do."""
    sizes = np.sqrt([fit.size for fit in fits if fit.is_matrix])
    if len(sizes) < _FEWEST_CROSSED:
        return False
    low, middle, high = np.quantile(sizes, [0.1, 0.5, 0.9])
    return bool(high - low <= _EVEN * middle)


def pooled_crossing(
    fits: Sequence[CellFit], pair: tuple[int, int], other: int, seed: int
) -> MixtureShare | None:
    """Return how far two parents lie on opposite sides of the candidate as seen from a third point.

    Differences to the candidate have products. What only the candidate changed, noise or training, is in all
    of them alike. Of relatives that branched off and changed on their own, two of the three products are
    equal and the third is larger, whatever the tree; of a mixture, that of the two parents is the smallest.
    The result is how much smaller, over a quarter of the squared distance of the parents: 1 for a mixture in
    equal parts, 0 or less for a tree.
    """
    held = [fit.gram for fit in fits if fit.is_matrix]
    if len(held) < _FEWEST_CROSSED:
        return None
    (i, j), grams = pair, np.stack(held)
    products = np.stack([grams[:, i, other], grams[:, j, other], grams[:, i, j]], axis=1)
    away = grams[:, i, i] + grams[:, j, j] - 2 * grams[:, i, j]
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(held), size=(_DRAWS, len(held)))
    drawn = _crossing(products[picks].sum(axis=1), away[picks].sum(axis=1))
    value = _crossing(products.sum(axis=0)[None], away.sum(axis=0)[None])
    low, high = np.quantile(drawn, [0.025, 0.975])
    return MixtureShare(value=float(value[0]), low=float(low), high=float(high))


def _crossing(products: Floats, away: Floats) -> Floats:
    smaller = np.minimum(products[:, 0], products[:, 1]) - products[:, 2]
    return np.asarray(4 * smaller / np.where(away > 0, away, 1.0), np.float64)
