"""Figures of one comparison: the layer map, the evidence, its components, its controls, effects by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from modelkin.comparison.methods import Agreement, Contrast, Evidence, Skipped, Tested
from modelkin.errors import UsageError
from modelkin.message import Phrase, phrase, say
from modelkin.untrusted import short_names

from ._figure import Axis, Figure, Panel
from ._inputs import binned, edges_of, words
from ._scale import CHANCE, signed_scale
from ._style import NULL, THRESHOLD, Style, series_styles
from .marks import HeatMap, Histogram, Intervals, Lines, Mark, ReferenceLine, TableMark
from .values import Numbers, Series, brief, grid, known, mean, numbers

if TYPE_CHECKING:
    from modelkin.comparison import Comparison, ControlResult
    from modelkin.comparison.alignment import LayerMap
    from modelkin.comparison.methods import Effect
    from modelkin.comparison.verdict import ComponentVerdict


def layer_map(found: LayerMap, *, names: tuple[str, str]) -> Figure:
    """Draw z of all candidate layers against all base layers, with the chosen path and the threshold."""
    scores = numbers(value for row in found.scores for value in row)
    scale = signed_scale(scores, label="z")
    rows = {layer: i for i, layer in enumerate(found.candidate_layers)}
    columns = {layer: i for i, layer in enumerate(found.base_layers)}
    heat = HeatMap(
        values=grid(found.scores),
        rows=words(found.candidate_layers),
        columns=words(found.base_layers),
        scale=scale,
        path=tuple((rows[a], columns[b]) for a, b in found.path if a in rows and b in columns),
        path_name=phrase("figure.facing"),
    )
    if found.threshold is None:
        told = phrase("figure.no_threshold")
    else:
        above = sum(value >= found.threshold for value in known(scores))
        told = phrase("figure.reach", above=above, cells=len(known(scores)), z=brief(found.threshold))
    panel = Panel(
        title="",
        marks=(heat,),
        x=Axis(label=phrase("figure.of_base", name=names[1])),
        y=Axis(label=phrase("figure.of_candidate", name=names[0])),
        height=4.6,
    )
    part = phrase(f"component.{found.component}")
    title = phrase("figure.layer_map", component=part, method=found.method)
    return Figure(title=title, panels=(panel,), note=told)


_FAR = 12.0
"""From this z on, the axis of a histogram is compressed away from 0."""


def p_words(log10_p: float | None) -> str:
    """Write a p-value by its exponent, rounded so that it never looks smaller than it is."""
    if log10_p is None:
        return ""
    if log10_p > -2:
        return f"p ≤ {min(1.0, math.ceil(10**log10_p * 100) / 100):.2f}"
    return f"p ≤ 1e{-int(-log10_p // 1)}"


@dataclass(frozen=True, slots=True)
class _Told:
    """One row of the forest plot: a test, or all tests of one kind with one outcome."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    limit: float | None
    remark: str
    strong: bool


def evidence_forest(
    tests: Sequence[Evidence],
    *,
    names: tuple[str, str],
    rule_log10_p: float | None = None,
    floor: float | None = None,
    most: int = 40,
) -> Figure:
    """Draw every test: effect with its interval, chance, the smallest effect it would have found, or why not.

    Tests that meet what the decision rule requires of a single test are filled. If there are more than
    `most`, those of one kind and outcome share a row; none is left out.
    """
    if not tests:
        raise UsageError("evidence_forest", say("problem.one-test"))
    order = sorted(tests, key=lambda test: (_effect(test) is None, _log10_p(test) or 0.0, test.component))
    groups: dict[object, list[Evidence]] = {}
    for number, test in enumerate(order):
        strong = rule_log10_p is not None and _meets(test, rule_log10_p, floor)
        kind = (
            test.component,
            test.role,
            test.method,
            strong,
            _effect(test) is None and _chance_or_reason(test),
        )
        groups.setdefault(kind if len(order) > most else number, []).append(test)
    rows = [_row(group, rule_log10_p, floor) for group in groups.values()]
    mark = Intervals(
        labels=tuple(row.label for row in rows),
        values=numbers(row.value for row in rows),
        low=numbers(row.low for row in rows),
        high=numbers(row.high for row in rows),
        limits=numbers(row.limit for row in rows),
        reasons=tuple(row.remark for row in rows),
        strong=tuple(row.strong for row in rows) if rule_log10_p is not None else (),
    )
    marks: list[Mark] = [ReferenceLine(value=0.0, axis="x", label=CHANCE, style=NULL), mark]
    if floor is not None:
        line = ReferenceLine(
            value=floor, axis="x", label=phrase("figure.floor"), role="threshold", style=THRESHOLD
        )
        marks.append(line)
    gathered = phrase("figure.gathered", tests=len(order), rows=len(rows))
    return Figure(
        title=phrase("figure.evidence", a=names[0], b=names[1]),
        panels=(Panel(title="", marks=tuple(marks), x=Axis(label=phrase("figure.effect_axis"))),),
        note=phrase("figure.single") if len(rows) == len(order) else gathered,
    )


