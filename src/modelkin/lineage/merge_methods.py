"""Which way of merging predicts the candidate best, and whether that is certain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modelkin.lineage.merge_measures import LEAST_UNCHANGED, CellFit
from modelkin.lineage.merge_result import MergeMethod, MethodFit, MixtureShare
from modelkin.lineage.patterns import PARALLEL, Sparse
from modelkin.message import say

_PREDICTED = 0.9
"""Share of the difference from the base that dropped or elected differences must predict."""
_CLEARLY = 0.5
"""A method is preferred to another if it leaves at most this share of what the other leaves."""
_ROUNDED = 0.9
"""Share of tensors that are explained up to rounding, from which nothing is left for dropped differences."""
_NOTICED = 0.02
"""A share of a parent or of the base below this is within the error of any recipe's numbers."""
_UNEVEN = 0.08
"""If the share of kept differences is this far from rising evenly with their size, a rule chose them and not
chance: 0.02 by chance, 0.2 and more by rules."""
_RISES = 0.04
"""Of DELLA's epsilon: less cannot be told from DARE, whose differences all have the same chance."""
_EXACTLY = 0.99
"""Model Stock's ratio follows from angles: it predicts all of the candidate, or it is not the method."""
_AS_GOOD = 1.3
"""Model Stock has no weights to fit: it may leave this many times what fitted weights leave."""
_VARIES = 0.01
"""Spread of the ratio over tensors: with less, task arithmetic with equal weights gives the same."""
CHOOSING: dict[str, str] = {
    "ties": "elected",
    "dare": "dropped",
    "della": "dropped",
    "breadcrumbs": "banded",
    "sce": "varied",
}
"""Ways of merging that choose differences from a base -> the tensor fit that shows them."""
# What the arc may leave relative to the line, if nothing else shows a mixture.
_ON_ARC = 0.1
"""An arc is meant if it leaves at most this share of what the straight line leaves."""


def method_fits(fits: Sequence[CellFit], *, with_base: bool) -> tuple[MethodFit, ...]:
    """Return what each method leaves unexplained, or why it was not tried."""
    linear = MethodFit(method="linear", left=float(np.mean([fit.left for fit in fits])))
    return (linear, _slerp(fits), *_sparse(fits, with_base=with_base))


def _slerp(fits: Sequence[CellFit]) -> MethodFit:
    arcs = [fit.arc for fit in _arched(fits) if fit.arc is not None]
    if not arcs:
        return MethodFit(method="slerp", left=None, reason=say("merge-no-arc"))
    details = (
        ("t", float(np.median([arc.t for arc, _ in arcs]))),
        ("left_straight", float(np.mean([line for _, line in arcs]))),
    )
    return MethodFit(method="slerp", left=float(np.mean([arc.left for arc, _ in arcs])), details=details)


def _sparse(fits: Sequence[CellFit], *, with_base: bool) -> tuple[MethodFit, ...]:
    if not with_base:
        reason = say("merge-needs-base")
        return tuple(MethodFit(method=name, left=None, reason=reason) for name in (*CHOOSING, "model-stock"))
    found = []
    for name, attribute in (*CHOOSING.items(), ("model-stock", "stock")):
        kept = sparse_of(fits, attribute)
        if not kept:
            found.append(MethodFit(method=name, left=None, reason=say("merge-nothing-unchanged")))
            continue
        left, size = _left_of_all(fits, attribute)
        details: tuple[tuple[str, float], ...] = (
            ("predicted", 1.0 - sum(left) / sum(size) if sum(size) > 0 else 0.0),
            ("density", float(np.median([np.mean(item.densities) for item in kept]))),
        )
        if attribute == "dropped":
            details = (
                *details,
                ("magnitude_of_kept", float(np.median([item.magnitude for item in kept]))),
                ("epsilon", float(np.median([item.epsilon for item in kept]))),
                ("uneven", float(np.median([item.uneven for item in kept]))),
            )
        if name == "breadcrumbs":
            details = (*details, ("gamma", float(np.median([item.gamma for item in kept]))))
        if name == "model-stock":
            ratios = [sum(item.weights) for item in kept]
            details = (
                ("predicted", details[0][1]),
                ("ratio", float(np.median(ratios))),
                ("spread", float(np.std(ratios))),
            )
        found.append(MethodFit(method=name, left=float(np.mean(left)), details=details))
    return tuple(found)


