"""Fitted weights as a recipe: which of mergekit's forms, with which numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from modelkin.lineage.merge_measures import CellFit, pooled_weights
from modelkin.lineage.merge_methods import CHOOSING, sparse_of
from modelkin.lineage.merge_result import MergeMethod
from modelkin.lineage.patterns import Sparse
from modelkin.lineage.recipe import (
    FILTERS,
    Curves,
    experts_recipe,
    passthrough_recipe,
    rounded,
    setting,
    slerp_recipe,
    weighted_recipe,
)
from modelkin.model import Model


def nearest_recipe(
    method: MergeMethod | None,
    fits: Sequence[CellFit],
    *,
    names: tuple[str, ...],
    with_base: bool,
    candidate: Model,
    maps: Sequence[Mapping[int, int]],
) -> str | None:
    """Write the recipe of a method; None without one."""
    dtype = Counter({name: count for name, count in candidate.index.dtypes.items()}).most_common(1)[0][0]
    parents = names[:-1] if with_base else names
    base = names[-1] if with_base else None
    match method:
        case None:
            return None
        case "passthrough":
            return passthrough_recipe(_stacked(fits, names, candidate, maps), dtype=dtype)
        case "mixture-of-experts":
            return _experts(fits, names, dtype)
        case "slerp":
            t = _curves(fits, _median_t)
            return slerp_recipe(
                names[0], names[1], n_layers=candidate.architecture.n_layers, t=setting(t), dtype=dtype
            )
        case "ties" | "dare" | "della" | "breadcrumbs":
            assert base is not None
            return _sparse(method, fits, parents, base, dtype)
        case "sce":
            assert base is not None
            top = float(np.median([item.densities[0] for item in sparse_of(fits, "varied")]))
            plain: dict[str, dict[str, object]] = {name: {} for name in parents}
            return weighted_recipe(
                "sce", plain, base=base, dtype=dtype, parameters={"select_topk": rounded(top)}
            )
        case "model-stock":
            return weighted_recipe("model_stock", {name: {} for name in parents}, base=base, dtype=dtype)
        case _:
            shares: dict[str, dict[str, object]] = {
                name: {"weight": setting(_curves(fits, partial(_weight, place)))}
                for place, name in enumerate(parents)
            }
            if method == "task-arithmetic":
                return weighted_recipe(
                    "task_arithmetic", shares, base=base, dtype=dtype, parameters={"normalize": False}
                )
            return weighted_recipe("linear", shares, base=None, dtype=dtype, parameters={"normalize": False})


def _curves(fits: Sequence[CellFit], value: Callable[[Sequence[CellFit]], float]) -> Curves:
    """Return a number for every layer and module that recipes know, and one for everything else."""
    layers = sorted({fit.cell.layer for fit in fits if fit.cell.layer is not None})
    curves: dict[str, list[float]] = {}
    for group in FILTERS:
        held = [
            [fit for fit in fits if fit.cell.layer == layer and fit.cell.group == group] for layer in layers
        ]
        if layers and all(held):
            curves[group] = [value(of_layer) for of_layer in held]
    rest = [fit for fit in fits if fit.cell.group not in curves]
    curves[""] = [value(rest or fits)]
    return curves


def _weight(place: int, fits: Sequence[CellFit]) -> float:
    return pooled_weights(fits)[place].value


def _median_t(fits: Sequence[CellFit]) -> float:
    found = [fit.arc[0].t for fit in fits if fit.arc is not None]
    return float(np.median(found)) if found else _weight(1, fits)


def _stacked(
    fits: Sequence[CellFit], names: Sequence[str], candidate: Model, maps: Sequence[Mapping[int, int]]
) -> list[tuple[str, int]]:
    """Return for each layer of the candidate the model and layer that most of its tensors come from."""
    layers = []
    for layer in candidate.architecture.layers:
        away = np.sum([np.diagonal(fit.gram) for fit in fits if fit.cell.layer == layer], axis=0)
        nearest = int(np.argmin(away)) if np.ndim(away) else 0
        layers.append((names[nearest], maps[nearest][layer]))
    return layers


def _experts(fits: Sequence[CellFit], names: Sequence[str], dtype: str) -> str:
    numbers = sorted({fit.cell.expert for fit in fits if fit.cell.expert is not None})
    sources = []
    for number in numbers:
        held = [
            fit.cell.nearest for fit in fits if fit.cell.expert == number and fit.cell.nearest is not None
        ]
        sources.append(names[Counter(held).most_common(1)[0][0]])
    rest = Counter(
        fit.cell.nearest for fit in fits if fit.cell.expert is None and fit.cell.nearest is not None
    )
    base = names[rest.most_common(1)[0][0]] if rest else sources[0]
    return experts_recipe(sources, base=base, dtype=dtype)


def _sparse(method: str, fits: Sequence[CellFit], parents: Sequence[str], base: str, dtype: str) -> str:
    kept = sparse_of(fits, CHOOSING[method])
    normalised = bool(np.mean([item.normalised for item in kept]) > 0.5)

    def median(values: Callable[[Sparse], Sequence[float]], place: int) -> float:
        return rounded(float(np.median([values(item)[place] for item in kept])))

    more: dict[str, float] = {}
    if method == "della":
        more = {"epsilon": rounded(float(np.median([item.epsilon for item in kept])))}
    if method == "breadcrumbs":
        more = {"gamma": rounded(float(np.median([item.gamma for item in kept])))}
    models = {
        name: {
            "weight": median(lambda item: item.weights, place),
            "density": median(lambda item: item.densities, place),
            **more,
        }
        for place, name in enumerate(parents)
    }
    parameters: dict[str, object] = {"normalize": normalised}
    if normalised:
        # Shares are normalised again, so their sum is stated separately.
        parameters["lambda"] = rounded(float(np.median([sum(item.weights) for item in kept])))
    elected = bool(np.mean([item.elected for item in kept]) > 0.5)
    name = {
        "ties": ("ties", "ties"),
        "dare": ("dare_linear", "dare_ties"),
        "della": ("della_linear", "della"),
        "breadcrumbs": ("breadcrumbs", "breadcrumbs_ties"),
    }[method][elected]
    return weighted_recipe(name, models, base=base, dtype=dtype, parameters=parameters)
