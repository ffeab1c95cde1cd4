"""From fitted tensors to an answer: whether it is a merge, by which method, and the nearest recipe."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from modelkin.lineage.geometry import collinearity
from modelkin.lineage.merge_bounds import NEGATIVE, meaningless_weights
from modelkin.lineage.merge_measures import (
    CellFit,
    is_even,
    pooled_crossing,
    pooled_opposition,
    pooled_weights,
)
from modelkin.lineage.merge_methods import CHOOSING, chosen_method, is_upcycled, method_fits, on_arc
from modelkin.lineage.merge_recipes import nearest_recipe
from modelkin.lineage.merge_result import (
    GroupShare,
    MergeCell,
    MergeConclusion,
    MergeMethod,
    MergeResult,
    MethodFit,
    MixtureShare,
)
from modelkin.lineage.reordered import reordered_spaces
from modelkin.message import Message, say
from modelkin.model import Model

OPPOSED = 0.5
"""Opposition from which a candidate counts as a mixture; a common ancestor has 0 (docs/lineage.md)."""
_PERHAPS = 0.2
"""Opposition of two parents below which nothing suggests a merge at all."""
CROSSED = 0.15
"""Crossing of two parents, as seen from a third point, from which the candidate may be a merge that was
changed since by something even, such as noise. A tree has 0 or less if its branches changed on their own;
relatives that learned alike have more, and what they learned is uneven."""
_BESIDE = 0.05
"""Weight of the base up to which the parents alone may be what was mixed."""
_COUNTS = 0.02
"""A smaller weight counts as none."""
_COPIED = 1e-3
"""Squared distance, over that of the parents, below which a tensor is that of one parent."""
APART = "merge-parents-equal-apart"
"""Why a tensor has no weights: the parents are equal there, and the candidate is not like them."""
# Squared distance, over that of the parents, within which an expert counts as made from an MLP: noise and
# training moved it.
_NEAR = 0.25
# Share of matrices that are one parent's: a few may have been changed afterwards.
_MOSTLY = 0.9
# Share of a parent that the others reproduce from which weights come with a warning: a cosine of 0.95.
_COLLINEAR = 0.9
# Weight from which one parent counts as the source, and share of experts that must have one.
_SINGLE = 0.8


def judged_merge(
    result: partial[MergeResult],
    fits: Sequence[CellFit],
    unfitted: Sequence[MergeCell],
    *,
    others: Sequence[Model],
    with_base: bool,
    candidate: Model,
    maps: Sequence[Mapping[int, int]],
    seed: int,
) -> MergeResult:
    """Judge what was fitted; `result` holds the models and what was read of them."""
    names = tuple(model.location.ref for model in others)
    layer_map = tuple(
        (layer, *(of[layer] for of in maps))
        for layer in candidate.architecture.layers
        if all(layer in of for of in maps)
    )
    limits = (
        say("merge-limit-place"),
        say("merge-limit-trained"),
        *(() if with_base else (say("merge-limit-base"),)),
    )
    if not fits:
        return result(
            conclusion="not-testable",
            method=None,
            summary=say("merge-not-testable"),
            weights=(),
            opposition=None,
            gain=None,
            best_single=None,
            left=None,
            to_rounding=None,
            collinearity=(),
            methods=(),
            groups=(),
            layers=(),
            layer_map=layer_map,
            recipe=None,
            warnings=_left_out(unfitted),
            limitations=limits,
        )
    weights, opposed = pooled_weights(fits), pooled_opposition(fits, seed)
    left = float(np.mean([fit.left for fit in fits]))
    singles = [float(np.mean([fit.single(place) for fit in fits])) for place in range(len(names))]
    best = int(np.argmin(singles))
    known = [fit.cell.to_rounding for fit in fits if fit.cell.to_rounding is not None]
    lined = collinearity(np.asarray(sum(fit.gram for fit in fits), np.float64))
    tried = method_fits(fits, with_base=with_base)
    conclusion, method = _concluded(fits, weights, opposed, singles, tried, with_base=with_base, maps=maps)
    open_: Message | None = None
    if conclusion == "not-a-merge" or (conclusion == "merge" and _in_part(method, unfitted)):
        open_ = _another_order(fits, unfitted, candidate, others[best], maps[best])
    if conclusion == "not-a-merge" and open_ is None:
        open_ = _left_open(fits, weights, seed, with_base=with_base)
    if conclusion == "merge" and open_ is None:
        open_ = meaningless_weights(method, weights, names, with_base=with_base)
    if open_ is not None:
        conclusion, method = "undetermined", None
    return result(
        conclusion=conclusion,
        method=method,
        summary=open_ or _summary(conclusion, method, names, weights, singles, with_base=with_base),
        weights=weights,
        opposition=opposed,
        gain=1.0 - left / singles[best] if singles[best] > 0 else None,
        best_single=names[best],
        left=left,
        to_rounding=sum(known) / len(known) if known else None,
        collinearity=tuple(map(float, lined)),
        methods=tried,
        groups=tuple(_grouped(fits, lambda cell: (cell.group, None))),
        layers=tuple(
            _grouped([fit for fit in fits if fit.cell.layer is not None], lambda cell: ("", cell.layer))
        ),
        layer_map=layer_map,
        recipe=nearest_recipe(method, fits, names=names, with_base=with_base, candidate=candidate, maps=maps),
        warnings=(
            *_inexact(conclusion, method, known),
            *_outside(conclusion, weights, with_base=with_base),
            *_collinear(names, lined.tolist()),
            *_left_out(unfitted),
        ),
        limitations=limits,
    )


def _concluded(
    fits: Sequence[CellFit],
    weights: Sequence[MixtureShare],
    opposed: MixtureShare | None,
    singles: Sequence[float],
    tried: Sequence[MethodFit],
    *,
    with_base: bool,
    maps: Sequence[Mapping[int, int]],
) -> tuple[MergeConclusion, MergeMethod | None]:
    experts = [fit for fit in fits if fit.cell.expert is not None and fit.cell.group == "experts"]
    owners = Counter(owner for fit in experts if (owner := _owner(fit, _NEAR)) is not None)
    if experts and is_upcycled(fits) and owners.total() >= _SINGLE * len(experts):
        return ("merge" if len(owners) > 1 else "single-parent"), "mixture-of-experts"
    matrices = [fit for fit in fits if fit.is_matrix]
    copied = Counter(owner for fit in matrices if (owner := _owner(fit, _COPIED)) is not None)
    moved = any(layer != facing for of in maps for layer, facing in of.items())
    if matrices and copied.total() >= _MOSTLY * len(matrices):
        parents = [place for place, count in copied.items() if count > 1]
        if len(parents) > 1:
            return "merge", "passthrough"
        return "single-parent", "passthrough" if moved else None
    method = chosen_method(fits, weights, tried, with_base=with_base)
    counted = [share for share in weights if abs(share.value) >= _COUNTS and share.low * share.high > 0]
    if method in CHOOSING:
        return "merge", method
    if opposed is not None and opposed.low >= OPPOSED and len(counted) > 1:
        return "merge", method
    if on_arc(tried) and len(counted) > 1:
        return "merge", "slerp"
    best = int(np.argmin(singles))
    if weights[best].value >= _SINGLE and singles[best] < 2 * _NEAR:
        return "single-parent", None
    if opposed is not None and opposed.high >= OPPOSED and opposed.value >= _PERHAPS:
        return "undetermined", None
    return "not-a-merge", None


def _in_part(method: MergeMethod | None, unfitted: Sequence[MergeCell]) -> bool:
    """Say whether a merge may rest on a part of the matrices, so that the others must be looked at.

    Choices among differences are found where all parents differ from the base, and weights where parents
    differ from each other.
    """
    return method in CHOOSING or any(
        cell.reason is not None and cell.reason.code == APART for cell in unfitted
    )


def _another_order(
    fits: Sequence[CellFit],
    unfitted: Sequence[MergeCell],
    candidate: Model,
    nearest: Model,
    layers: Mapping[int, int],
) -> Message | None:
    """Say what is in another order than in the nearest model; None if nothing is found to be."""
    left = {
        (cell.module, cell.layer): math.inf
        for cell in unfitted
        if cell.layer is not None and cell.reason is not None and cell.reason.code == APART
    }
    for fit in fits:
        if fit.is_matrix and fit.cell.layer is not None:
            left[fit.cell.module, fit.cell.layer] = fit.size
    spaces = reordered_spaces(candidate, nearest, layers, left)
    if not spaces:
        return None
    return say("merge-reordered", parts=tuple(say(f"merge-space-{name}") for name in spaces))


def _left_open(
    fits: Sequence[CellFit], weights: Sequence[MixtureShare], seed: int, *, with_base: bool
) -> Message | None:
    """Say why it may be a merge although no mixture reproduces it; None if nothing suggests one."""
    if open_ := _crossing_left(fits, weights, seed, with_base=with_base):
        return open_
    # With a base, the side on which the parents lie was seen there.
    return say("merge-coarse") if not with_base and _hidden_by_levels(fits, weights) else None


def _hidden_by_levels(fits: Sequence[CellFit], weights: Sequence[MixtureShare]) -> bool:
    """Say whether a mixture of several is the candidate up to its levels, in nearly all matrices.

    What is subtracted for levels is a lower bound, so that no ancestor looks like a mixture: where levels are
    coarser than what the parents differ by, the rest of it hides on which sides they lie.
    """
    matrices = [fit for fit in fits if fit.is_matrix]
    on_levels = sum(fit.cell.left is not None and fit.cell.left > fit.left for fit in matrices)
    several = sum(share.low > _COUNTS for share in weights) > 1
    return several and on_levels >= _MOSTLY * len(matrices) > 0


def _crossing_left(
    fits: Sequence[CellFit], weights: Sequence[MixtureShare], seed: int, *, with_base: bool
) -> Message | None:
    """Say that the candidate lies between two parents as a base sees it, and was changed evenly besides."""
    if not with_base or not is_even(fits):
        return None
    *parents, base = weights
    first, second, *_ = sorted(range(len(parents)), key=lambda place: -parents[place].value)
    if parents[second].low <= _COUNTS or base.low > _BESIDE or base.high < -_BESIDE:
        return None
    crossed = pooled_crossing(fits, (first, second), len(parents), seed)
    return say("merge-changed-since") if crossed is not None and crossed.low >= CROSSED else None


def _owner(fit: CellFit, limit: float) -> int | None:
    """Return the parent that a tensor is a copy of, if it is a copy of only one."""
    away = np.diagonal(fit.gram)
    first, second = (int(place) for place in np.argsort(away)[:2])
    rounding = 4 * (fit.floor or 0.0)
    if away[first] > max(limit, rounding) or away[second] <= 4 * max(away[first], rounding):
        return None
    return first


def _summary(
    conclusion: MergeConclusion,
    method: MergeMethod | None,
    names: Sequence[str],
    weights: Sequence[MixtureShare],
    singles: Sequence[float],
    *,
    with_base: bool,
) -> Message:
    best = names[int(np.argmin(singles))]
    if conclusion == "merge":
        assert method is not None
        how = say(f"merge-method-{method}")
        if method in ("passthrough", "mixture-of-experts"):
            return say("merge-of-parts", method=how)
        largest = max(range(len(names)), key=lambda place: abs(weights[place].value))
        return say("merge-found", method=how, name=names[largest], share=f"{weights[largest].value:.2f}")
    if conclusion == "single-parent":
        return say("merge-single", name=best)
    if conclusion == "undetermined":
        return say("merge-undetermined")
    return say("merge-not-with-base") if with_base else say("merge-not")


def _grouped(fits: Sequence[CellFit], key: Callable[[MergeCell], tuple[str, int | None]]) -> list[GroupShare]:
    groups: dict[tuple[str, int | None], list[CellFit]] = {}
    for fit in fits:
        groups.setdefault(key(fit.cell), []).append(fit)
    return [
        GroupShare(
            group=group,
            layer=layer,
            weights=pooled_weights(held),
            left=float(np.mean([fit.left for fit in held])),
            n_tensors=len(held),
        )
        for (group, layer), held in groups.items()
    ]


def _inexact(
    conclusion: MergeConclusion, method: MergeMethod | None, to_rounding: Sequence[bool]
) -> tuple[Message, ...]:
    straight = method in ("linear", "task-arithmetic", "linear-or-slerp")
    if conclusion != "merge" or not straight or not to_rounding or 2 * sum(to_rounding) >= len(to_rounding):
        return ()
    return (say("merge-inexact"),)


def _outside(
    conclusion: MergeConclusion, weights: Sequence[MixtureShare], *, with_base: bool
) -> tuple[Message, ...]:
    """Say that a model may be the base of the others: what was added are differences from it."""
    beyond = any(share.value < NEGATIVE for share in weights)
    return (say("merge-outside"),) if conclusion == "merge" and beyond and not with_base else ()


def _collinear(names: Sequence[str], lined: Sequence[float]) -> tuple[Message, ...]:
    found = [name for name, value in zip(names, lined, strict=True) if value >= _COLLINEAR]
    return (say("merge-collinear", names=", ".join(found)),) if found else ()


def _left_out(unfitted: Sequence[MergeCell]) -> tuple[Message, ...]:
    reasons = Counter(cell.reason for cell in unfitted if cell.reason is not None)
    return tuple(say("merge-left-out", n=count, why=reason) for reason, count in reasons.items())