def _row(group: Sequence[Evidence], log10_p: float | None, floor: float | None) -> _Told:
    """Summarise tests of one kind and outcome; a single one is shown as it is."""
    first = group[0]
    effects = [effect for test in group if (effect := _effect(test)) is not None]
    limits = [
        test.detection_limit
        for test in group
        if isinstance(test, Tested) and test.detection_limit is not None
    ]
    label = _test_label(first)
    if len(group) > 1:
        layers = {layer for test in group for layer in test.layers}
        part = phrase(f"component.{first.component}")
        of_role = phrase("figure.of_role", part=part, role=first.role) if first.role else part
        label = phrase("figure.tests_layers", part=of_role, tests=len(group), layers=len(layers))
    worst = max(group, key=lambda test: _log10_p(test) or 0.0)
    return _Told(
        label=label,
        value=median(effect.value for effect in effects) if effects else None,
        low=min(effect.low for effect in effects) if effects else None,
        high=max(effect.high for effect in effects) if effects else None,
        limit=max(limits, default=None),
        remark=_chance_or_reason(worst),
        strong=log10_p is not None and _meets(first, log10_p, floor),
    )


def _meets(test: Evidence, log10_p: float, floor: float | None) -> bool:
    effect, found = _effect(test), _log10_p(test)
    if effect is None or found is None:
        return False
    return found <= log10_p and (floor is None or effect.value >= floor)


def _effect(test: Evidence) -> Effect | None:
    return test.effect if isinstance(test, Tested | Agreement | Contrast) else None


def _log10_p(test: Evidence) -> float | None:
    if isinstance(test, Tested | Contrast):
        return test.log10_p
    return test.rank.log10_p if isinstance(test, Agreement) and test.rank else None


def _chance_or_reason(test: Evidence) -> str:
    if isinstance(test, Skipped):
        return Phrase(test.reason)
    return p_words(_log10_p(test)) if _effect(test) else phrase("figure.no_reason")


def _test_label(test: Evidence) -> str:
    part = phrase(f"component.{test.component}")
    if not test.layers:
        return part
    first, last = test.layers[0], test.layers[-1]
    if first == last:
        return phrase("figure.one_layer", component=part, layer=first)
    return phrase("figure.layers", component=part, first=first, last=last)


def component_table(components: Mapping[str, ComponentVerdict], *, names: tuple[str, str]) -> Figure:
    """Write the answer for each component as a table: conclusion, effect, p, limit, or why there is none."""
    rows = tuple(
        (
            phrase(f"component.{name}"),
            _concluded(item),
            str(item.n_tests),
            f"{item.effect.value:.3f} ({item.effect.low:.3f} to {item.effect.high:.3f})"
            if item.effect
            else "-",
            p_words(item.log10_p) or "-",
            brief(item.detection_limit) if item.detection_limit is not None else "-",
        )
        for name, item in components.items()
    )
    table = TableMark(
        columns=tuple(
            phrase(f"figure.{key}")
            for key in ("component", "conclusion", "tests", "interval", "chance", "found_from")
        ),
        rows=rows,
        align=("left", "left", "right", "right", "right", "right"),
    )
    return Figure(
        title=phrase("figure.components", a=names[0], b=names[1]),
        panels=(Panel(title="", marks=(table,)),),
        size=9.0,
        note=phrase("figure.scale"),
    )


def _concluded(item: ComponentVerdict) -> str:
    found = phrase(f"conclusion.{item.conclusion.value}")
    return found if item.reason is None else phrase("figure.because", found=found, reason=item.reason)


def control_strip(
    pair: tuple[str, str], effect: Effect | None, log10_p: float | None, controls: Sequence[ControlResult]
) -> Figure:
    """Draw the effect of the pair in question above those of its controls; missing ones say why."""
    labels: list[str] = [phrase("figure.in_question", a=pair[0], b=pair[1])]
    values: list[Effect | None] = [effect]
    none = say("figure.no_effect")
    reasons = [p_words(log10_p) if effect else Phrase(none)]
    for control in controls:
        known_effect = control.effect if control.usable else None
        labels.append(f"{control.pair[0]} | {control.pair[1]}")
        values.append(known_effect)
        reasons.append(p_words(control.log10_p) if known_effect else Phrase(control.reason or none))

    def column(name: str) -> Numbers:
        return numbers(getattr(item, name) if item else None for item in values)

    mark = Intervals(
        labels=tuple(labels),
        values=column("value"),
        low=column("low"),
        high=column("high"),
        reasons=tuple(reasons),
        style=Style(tone="blue"),
    )
    usable = sum(control.usable and control.effect is not None for control in controls)
    chance = ReferenceLine(value=0.0, axis="x", label=CHANCE, style=NULL)
    return Figure(
        title=phrase("figure.controls"),
        panels=(Panel(title="", marks=(chance, mark), x=Axis(label=phrase("figure.effect_axis"))),),
        note=phrase("figure.usable", usable=usable, controls=len(controls))
        if controls
        else phrase("figure.no_controls"),
    )


