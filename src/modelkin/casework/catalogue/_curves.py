"""Measures along the layers: of a pair, of a pair among controls, of single models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import say

from ._parts import (
    BLUE,
    DEPENDENT,
    EXPECTED,
    ORANGE,
    banded,
    bars,
    by_layer,
    correlations,
    curves,
    deviations,
    excess_of,
    expected_line,
    level,
    line,
    of_like_size,
)

_GONE = fig.Style(tone="muted", marker="X", dash="dotted")


def layer_curves(
    layers: fig.Series,
    measured: Mapping[str, fig.Series],
    *,
    measure: str,
    title: str | None = None,
    chance: fig.Chance | Mapping[str, fig.Chance] | None = None,
    expected: Mapping[str, fig.Series] | None = None,
    styles: fig.Styles | None = None,
    note: str = "",
) -> fig.Figure:
    """Draw any measure by layer, one curve per kind of tensor or per pair.

    `chance` is one null for all curves, or one for each: curves with different nulls get their own panels.
    `expected` is one expectation for each curve, such as the cosine over all shuffles. One of the two is
    needed: a similarity without it says nothing.
    """
    if chance is None and not expected:
        raise UsageError(
            "layer_curves", say("problem.chance-or-expected"), hint="Give the null of the measure."
        )
    chosen = fig.complete(styles, measured)
    groups: dict[fig.Chance | None, list[str]] = {}
    for name in measured:
        null = chance[name] if isinstance(chance, Mapping) else chance
        groups.setdefault(null, []).append(name)
    panels = []
    for null, names in groups.items():
        band = (null.mark(fig.numbers(layers)),) if null else ()
        drawn = {name: measured[name] for name in names}
        panels.append(by_layer("", (*band, *curves(layers, drawn, chosen, expected)), measure, height=3.2))
    return fig.Figure(
        title=title or f"{measure} by layer",
        panels=tuple(panels),
        columns=min(2, len(panels)),
        note=f"{DEPENDENT} {note}".strip(),
    )


def norm_cosines(
    layers: fig.Series,
    cosine: Mapping[str, fig.Series],
    expected: Mapping[str, fig.Series],
    *,
    names: tuple[str, str],
    spread_of_shuffles: Mapping[str, fig.Series] | None = None,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw cosines of norm gains by layer with what shuffling would give, and what is left of them."""
    tones = fig.complete(styles, cosine)
    bands: list[fig.Mark] = []
    for kind, sd in (spread_of_shuffles or {}).items():
        style = fig.Style(tone=tones[kind].tone, dash="dotted")
        zero = line(f"{kind}: 95 % of shuffles", layers, (0.0,) * len(fig.numbers(layers)), style, "null")
        bands.append(banded(zero, -fig.WITHIN * fig.array(sd), fig.WITHIN * fig.array(sd)))
    left = (level(0.0, "nothing in common"), *bands, *curves(layers, excess_of(cosine, expected), styles))
    return fig.Figure(
        title=f"Norm gains of {names[0]} and {names[1]}: cosine and its expectation",
        panels=(
            by_layer("Cosine, and its expectation", curves(layers, cosine, styles, expected), "cosine"),
            by_layer("What is left: cosine minus expectation", left, "excess cosine"),
        ),
        columns=2,
        note="Dashed: product of both mean directions, exactly the mean of the cosine over all shuffles.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCurves:
    """Cosine by layer, the same after shuffling, and the correlation that remains after centring."""

    layers: fig.Numbers
    cosine: fig.Numbers
    shuffled: fig.Numbers
    pearson: fig.Numbers
    shuffled_low: fig.Numbers = ()
    shuffled_high: fig.Numbers = ()


def shuffle_summary(kinds: Mapping[str, ShuffleCurves], *, names: tuple[str, str], n: int) -> fig.Figure:
    """Draw, for each kind of vector, its cosine, shuffled cosine and centred cosine by layer."""
    panels, means = [], []
    for kind, item in kinds.items():
        null = line("cosine after shuffling", item.layers, item.shuffled, fig.EXPECTATION, "null")
        marks = (
            banded(null, item.shuffled_low, item.shuffled_high),
            fig.pearson_chance(n).mark(item.layers),
            line("cosine", item.layers, item.cosine, BLUE),
            line("centred cosine (Pearson)", item.layers, item.pearson, ORANGE),
        )
        panels.append(by_layer(kind, marks, "similarity"))
        cosine, shuffled, centred = (
            fig.brief(fig.mean(values), 4) for values in (item.cosine, item.shuffled, item.pearson)
        )
        means.append(f"{kind}: mean cosine {cosine}, shuffled {shuffled}, centred {centred}")
    return fig.Figure(
        title=f"{names[0]} and {names[1]}: before and after shuffling",
        panels=tuple(panels),
        columns=2,
        note=f"{'; '.join(means)}. {DEPENDENT}",
    )


def matched_rows(
    layers: fig.Series,
    observed: fig.Series,
    null: fig.Series,
    null_low: fig.Series,
    null_high: fig.Series,
    *,
    names: tuple[str, str],
    repeats: int,
    null_of: str = "shuffled rows",
) -> fig.Figure:
    """Draw the mean cosine of best-matched router rows, and what the search finds in unrelated rows."""
    label = f"the same search on {null_of} ({repeats} runs, full range)"
    chance = banded(line(label, layers, null, fig.NULL, "null"), null_low, null_high)
    found = line("observed", layers, observed, BLUE)
    pairs = zip(found.y, chance.high, strict=True)
    above = sum(value is not None and top is not None and value > top for value, top in pairs)
    return fig.Figure(
        title=f"Best-matched router rows of {names[0]} and {names[1]}",
        panels=(by_layer("", (chance, found), "mean cosine of matched rows"),),
        note=f"A search finds matches in noise too; {above} of {len(found.y)} layers exceed its range there.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStatistics:
    """Mean, standard deviation, least and largest value of a vector in each layer of a model."""

    layers: fig.Numbers
    mean: fig.Numbers
    std: fig.Numbers
    min: fig.Numbers
    max: fig.Numbers


def vector_statistics(
    models: Mapping[str, VectorStatistics],
    *,
    what: str,
    initial: float | None = 1.0,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw mean, standard deviation, minimum and maximum by layer for each model."""
    chosen = fig.complete(styles, models)
    titles = {"mean": "Mean", "std": "Standard deviation", "min": "Least value", "max": "Largest value"}
    panels = []
    for name, title in titles.items():
        start = () if initial is None else (level(0.0 if name == "std" else initial, "before training"),)
        drawn = (
            line(model, item.layers, getattr(item, name), chosen[model]) for model, item in models.items()
        )
        without = "" if start else "the initial values are not known"
        panels.append(by_layer(title, (*start, *drawn), name, without_null=without))
    return fig.Figure(
        title=f"{what} by layer",
        panels=tuple(panels),
        columns=2,
        note="Of single models: like curves come of like training and are no evidence of a common origin.",
    )


def input_minus_post(
    layers: fig.Series,
    means: Mapping[str, fig.Series],
    stds: Mapping[str, fig.Series],
    pearson: Mapping[str, fig.Series],
    *,
    n: int,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw the difference of both norm gains of a layer: mean and spread by model, correlation by pair."""
    start, every = level(0.0, "before training"), fig.complete(styles, [*means, *pearson])
    sizes = {
        pair: max(map(abs, fig.known(fig.numbers(values))), default=0.0) for pair, values in pearson.items()
    }
    groups = of_like_size(sizes)
    panels = (
        by_layer("Mean", (start, *curves(layers, means, styles)), "mean"),
        by_layer("Standard deviation", (start, *curves(layers, stds, styles)), "standard deviation"),
        *(
            correlations(
                "Correlation between models", layers, {pair: pearson[pair] for pair in group}, every, n=n
            )
            for group in groups
        ),
    )
    return fig.Figure(
        title="Input norm minus post-attention norm",
        panels=panels,
        columns=3 if len(panels) == 3 else 2,
        note=DEPENDENT if len(groups) == 1 else f"{DEPENDENT} Axes of correlations differ between panels.",
    )


def layer_range(
    layers: fig.Series,
    pairs: Mapping[str, fig.Series],
    *,
    measure: str,
    expected: fig.Series | None = None,
    highlight: str | None = None,
    chance: fig.Chance | None = None,
) -> fig.Figure:
    """Draw the mean of many pairs by layer with their spread, and every pair as a thin line."""
    centre, low, high = deviations(zip(*(fig.numbers(values) for values in pairs.values()), strict=True))
    marks: list[fig.Mark] = [
        replace(line(pair, layers, values, fig.Style(tone="muted")), thin=True)
        for pair, values in pairs.items()
        if pair != highlight
    ]
    name = f"mean ± standard deviation of {len(pairs)} pairs"
    marks.append(banded(line(name, layers, centre, BLUE), low, high))
    if highlight is not None:
        marks.append(line(highlight, layers, pairs[highlight], ORANGE))
    if expected is not None:
        marks.append(expected_line(f"{EXPECTED}, mean of pairs", layers, expected))
    if chance is not None:
        marks.append(chance.mark(fig.numbers(layers)))
    return fig.Figure(
        title=f"{measure} of {len(pairs)} pairs by layer",
        panels=(by_layer("", marks, measure, height=3.2),),
        note="Thin: single pairs. Pairs share models, so the band is no standard error.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCurves:
    """The pair in question and its controls; a control that could not be measured is its reason."""

    layers: fig.Numbers
    main: fig.Numbers
    controls: Mapping[str, fig.Numbers | str]
    expected: fig.Numbers = ()
    chance: fig.Chance | None = None


def with_controls(
    kinds: Mapping[str, ControlCurves], *, main: str, measure: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Draw the pair in question next to its controls; what is missing is shown as missing."""
    every = dict.fromkeys([main, *(name for item in kinds.values() for name in item.controls)])
    chosen = fig.complete(styles, every)
    return fig.Figure(
        title=f"{main} against controls",
        panels=tuple(_control_panel(kind, item, main, measure, chosen) for kind, item in kinds.items()),
        columns=2,
        note="A measure speaks for a common origin only where it exceeds unrelated controls.",
    )


def _control_panel(kind: str, item: ControlCurves, main: str, measure: str, styles: fig.Styles) -> fig.Panel:
    there = {name: found for name, found in item.controls.items() if not isinstance(found, str)}
    marks: list[fig.Mark] = [expected_line(EXPECTED, item.layers, item.expected)] if item.expected else []
    if item.chance:
        marks.append(item.chance.mark(item.layers))
    without = (
        "the controls stand for chance"
        if there
        else "no control could be measured; the curve cannot be judged"
    )
    without = "" if marks else without
    marks += [line(name, item.layers, found, styles[name]) for name, found in there.items()]
    marks.append(line(main, item.layers, item.main, styles[main]))
    # An empty curve: the control is in the legend and in the alt text, and nothing is drawn for it.
    marks += [
        line(f"{name}: missing ({reason})", item.layers, (None,) * len(item.layers), _GONE)
        for name, reason in item.controls.items()
        if isinstance(reason, str)
    ]
    return by_layer(kind, marks, measure, without_null=without)


def changed_values(
    layers: fig.Series,
    changed: fig.Series,
    mean_difference: fig.Series,
    mean_ulps: fig.Series,
    *,
    one_ulp: fig.Series,
    names: tuple[str, str],
    what: str,
) -> fig.Figure:
    """Draw the share of changed values, their mean change, and the change in steps of the format, by layer.

    `changed` is in per cent. `mean_difference` is over all values; where it is 0, nothing is drawn on the log
    axis. `mean_ulps` is over the values that differ. `one_ulp` is one step at the typical value of the layer:
    a change below it cannot be stored.
    """
    x, step = fig.numbers(layers), "one step of the format"
    size = [value or None for value in fig.numbers(mean_difference)]
    zeros = sum(value == 0 for value in fig.numbers(mean_difference))
    labels = fig.words([int(v or 0) for v in x])
    share = fig.Bars(labels=labels, series=(bars("changed", changed),), slim=True)
    difference = (
        expected_line(step, x, one_ulp, fig.NULL),
        line("mean |difference|", x, size, BLUE),
    )
    steps = (
        expected_line(step, x, (1.0,) * len(x), fig.NULL),
        line("mean change of changed values", x, mean_ulps, ORANGE),
    )
    return fig.Figure(
        title=f"{what}: what differs between {names[0]} and {names[1]}",
        panels=(
            by_layer("Changed values", (level(0.0, "equal models"), share), "% of values"),
            by_layer(
                "Mean difference",
                difference,
                fig.Axis(label="mean |difference|", kind="log"),
                note=f"{zeros} layers without any difference are not on the log axis" if zeros else "",
            ),
            by_layer("Change in steps", steps, fig.Axis(label="units in the last place", low=0.0)),
        ),
        columns=3,
        note=(
            "Large values are stored in large steps, and small changes of them are rounded away: "
            "a smaller share of changed values does not show where training acted."
        ),
    )
