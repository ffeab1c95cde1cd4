"""What must come out of a row of the truth table, and which models of the zoo serve as its controls."""

from __future__ import annotations

from functools import cache

from tests.compare.disguises import Hidden, zoo_model
from tests.compare.relation import Relation
from tests.compare.strangers import Strangers, lineages
from tests.compare.zoo_pairs import ZOO

import modelkin as mk
from modelkin.source import MemorySource
from modelkin.verdict import load_rule

DEEP = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
MOST_CONTROLS = 6
"""One more than makes the pairs that the rule asks for."""
_RESIDUAL: frozenset[Hidden] = frozenset({"residual-permutation", "residual-signs", "residual-rotation"})
_FOUND_IN_ANY_COORDINATES = ("mlp", "experts")


def compared(relation: Relation) -> mk.Comparison:
    """Compare the models of a row at deep depth, with controls where only they can decide."""
    return mk.compare(
        candidate=MemorySource(relation.candidate().files("F32"), name="candidate"),
        base=MemorySource(relation.base().files("F32"), name="base"),
        options=DEEP,
        controls=[str(ZOO / name) for name in controls_for(relation)],
    )


def compared_strangers(pair: Strangers, *disguises: str, seed: int = 0) -> mk.Comparison:
    """Compare two strangers at deep depth, the candidate under disguises."""
    candidate, base = pair.models(*disguises, seed=seed)
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
    )


def controls_for(relation: Relation) -> tuple[str, ...]:
    """Return models of other lineages with the shapes of the base, its own family first.

    Only for rows that no exact test can tell: units and residual stream were both changed.
    """
    if "units" not in relation.disguise or not relation.disguise & _RESIDUAL:
        return ()
    origin = _lineage_of(relation)
    base = shape_of(origin)
    others = [name for name in lineages() if name != origin and name != "distilled"]
    alike = [name for name in others if shape_of(name)[1:] == base[1:]]
    return tuple(sorted(alike, key=lambda name: shape_of(name)[0] != base[0])[:MOST_CONTROLS])


def enough_controls(relation: Relation) -> bool:
    """Say whether the zoo has as many control pairs as the rule asks for."""
    n = len(controls_for(relation))
    return 2 * n + n * (n - 1) // 2 >= load_rule().agreement["control_pairs"]


def kind_of(relation: Relation) -> str:
    """Name what was done, without the family."""
    key, _, name = relation.name.partition(": ")
    kind = name.split(" of a ")[0]
    if key == "trained":
        return relation.name
    return "up-cycling" if kind == "experts" and relation.family == "llama" else kind


def outcome(result: mk.Comparison) -> str:
    """Say in one word how a common origin was found, or that it was not."""
    if not result.verdict.related:
        return "flagged" if result.flags else "missed"
    ranks = [item.log10_p for item in result.verdict.components.values() if item.calibrated]
    return "ranked" if result.verdict.log10_p in ranks else "exact"


def problems(relation: Relation, result: mk.Comparison) -> list[str]:
    """Compare a result with what is true; nothing is right, every line is an error."""
    if not result.verdict.related:
        excused = bool(controls_for(relation)) and not enough_controls(relation) and result.flags
        return [] if excused else ["no common origin was found"]
    related = {name: item.conclusion.related for name, item in result.verdict.components.items()}
    if related.get("experts") is None:
        related["experts"] = related.get("mlp")  # experts made of a dense MLP are told as its share
    found = [
        f"{name} is shared and was not found"
        for name in sorted(relation.shared)
        if not related.get(name) and not _excused(relation, result, name, related.get(name))
    ]
    found += [
        f"{name} is not shared and was accused" for name in sorted(relation.not_shared) if related.get(name)
    ]
    layers = tuple((layer, facing) for layer, facing, _ in result.alignment.layers)
    # What only controls can tell is measured in some layers; none of them may be a wrong one.
    right = set(layers) <= set(relation.layers or ()) if controls_for(relation) else layers == relation.layers
    if relation.layers is not None and not right:
        found.append(f"layers {layers} instead of {relation.layers}")
    return found


def _excused(relation: Relation, result: mk.Comparison, name: str, related: bool | None) -> bool:
    """Say whether a component need not be found, and it is documented that it is not."""
    if name == "router":  # a router of few rows cannot be tested
        return related is None
    # In other coordinates token rows, gains and heads cannot be tested: not testable is the truth.
    changed = bool(relation.disguise & _RESIDUAL) or result.candidate.hidden_size != result.base.hidden_size
    return changed and name not in _FOUND_IN_ANY_COORDINATES and related is None


def _lineage_of(relation: Relation) -> str:
    """Return the oldest ancestor of a row's base, by its weights."""
    return next(name for name in lineages() if zoo_model(name) is relation.base())


@cache
def shape_of(name: str) -> tuple[object, ...]:
    """Return the type and the widths of a model of the zoo."""
    with mk.open_model(str(ZOO / name)) as model:
        sizes = model.architecture.sizes
        widths = tuple(sizes.get(key) for key in ("residual", "mlp", "expert_mlp", "experts"))
        return ((model.config or {}).get("model_type"), *widths)
