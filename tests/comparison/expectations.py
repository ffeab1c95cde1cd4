"""The expected outcome of a row of the truth table, and which models of the zoo serve as its controls."""

from __future__ import annotations

from functools import cache

from tests.comparison.disguises import Hidden, zoo_model
from tests.comparison.relation import Relation
from tests.comparison.strangers import Strangers, lineages
from tests.places import ZOO

import modelkin as mk
from modelkin.architecture import Architecture
from modelkin.casework.lab.checkpoint import StoredAs
from modelkin.comparison.controls import can_be_control, worth_calibrating
from modelkin.comparison.deep import MATCHED_LAYERS
from modelkin.source import MemorySource

DEEP = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
MOST_CONTROLS = 6
"""One more than makes the pairs that the rule asks for."""
_RESIDUAL: frozenset[Hidden] = frozenset({"residual-permutation", "residual-signs", "residual-rotation"})
_FOUND_IN_ANY_COORDINATES = ("mlp", "experts")


def compared(relation: Relation, *, dtype: StoredAs = "F32") -> mk.Comparison:
    """Compare the models of a row at deep depth."""
    return mk.compare(
        candidate=MemorySource(relation.candidate().files(dtype), name="candidate"),
        base=MemorySource(relation.base().files(dtype), name="base"),
        options=DEEP,
    )


def compared_strangers(pair: Strangers, *disguises: str, seed: int = 0) -> mk.Comparison:
    """Compare two strangers at deep depth, the candidate under disguises, with controls where they count."""
    candidate, base = pair.models(*disguises, seed=seed)

    def result(*controls: str) -> mk.Comparison:
        return mk.compare(
            candidate=MemorySource(candidate.files("F32"), name="candidate"),
            base=MemorySource(base.files("F32"), name="base"),
            options=DEEP,
            controls=[str(ZOO / name) for name in controls],
        )

    alone = result()
    # Controls are asked only about pairs that agree so much, and they make a comparison ten times as long.
    return result(*controls_of(pair.base, pair.candidate)) if worth_calibrating(alone.evidence) else alone


def without_exact_test(relation: Relation) -> bool:
    """Say whether no order is left to test: units and coordinates both changed."""
    return "units" in relation.disguise and bool(relation.disguise & _RESIDUAL)


def controls_of(base: str, *others: str) -> tuple[str, ...]:
    """Return models of other lineages that are like the base: of its shapes, of its family, of its size.

    The rule of the package (`can_be_control`) and a stricter one: none has more units in a layer than the
    base. The chance that a unit is found twice in the same place falls with the number of units, so larger
    controls would agree less than strangers of the base's size do, and smaller ones more.
    """
    kin = {root for root, members in lineages().items() if {base, *others} & {*members}} | {"distilled"}
    alike = [
        name
        for name in lineages()
        if name not in kin
        and can_be_control(_architecture(name), _architecture(base))
        and n_units(name) <= n_units(base)
    ]

    def distance(name: str) -> tuple[bool, bool, int]:
        mine, theirs = shape_of(name), shape_of(base)
        return mine[1:] != theirs[1:], mine[0] != theirs[0], n_units(base) - n_units(name)

    return tuple(sorted(alike, key=distance)[:MOST_CONTROLS])


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
    return {"rank": "ranked"}.get(str(result.verdict.basis), str(result.verdict.basis))


def problems(relation: Relation, result: mk.Comparison, *, read_whole: bool = True) -> list[str]:
    """Compare a result with the truth; an empty list is right, every line is an error.

    Parameters
    ----------
    relation
        What is true.
    result
        What came out.
    read_whole
        Whether the models are small enough for all layers to be matched unit by unit. For others at least
        three are: then no more need be found if units were reordered, and none may be wrong.
    """
    if not result.verdict.related:
        return ["no common origin was found"]
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
    some = not read_whole and "units" in relation.disguise
    # Where only some layers are searched for reordered units, the others are silent in their old numbering.
    if relation.layers is not None and not some:
        whole = {layer for layer, _ in relation.layers}
        found += [
            f"{name} is shared in layers {sorted(silent)} and was said to be silent there"
            for name in sorted(relation.shared & result.verdict.components.keys())
            if (silent := whole & {*result.verdict.components[name].other_layers})
        ]
    if relation.layers is not None and not _are_right(layers, relation.layers, some=some):
        found.append(f"layers {layers} instead of {relation.layers}")
    return found


def _are_right(
    layers: tuple[tuple[int, int], ...], expected: tuple[tuple[int, int], ...], *, some: bool
) -> bool:
    """Say whether these layers face each other, all of them or as many as are matched in large models."""
    if not some:
        return layers == expected
    return {*layers} <= {*expected} and len(layers) >= min(MATCHED_LAYERS, len(expected))


def _excused(relation: Relation, result: mk.Comparison, name: str, related: bool | None) -> bool:
    """Say whether a component need not be found, and it is documented that it is not."""
    if name == "router":  # a router of few rows cannot be tested
        return related is None
    # In other coordinates token rows, gains and heads cannot be tested: not testable is the truth.
    changed = bool(relation.disguise & _RESIDUAL) or result.candidate.hidden_size != result.base.hidden_size
    return changed and name not in _FOUND_IN_ANY_COORDINATES and related is None


def shape_of(name: str) -> tuple[object, ...]:
    """Return the type and the widths of a model of the zoo."""
    sizes = _architecture(name).sizes
    widths = (sizes.get(key) for key in ("residual", "mlp", "expert_mlp", "experts"))
    return (zoo_model(name).family, *widths)


def n_units(name: str) -> int:
    """Return the number of MLP units in a layer of a model of the zoo, those of all experts together."""
    sizes = _architecture(name).sizes
    return max(sizes.get("mlp", 0), sizes.get("experts", 0) * sizes.get("expert_mlp", 0))


@cache
def _architecture(name: str) -> Architecture:
    with mk.open_model(str(ZOO / name)) as model:
        return model.architecture
