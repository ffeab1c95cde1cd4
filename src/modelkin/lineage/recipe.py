"""The nearest recipe for mergekit: what its command would need to make such a model. Nothing is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_DIGITS = 3
"""Recipes are written with two; one more shows how well they were found."""
_FLAT = 0.02
"""Weights that differ by less than this between layers are written as one number."""
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
FILTERS = {"attention": "self_attn", "mlp": "mlp"}
"""What mergekit matches in tensor names -> this package's name for the group."""

Curves = Mapping[str, Sequence[float]]
"""Group -> one weight per layer; the group "" is for everything else, and has one number."""


def rounded(value: float) -> float:
    """Write a number as a person would."""
    return round(float(value), _DIGITS) + 0.0


def setting(curves: Curves) -> float | list[Any]:
    """Write a weight: one number, one per layer, or one per layer and module."""
    rest = rounded(curves[""][0])
    filters = [
        {"filter": FILTERS[group], "value": _gradient(values)}
        for group, values in curves.items()
        if group in FILTERS and values
    ]
    same = [value for item in filters for value in _listed(item["value"])]
    if all(abs(value - rest) < _FLAT for value in same):
        return rest
    return [*filters, {"value": rest}]


def _gradient(values: Sequence[float]) -> float | list[float]:
    if max(values) - min(values) < _FLAT:
        return rounded(sum(values) / len(values))
    return [rounded(value) for value in values]


def _listed(value: object) -> list[float]:
    return list(value) if isinstance(value, list) else [value]  # type: ignore[list-item]


def weighted_recipe(
    method: str,
    models: Mapping[str, Mapping[str, object]],
    *,
    base: str | None,
    dtype: str,
    parameters: Mapping[str, object] | None = None,
) -> str:
    """Write a recipe in which every model has its own settings."""
    document: dict[str, Any] = {
        "models": [{"model": name, "parameters": dict(given)} for name, given in models.items()],
        "merge_method": method,
    }
    return _dumped(document, base=base, dtype=dtype, parameters=parameters)


def slerp_recipe(first: str, second: str, *, n_layers: int, t: float | list[Any], dtype: str) -> str:
    """Write a recipe of two models along an arc; t = 0 is the first."""
    sources = [{"model": name, "layer_range": [0, n_layers]} for name in (first, second)]
    settings = t if isinstance(t, list) else [{"value": t}]
    document = {"slices": [{"sources": sources}], "merge_method": "slerp"}
    return _dumped(document, base=first, dtype=dtype, parameters={"t": settings})


def passthrough_recipe(layers: Sequence[tuple[str, int]], *, dtype: str) -> str:
    """Write a recipe that stacks layers: (model, its layer) for each layer of the candidate."""
    slices: list[dict[str, Any]] = []
    for model, layer in layers:
        last = slices[-1]["sources"][0] if slices else None
        if last is not None and last["model"] == model and last["layer_range"][1] == layer:
            last["layer_range"][1] = layer + 1
        else:
            slices.append({"sources": [{"model": model, "layer_range": [layer, layer + 1]}]})
    return _dumped({"slices": slices, "merge_method": "passthrough"}, base=None, dtype=dtype)


def experts_recipe(experts: Sequence[str], *, base: str, dtype: str) -> str:
    """Write a recipe for mergekit-moe. What the routers were made from cannot be read off the weights."""
    document = {
        "base_model": base,
        "gate_mode": "random",
        "dtype": _DTYPES.get(dtype, "float32"),
        "experts": [{"source_model": name, "positive_prompts": []} for name in experts],
    }
    return _text(document)


def _dumped(
    document: dict[str, Any], *, base: str | None, dtype: str, parameters: Mapping[str, object] | None = None
) -> str:
    if base is not None:
        document["base_model"] = base
    if parameters:
        document["parameters"] = dict(parameters)
    if dtype in _DTYPES:
        document["dtype"] = _DTYPES[dtype]
    return _text(document)


def _text(document: object) -> str:
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100))
