"""Tests that look at one layer each, gathered into one series for each kind of tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Tested
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.document.language import Language
from modelkin.document.numbers import bound_text, effect_text, limit_text, runs_text, z_text
from modelkin.document.views.words import facing_layers, undone

from .markup import powers


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All tests of one method on one role, by layer."""

    name: str
    component: str
    tests: Mapping[int, tuple[Tested, ...]]
    """Layer -> its tests, the strongest first: several where a layer has several experts."""


def layer_series(result: Comparison) -> tuple[Series, ...]:
    """Return the series in the order of the evidence. Measures without an exact null are no tests."""
    found: dict[tuple[str, str, str], dict[int, list[Tested]]] = {}
    for test in result.evidence:
        if isinstance(test, Tested) and len(test.layers) == 1:
            key = (test.component, test.role or test.method, test.method)
            found.setdefault(key, {}).setdefault(test.layers[0], []).append(test)
    methods_of: dict[str, set[str]] = {}
    for _, role, method in found:
        methods_of.setdefault(role, set()).add(method)
    return tuple(
        Series(
            name=role if len(methods_of[role]) == 1 else f"{role} ({method})",
            component=component,
            tests={
                layer: tuple(sorted(tests, key=lambda test: test.log10_p))
                for layer, tests in sorted(layers.items())
            },
        )
        for (component, role, method), layers in found.items()
    )


def point_note(series: Series, layer: int, language: Language) -> str:
    """Write what a mark stands for."""
    tests = series.tests[layer]
    test = tests[0]
    note = language.say(
        "text.point",
        role=series.name,
        layer=str(layer),
        effect=effect_text(test.effect),
        z=z_text(test.z) if test.z is not None else "-",
        p=powers(bound_text(test.log10_p)),
        limit=limit_text(test.detection_limit) if test.detection_limit is not None else "-",
    )
    others, coordinates = facing_layers(test), undone(test.frame)
    if others:
        note += f"; {language.say('text.faces', layers=runs_text(others))}"
    if coordinates:
        note += f"; {language.say('text.frame', frame=language.word('frame', coordinates))}"
    if len(tests) > 1:
        note += f" ({language.say('text.strongest_of', number=str(len(tests)))})"
    return note


def layer_states(result: Comparison) -> dict[str, dict[int, str]]:
    """Say for each component what is known of each layer: `shared`, `not_shared` or `together`.

    Layers that one test looked at together (norm gains) are not told apart: a common origin there is one of
    some of them, and nobody knows of which. What was not tested is absent.
    """
    states: dict[str, dict[int, str]] = {}
    for name, item in result.verdict.components.items():
        made = [
            test.layers for test in result.evidence if test.component == name and isinstance(test, Tested)
        ]
        single = {layers[0] for layers in made if len(layers) == 1}
        tested = sorted({layer for layers in made for layer in layers})
        if tested:
            alone = single == set(tested) and len(single) == 1
            states[name] = {layer: _state(item, layer, alone=alone) for layer in tested}
    return states


def _state(item: ComponentVerdict, layer: int, *, alone: bool) -> str:
    if item.conclusion in (Conclusion.NO_EVIDENCE, Conclusion.NOT_TESTABLE) or layer in item.other_layers:
        return "not_shared"
    return "shared" if layer in item.layers or alone else "together"


def n_layers(result: Comparison) -> int:
    """Return how many layers of the candidate are drawn."""
    seen = [layer + 1 for test in result.evidence for layer in test.layers]
    return max([result.candidate.layers or 0, *seen])