def _left_of_all(fits: Sequence[CellFit], attribute: str) -> tuple[list[float], list[float]]:
    """Return what a method leaves of each matrix, and how far that is from the base.

    A matrix in which hardly anything stayed as in the base is not predicted by such a method: it leaves what
    the mixture leaves. Otherwise the matrices that it happens to fit would speak for those that it does not.
    """
    left, size = [], []
    for fit in fits:
        if fit.sparse is None or not fit.is_matrix:
            continue
        held: Sparse | None = getattr(fit.sparse, attribute)
        if held is not None:
            left.append(held.left)
            size.append(held.size)
        elif fit.sparse.unchanged < LEAST_UNCHANGED:
            left.append(fit.left)
            size.append(fit.single(-1))
    return left, size


def sparse_of(fits: Sequence[CellFit], attribute: str) -> list[Sparse]:
    """Return the fits of one sparse method, of matrices."""
    found = [getattr(fit.sparse, attribute) for fit in fits if fit.sparse is not None and fit.is_matrix]
    return [item for item in found if item is not None]


def chosen_method(
    fits: Sequence[CellFit], weights: Sequence[MixtureShare], tried: Sequence[MethodFit], *, with_base: bool
) -> MergeMethod:
    """Name the method, or say which ones cannot be told apart."""
    by_name = {fit.method: fit for fit in tried}
    known = [fit.cell.to_rounding for fit in fits if fit.cell.to_rounding is not None]
    if not (known and sum(known) >= _ROUNDED * len(known)):
        sparse = [fit for fit in tried if fit.method in CHOOSING and _predicts(fit, fits)]
        if sparse:
            return min(sparse, key=lambda fit: fit.left or 0.0).method  # type: ignore[return-value]
    if with_base and _bends(by_name["slerp"], fits):
        return "slerp"
    if with_base and _is_stock(by_name["model-stock"], fits):
        return "model-stock"
    if with_base and weights[-1].low * weights[-1].high > 0 and abs(weights[-1].value) >= _NOTICED:
        return "task-arithmetic"
    slerp = by_name["slerp"]
    if slerp.left is None:
        return "linear"
    line = dict(slerp.details)["left_straight"]
    if slerp.left <= _CLEARLY * line:
        return "slerp"
    return "linear" if line <= _CLEARLY * slerp.left else "linear-or-slerp"


def _bends(slerp: MethodFit, fits: Sequence[CellFit]) -> bool:
    """Say whether the arc between two parents leaves clearly less than any mixture of them and the base.

    An arc bends away from the straight line, and some of that looks like a share of the base.
    """
    mixed = [fit.left for fit in _arched(fits)]
    if slerp.left is None:
        return False
    least = min(dict(slerp.details)["left_straight"], float(np.mean(mixed)))
    return slerp.left <= _CLEARLY * least


def _arched(fits: Sequence[CellFit]) -> list[CellFit]:
    """Return the matrices whose arc is not a straight line."""
    return [fit for fit in fits if fit.arc is not None and fit.is_matrix and fit.arc[0].cosine < PARALLEL]


def on_arc(tried: Sequence[MethodFit]) -> bool:
    """Say whether an arc between two parents gives the candidate where the straight line does not."""
    slerp = next(fit for fit in tried if fit.method == "slerp")
    if slerp.left is None:
        return False
    details = dict(slerp.details)
    return slerp.left <= _ON_ARC * details["left_straight"] and _NOTICED <= details["t"] <= 1.0 - _NOTICED


def _predicts(fit: MethodFit, fits: Sequence[CellFit]) -> bool:
    if fit.left is None or dict(fit.details)["predicted"] < _PREDICTED:
        return False
    attribute, details = CHOOSING[fit.method], dict(fit.details)
    if attribute == "dropped" and details["uneven"] > _UNEVEN:
        return False
    if attribute == "dropped" and (details["epsilon"] >= _RISES) != (fit.method == "della"):
        return False
    matrices = [item for item in fits if item.is_matrix]
    plain = float(np.mean([item.left for item in matrices]))
    return len(sparse_of(fits, attribute)) >= _CLEARLY * len(matrices) and fit.left <= _CLEARLY * plain


def _is_stock(fit: MethodFit, fits: Sequence[CellFit]) -> bool:
    """Say whether the ratio that follows from angles gives the candidate, and no single ratio would."""
    details = dict(fit.details)
    if fit.left is None or details["predicted"] < _EXACTLY or details["spread"] < _VARIES:
        return False
    matrices = [
        item for item in fits if item.is_matrix and item.sparse is not None and item.sparse.stock is not None
    ]
    fitted = sum(max(item.left, item.floor or 0.0) for item in matrices)
    own = sum(item.sparse.stock.left for item in matrices if item.sparse and item.sparse.stock)
    return own <= _AS_GOOD * fitted


def is_upcycled(fits: Sequence[CellFit]) -> bool:
    """Say whether experts of the candidate face dense MLPs."""
    return any(fit.cell.group == "experts" and fit.cell.expert is not None and fit.dense for fit in fits)
