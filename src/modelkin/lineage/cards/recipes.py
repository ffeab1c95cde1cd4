"""Declared merges: the recipe that a model carries, and what its weights say about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modelkin.comparison.claims import merge_recipe, merged_names
from modelkin.lineage.merge_result import MergeMethod, MergeResult
from modelkin.message import Message, say
from modelkin.model import Model

from .result import ClaimStatus

_METHODS: Mapping[str, tuple[MergeMethod, ...]] = {
    "linear": ("linear", "linear-or-slerp"),
    "slerp": ("slerp", "linear-or-slerp"),
    "task_arithmetic": ("task-arithmetic",),
    "ties": ("ties",),
    "dare_linear": ("dare",),
    "dare_ties": ("dare",),
    "della": ("della",),
    "della_linear": ("della",),
    "breadcrumbs": ("breadcrumbs",),
    "breadcrumbs_ties": ("breadcrumbs",),
    "sce": ("sce",),
    "model_stock": ("model-stock",),
    "passthrough": ("passthrough",),
}
"""Mergekit's name of a method -> what is found when it was used."""
_WITHOUT_BASE = ("linear", "slerp", "passthrough")
"""Methods that mix the models themselves, and not differences from a base."""
_NEAR = 0.02
"""Weights this close to declared ones count as equal: numbers of recipes are recovered within it
(docs/lineage.md)."""
_FAR = 0.1
"""From here on a weight counts as different, if the mixture reproduces the model up to rounding. What lies
between may be a recipe whose weights were rounded, and is not judged."""
_EXACT = 0.9
"""Share of tensors that a mixture must reproduce up to rounding before it can contradict a recipe: for a
merge that was trained further, fitted weights are not those of the recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredMerge:
    """A merge as a recipe declares it."""

    source: str
    """File that declares it."""
    method: str
    models: tuple[str, ...]
    base: str | None
    weights: tuple[float, ...] | None
    """Of a linear merge with one weight per model, normalised to sum to one; None for all others."""

    def told(self) -> Message:
        """Return what is declared, as a message."""
        if self.weights is None:
            return say("claims.recipe", method=self.method, models=self.models)
        shares = tuple(f"{weight:.2f} {name}" for weight, name in zip(self.weights, self.models, strict=True))
        return say("claims.recipe-weights", method=self.method, models=shares)


def declared_merge(model: Model) -> DeclaredMerge | None:
    """Return the merge that a model's recipe declares, or None without a recipe."""
    source, recipe = merge_recipe(model)
    method, base = recipe.get("merge_method"), recipe.get("base_model")
    if not isinstance(method, str) or method not in _METHODS:
        return None
    base = base if isinstance(base, str) else None
    if method in _WITHOUT_BASE:
        # Here the base is one of the parents (mergekit's slerp starts from it), or only lends its tokenizer.
        listed = merged_names({key: value for key, value in recipe.items() if key != "base_model"})
        models = listed if method != "slerp" or base is None or base in listed else (base, *listed)
        base = None
    else:
        models = tuple(name for name in merged_names(recipe) if name != base)
    return DeclaredMerge(
        source=source,
        method=method,
        models=models,
        base=base,
        weights=_weights(recipe, models) if method == "linear" else None,
    )


def _weights(recipe: Mapping[str, object], models: tuple[str, ...]) -> tuple[float, ...] | None:
    """Return one weight per model; None if they differ by layer, are missing or are not normalised."""
    entries, parameters = recipe.get("models"), recipe.get("parameters")
    if not isinstance(entries, list) or len(entries) != len(models):
        return None
    if isinstance(parameters, dict) and parameters.get("normalize") is False:
        return None
    found = []
    for entry in entries:
        own = entry.get("parameters") if isinstance(entry, dict) else None
        weight = own.get("weight") if isinstance(own, dict) else None
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            return None
        found.append(float(weight))
    total = sum(found)
    return tuple(weight / total for weight in found) if 0 < total < math.inf else None


def merge_status(found: MergeResult, names: Sequence[str], copied: str | None) -> tuple[ClaimStatus, Message]:
    """Say what a search for a mixture means for the claim that a model is a merge of its parents.

    Parameters
    ----------
    found
        Of the declared parents.
    names
        What the card calls them, the base last.
    copied
        The parent that the model is a copy of, if it is one.
    """
    if found.conclusion == "merge":
        method = say("check-method-open") if found.method is None else say(f"merge-method-{found.method}")
        return "supported", say("check-merge-fits", method=method, weights=_shares(found, names))
    if copied is not None:
        return "contradicted", say("check-merge-copy", name=copied)
    # Not every method is searched for, and training after a merge hides it: silence accuses nobody.
    return "untestable", say("check-merge-none")


def recipe_status(
    declared: DeclaredMerge, found: MergeResult, names: Sequence[str], copied: str | None
) -> tuple[ClaimStatus, Message]:
    """Say what a search for a mixture means for a recipe: its method, and one weight per model."""
    if found.conclusion != "merge" or found.method is None:
        return merge_status(found, names, copied)
    fits = found.method in _METHODS[declared.method]
    told = say("check-merge-fits", method=say(f"merge-method-{found.method}"), weights=_shares(found, names))
    if declared.weights is None or not fits:
        return ("supported", told) if fits else ("untestable", say("check-recipe-method", found=told))
    off = max(
        abs(share.value - weight) for share, weight in zip(found.weights, declared.weights, strict=False)
    )
    if off <= _NEAR:
        return "supported", told
    exact = found.to_rounding is not None and found.to_rounding >= _EXACT
    if off >= _FAR and exact:
        return "contradicted", say("check-recipe-weights", found=told)
    return "untestable", say("check-recipe-near", found=told)


def _shares(found: MergeResult, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{share.value:.2f} {name}" for share, name in zip(found.weights, names, strict=False))
