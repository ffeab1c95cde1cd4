"""Patterns of findings with names of their own; most have another common cause than a common origin.

What is compared along the residual stream (token tables, gains, what layers write) agrees as soon as two
models use the same coordinates. What is compared along units (MLP units, value dimensions, experts) agrees
only if one layer comes from the other. Coordinates without units are what a student of hidden states has.
Units that were found again in another order are tested along the residual stream too, and are no proof of a
copy either: what an MLP computes determines its units up to their order, so whoever learns it learns them,
and may change coordinates afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from modelkin.comparison.methods import CLAIMED, EQUAL_VALUES, SINGLE_LAYER, Evidence, Tested

from .result import ComponentVerdict, Conclusion, Reading

_TABLES = frozenset({"embedding", "head"})
STREAM = _TABLES | {"norms", "residual"}
"""Components whose tests run along the residual stream."""
UNITS = frozenset({"mlp", "experts"})
"""Components whose units must have been tested for their absence to mean something."""
BODY = UNITS | {"attention"}
"""Components of which one must be shared for the whole to be: tables, gains and routers are a part."""
LAYER = BODY | {"router", "residual"}
"""Components of layers that a recipe begins alike, and what they write."""
_RECIPES: tuple[Reading, ...] = ("beginning-alone", "zeros-alone")
"""Flags that are readings where nothing is found, by rank."""


def pattern_of(
    conclusion: Conclusion,
    components: Mapping[str, ComponentVerdict],
    evidence: Sequence[Evidence],
    *,
    stage: str,
    alike_heads: bool = False,
    matched: Collection[str] = (),
    same_numbers: Collection[str] = (),
) -> Reading | None:
    """Name the pattern, or return None if it is none of these.

    Before the deep stage, layers and units were compared only with unchanged numbering, so tables or
    coordinates without units may also mean a copy whose layers were moved or whose units were reordered.
    `alike_heads`: heads were found again that are alike and not the same, and were not counted. `matched` are
    components of which nothing is known but units and heads that were found again, and `same_numbers` those
    whose units hold exactly the other's numbers, which nobody learns.
    """
    tests = [test for test in evidence if isinstance(test, Tested)]
    shared = {name for name, item in components.items() if item.conclusion.related}
    silent = {name for name, item in components.items() if item.conclusion is Conclusion.NO_EVIDENCE}
    if conclusion is Conclusion.NO_EVIDENCE:
        flags = {flag for test in tests for flag in test.flags}
        return next((name for name in _RECIPES if name in flags), None)
    if conclusion is Conclusion.SHARED_REPARAMETRISED:
        equal = {test.component for test in tests if test.reordered and EQUAL_VALUES in test.flags}
        if shared <= equal & _TABLES and silent & UNITS:
            return "tables-reordered"
        if not matched or shared & BODY != {*matched} or same_numbers:
            return None
        if all(components[name].is_exact for name in matched):
            return "units-found-again" if shared & STREAM else None
        return "layers-found-again"
    if conclusion in (Conclusion.SHARED, Conclusion.SHARED_PARTIAL) and _is_single(shared, tests):
        return "single-layer"
    if conclusion is Conclusion.SHARED_PARTIAL:
        return _of_a_part(shared, silent, components, tests, stage=stage, alike_heads=alike_heads)
    return None


def _of_a_part(
    shared: Set[str],
    silent: Set[str],
    components: Mapping[str, ComponentVerdict],
    tests: Sequence[Tested],
    *,
    stage: str,
    alike_heads: bool,
) -> Reading | None:
    """Name the pattern of some parts that are shared, in the numbering the models came with."""
    if shared == {"norms"}:
        tested = {name for name, item in components.items() if item.conclusion.related is not None}
        return "norm-gains-only" if tested > shared else "norm-gains-alone"
    if not silent & UNITS:
        return None
    if shared == {"router"}:
        return "routers-only"
    if not shared <= STREAM:
        return None
    tables = [test for test in tests if test.component in shared & _TABLES]
    if tables and shared <= _TABLES | {"residual"} and all(EQUAL_VALUES in test.flags for test in tables):
        return "token-tables-only" if stage == "deep" else "tables-so-far"
    if stage != "deep":
        return "coordinates-so-far"
    return "coordinates-and-heads" if alike_heads else "coordinates-only"


def _is_single(shared: Set[str], tests: Sequence[Tested]) -> bool:
    """Say whether one pair of layers is all that is shared, and all that could be compared.

    What it writes runs along the residual stream, and says no more than its units do. A test that saw another
    layer, and claims something, knows that not all layers began alike.
    """
    if not shared & BODY or not shared <= LAYER:
        return False
    claimed = [test for test in tests if test.component in shared - {"residual"} and test.log10_p < CLAIMED]
    return bool(claimed) and all(SINGLE_LAYER in test.flags for test in claimed)
