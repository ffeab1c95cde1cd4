"""Tests that look at one layer each, gathered into one series for each kind of tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Tested
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
    """Layer -> its tests, the strongest first: several if a layer has several experts."""


def layer_series(result: Comparison) -> tuple[Series, ...]:
    """Return the series in the order of the evidence. Measures without an exact null are not tests."""
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


def n_layers(result: Comparison) -> int:
    """Return how many layers of the candidate are drawn."""
    seen = [layer + 1 for test in result.evidence for layer in test.layers]
    return max([result.candidate.layers or 0, *seen])