def comparison_figures(result: Comparison) -> dict[str, Figure]:
    """Make all figures of a comparison, by file name; those without data are left out."""
    refs = [result.candidate.ref, result.base.ref, *(item.pair[1] for item in result.controls)]
    short = dict(zip(refs, short_names(refs), strict=True))
    names = (short[result.candidate.ref], short[result.base.ref])
    figures: dict[str, Figure] = {}
    if result.evidence:
        figures["evidence"] = evidence_forest(result.evidence, names=names)
    if result.verdict.components:
        figures["components"] = component_table(result.verdict.components, names=names)
    controls = [
        replace(item, pair=(short.get(item.pair[0], item.pair[0]), short[item.pair[1]]))
        for item in result.controls
    ]
    figures["controls"] = control_strip(names, result.verdict.effect, result.verdict.log10_p, controls)
    z = [test.z for test in result.evidence if isinstance(test, Tested) and test.z is not None]
    if z:
        figures["z_histogram"] = z_histogram(z)
    for i, found in enumerate(result.alignment.maps):
        figures[f"layer_map_{i + 1}"] = layer_map(found, names=names)
    return figures


def z_histogram(z: Series, *, title: str | None = None, reach: float | None = None) -> Figure:
    """Draw z scores against the standard normal distribution that chance would give.

    Those of relatives reach hundreds. Then the axis is compressed away from 0, so that chance keeps its shape
    and its width.
    """
    found = known(numbers(z))
    if not found:
        raise UsageError("z_histogram", say("problem.one-z"))
    limit = reach or max(5.0, math.ceil(max(abs(value) for value in found) + 1))
    far = limit > _FAR
    drawn = [math.asinh(value) for value in found] if far else list(found)
    end = math.asinh(limit) if far else limit
    edges = edges_of([], bins=48 if far else max(20, min(60, int(4 * limit))), limits=(-end, end))
    borders = np.sinh(np.array(edges, dtype=float)) if far else np.array(edges, dtype=float)
    below = np.array([0.5 * math.erfc(-border / math.sqrt(2)) for border in borders])
    size = math.sqrt(math.fsum(value * value for value in found) / len(found))
    normal = Histogram(
        name=phrase("figure.normal"),
        edges=edges,
        counts=numbers(np.diff(below)),
        style=NULL,
        role="null",
    )
    observed = phrase("figure.observed", tests=len(found))
    axis = Axis(label="z")
    if far:
        steps = [step for step in (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if step <= limit]
        signed = sorted({side * step for step in steps for side in (-1, 1)})
        ticks = tuple((math.asinh(step), f"{step:,}") for step in signed)
        axis = Axis(label=phrase("figure.together"), ticks=ticks)
    return Figure(
        title=title or phrase("figure.z"),
        panels=(
            Panel(
                title="",
                marks=(binned(observed, drawn, edges, Style(tone="blue")), normal),
                x=axis,
                y=Axis(label=phrase("figure.share")),
            ),
        ),
        note=phrase("figure.moments", mean=brief(mean(found)), size=brief(size)),
    )


def effects_by_layer(result: Comparison) -> Figure:
    """Draw the strongest effect of each component in each layer, with its interval."""
    found: dict[str, dict[int, Tested | Agreement | Contrast]] = {}
    for test in result.evidence:
        if isinstance(test, Tested | Agreement | Contrast) and test.effect and len(test.layers) == 1:
            layers = found.setdefault(test.component, {})
            best = layers.get(test.layers[0])
            if best is None or best.effect is None or abs(test.effect.value) > abs(best.effect.value):
                layers[test.layers[0]] = test
    if not found:
        raise UsageError("layers", say("problem.no-layer-tests"), hint=say("hint.deeper"))
    styles = series_styles(found)
    last = max(layer for layers in found.values() for layer in layers)
    curves = []
    for component, layers in found.items():
        effects = [layers[layer].effect if layer in layers else None for layer in range(last + 1)]
        curves.append(
            Lines(
                name=phrase(f"component.{component}"),
                x=numbers(range(last + 1)),
                y=numbers(None if item is None else item.value for item in effects),
                low=numbers(None if item is None else item.low for item in effects),
                high=numbers(None if item is None else item.high for item in effects),
                style=styles[component],
            )
        )
    panel = Panel(
        title="",
        marks=(*curves, ReferenceLine(value=0.0, label=CHANCE)),
        x=Axis(label=phrase("figure.layer_of", name=result.candidate.ref)),
        y=Axis(label=phrase("figure.excess")),
        height=3.4,
    )
    return Figure(title=phrase("figure.strongest"), panels=(panel,), note=phrase("figure.strongest_note"))
