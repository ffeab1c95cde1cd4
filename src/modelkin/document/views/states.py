"""What is known about each layer of both models, component by component. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Agreement, Contrast, Tested
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.document.blocks import PartState

_MADE = (Tested, Contrast, Agreement)


def layer_states(result: Comparison) -> dict[str, dict[int, PartState]]:
    """Say for each component what is known about each layer of the candidate; untested ones are absent.

    Layers that one test covers together (norm gains) are not told apart: a common origin there applies to
    some of them, and it is unknown to which. Tests made in the wrong coordinates say nothing.
    """
    states: dict[str, dict[int, PartState]] = {}
    for name, item in result.verdict.components.items():
        made = [test.layers for test in result.evidence if test.component == name and isinstance(test, _MADE)]
        single = {layers[0] for layers in made if len(layers) == 1}
        tested = sorted({layer for layers in made for layer in layers})
        if tested and item.conclusion is not Conclusion.NOT_TESTABLE:
            alone = single == set(tested) and len(single) == 1
            states[name] = {layer: _state(item, layer, alone=alone) for layer in tested}
    return states


def _state(item: ComponentVerdict, layer: int, *, alone: bool) -> PartState:
    if item.conclusion is Conclusion.NO_EVIDENCE or layer in item.other_layers:
        return "not_shared"
    return "shared" if layer in item.layers or alone else "together"


def base_states(result: Comparison) -> dict[str, dict[int, PartState]]:
    """Say the same for the layers of the base: they share what the layers facing them share."""
    facing = {mine: theirs for mine, theirs, _ in result.alignment.layers}
    states: dict[str, dict[int, PartState]] = {}
    for name, mine in layer_states(result).items():
        found: dict[int, PartState] = dict.fromkeys(_base_layers(result, name), "not_shared")
        if "together" in mine.values():
            found |= dict.fromkeys(_base_layers(result, name, together=True), "together")
        for layer, state in mine.items():
            there = facing.get(layer, layer)
            if state == "shared":
                found[there] = "shared"
        states[name] = found
    return states


def _base_layers(result: Comparison, component: str, *, together: bool = False) -> Iterator[int]:
    """Yield the layers of the base that tests of a component looked at, or those that look at several."""
    for test in result.evidence:
        if test.component == component and isinstance(test, _MADE) and len(test.layers) > together:
            yield from test.base_layers or test.layers
    yield from () if together else result.verdict.components[component].unfaced_base_layers


def outside_state(result: Comparison, component: str) -> PartState:
    """Say what is known about a component outside layers."""
    item = result.verdict.components.get(component)
    if item is None or item.log10_p is None or item.conclusion is Conclusion.NOT_TESTABLE:
        return "untested"
    if item.conclusion is Conclusion.NO_EVIDENCE:
        return "not_shared"
    # Gains of all layers, and the one above them, are tested together.
    return "together" if component in layer_states(result) else "shared"


_ORDER: tuple[PartState, ...] = ("shared", "together", "not_shared", "untested")


def best(states: tuple[PartState, ...]) -> PartState:
    """Return the most that is known."""
    return min(states, key=_ORDER.index, default="untested")
