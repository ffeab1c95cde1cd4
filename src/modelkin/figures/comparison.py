"""Figures of one comparison: the layer map, the evidence, its components, its controls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from modelkin.comparison.methods import Agreement, Evidence, Skipped, Tested
from modelkin.errors import UsageError

from ._figure import Axis, Figure, Panel
from ._inputs import binned, edges_of, words
from ._marks import HeatMap, Histogram, Intervals, Mark, ReferenceLine, TableMark
from ._scale import signed_scale
from ._style import NULL, THRESHOLD, Style
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
        path_name="layers that face each other",
    )
    if found.threshold is None:
        told = "No threshold was set for single cells."
    else:
        above = sum(value >= found.threshold for value in known(scores))
        cells = f"{above} of {len(known(scores))} cells"
        told = f"{cells} reach z = {brief(found.threshold)}, the threshold for one cell."
    panel = Panel(
        title="",
        marks=(heat,),
        x=Axis(label=f"layer of {names[1]} (base)"),
        y=Axis(label=f"layer of {names[0]} (candidate)"),
        height=4.6,
    )
    return Figure(title=f"Layer map of {found.component} ({found.method})", panels=(panel,), note=told)


def p_words(log10_p: float | None) -> str:
    """Write a p-value by its exponent, rounded so that it never looks smaller than it is."""
    if log10_p is None:
        return ""
    if log10_p > -2:
        return f"p ≤ {min(1.0, math.ceil(10**log10_p * 100) / 100):.2f}"
    return f"p ≤ 1e{-int(-log10_p // 1)}"


def evidence_forest(
    tests: Sequence[Evidence],
    *,
    names: tuple[str, str],
    rule_log10_p: float | None = None,
    floor: float | None = None,
    most: int = 40,
) -> Figure:
    """Draw every test: effect with its interval, chance, the smallest effect it would have found, or why not.

    Parameters
    ----------
    rule_log10_p, floor
        What the decision rule asks of a single test; tests that meet it are filled.
    most
        Rows to draw, the strongest first; how many are left out is said.
    """
    if not tests:
        raise UsageError("evidence_forest", "expected at least one test")
    order = sorted(tests, key=lambda test: (_effect(test) is None, _log10_p(test) or 0.0, test.component))
    shown = order[:most]
    effects = [_effect(test) for test in shown]
    strong = tuple(_meets(test, rule_log10_p, floor) for test in shown) if rule_log10_p is not None else ()
    mark = Intervals(
        labels=tuple(_test_label(test) for test in shown),
        values=numbers(effect.value if effect else None for effect in effects),
        low=numbers(effect.low if effect else None for effect in effects),
        high=numbers(effect.high if effect else None for effect in effects),
        limits=numbers(test.detection_limit if isinstance(test, Tested) else None for test in shown),
        reasons=tuple(_chance_or_reason(test) for test in shown),
        strong=strong,
    )
    marks: list[Mark] = [ReferenceLine(value=0.0, axis="x", label="chance", style=NULL), mark]
    if floor is not None:
        line = ReferenceLine(
            value=floor, axis="x", label="effect floor of the rule", role="threshold", style=THRESHOLD
        )
        marks.append(line)
    left_out = f" {len(order) - most} weaker tests are not drawn." if len(order) > most else ""
    return Figure(
        title=f"Evidence: {names[0]} and {names[1]}",
        panels=(Panel(title="", marks=tuple(marks), x=Axis(label="effect (0 is chance, 1 is identical)")),),
        note=f"Intervals are of single tests, not corrected for their number.{left_out}",
    )


def _meets(test: Evidence, log10_p: float, floor: float | None) -> bool:
    effect, found = _effect(test), _log10_p(test)
    if effect is None or found is None:
        return False
    return found <= log10_p and (floor is None or effect.value >= floor)


def _effect(test: Evidence) -> Effect | None:
    return test.effect if isinstance(test, Tested | Agreement) else None


def _log10_p(test: Evidence) -> float | None:
    if isinstance(test, Tested):
        return test.log10_p
    return test.rank.log10_p if isinstance(test, Agreement) and test.rank else None


def _chance_or_reason(test: Evidence) -> str:
    if isinstance(test, Skipped):
        return str(test.reason)
    return p_words(_log10_p(test)) if _effect(test) else "no reason given"


def _test_label(test: Evidence) -> str:
    if not test.layers:
        return test.component
    first, last = test.layers[0], test.layers[-1]
    return f"{test.component}, layer {first}" if first == last else f"{test.component}, layers {first}-{last}"


def component_table(components: Mapping[str, ComponentVerdict], *, names: tuple[str, str]) -> Figure:
    """Write the answer for each component as a table: conclusion, effect, p, limit, or why there is none."""
    rows = tuple(
        (
            name,
            item.conclusion.value if item.reason is None else f"{item.conclusion.value}: {item.reason}",
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
        columns=("component", "conclusion", "tests", "effect (interval)", "chance", "found from"),
        rows=rows,
        align=("left", "left", "right", "right", "right", "right"),
    )
    return Figure(
        title=f"Components of {names[0]} and {names[1]}",
        panels=(Panel(title="", marks=(table,)),),
        size=9.0,
        note="Effect: 0 is chance, 1 is identical. Found from: smallest effect that would have been found.",
    )


def control_strip(
    pair: tuple[str, str], effect: Effect | None, log10_p: float | None, controls: Sequence[ControlResult]
) -> Figure:
    """Draw the effect of the pair in question above those of its controls; missing ones say why."""
    labels = [f"{pair[0]} | {pair[1]} (in question)"]
    values: list[Effect | None] = [effect]
    reasons = [p_words(log10_p) if effect else "no effect was measured"]
    for control in controls:
        known_effect = control.effect if control.usable else None
        labels.append(f"{control.pair[0]} | {control.pair[1]}")
        values.append(known_effect)
        reasons.append(
            p_words(control.log10_p) if known_effect else str(control.reason or "no effect was measured")
        )

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
    chance = ReferenceLine(value=0.0, axis="x", label="chance", style=NULL)
    return Figure(
        title="The pair in question against controls",
        panels=(Panel(title="", marks=(chance, mark), x=Axis(label="effect (0 is chance, 1 is identical)")),),
        note=f"{usable} of {len(controls)} controls could be used."
        if controls
        else "No controls were asked for.",
    )


def comparison_figures(result: Comparison) -> dict[str, Figure]:
    """Make all figures of a comparison, by file name; those without data are left out."""
    names = (result.candidate.ref, result.base.ref)
    figures: dict[str, Figure] = {}
    if result.evidence:
        figures["evidence"] = evidence_forest(result.evidence, names=names)
    if result.verdict.components:
        figures["components"] = component_table(result.verdict.components, names=names)
    figures["controls"] = control_strip(names, result.verdict.effect, result.verdict.log10_p, result.controls)
    z = [test.z for test in result.evidence if isinstance(test, Tested) and test.z is not None]
    if z:
        figures["z_histogram"] = z_histogram(z)
    for i, found in enumerate(result.alignment.maps):
        figures[f"layer_map_{i + 1}"] = layer_map(found, names=names)
    return figures


def z_histogram(z: Series, *, title: str = "z scores of all tests", reach: float | None = None) -> Figure:
    """Draw z scores against the standard normal distribution that chance would give."""
    found = known(numbers(z))
    if not found:
        raise UsageError("z_histogram", "expected at least one z score")
    limit = reach or max(5.0, math.ceil(max(abs(value) for value in found) + 1))
    edges = edges_of([], bins=max(20, min(60, int(4 * limit))), limits=(-limit, limit))
    borders = np.array(edges, dtype=float)
    below = np.array([0.5 * math.erfc(-border / math.sqrt(2)) for border in borders])
    size = math.sqrt(math.fsum(value * value for value in found) / len(found))
    normal = Histogram(
        name="standard normal: what chance gives",
        edges=edges,
        counts=numbers(np.diff(below)),
        style=NULL,
        role="null",
    )
    return Figure(
        title=title,
        panels=(
            Panel(
                title="",
                marks=(binned(f"observed ({len(found)} tests)", found, edges, Style(tone="blue")), normal),
                x=Axis(label="z"),
                y=Axis(label="share of tests"),
            ),
        ),
        note=f"Mean {brief(mean(found))}, root mean square {brief(size)}; chance gives 0 and 1.",
    )
