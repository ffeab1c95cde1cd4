"""Measures along the layers: of a pair, of a pair among controls, of single models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, phrase, say

from ._parts import (
    BLUE,
    COSINE,
    DEPENDENT,
    EXCESS,
    EXPECTED,
    IN_COMMON,
    ORANGE,
    UNTRAINED,
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
        raise UsageError("layer_curves", say("problem.chance-or-expected"), hint=say("hint.give-null"))
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
        title=title or phrase("catalogue.by-layer", what=measure),
        panels=tuple(panels),
        columns=min(2, len(panels)),
        note=phrase("sentences", said=(DEPENDENT, note)) if note else DEPENDENT,
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
        zero = line(
            phrase("catalogue.shuffles", name=kind), layers, (0.0,) * len(fig.numbers(layers)), style, "null"
        )
        bands.append(banded(zero, -fig.WITHIN * fig.array(sd), fig.WITHIN * fig.array(sd)))
    left = (level(0.0, IN_COMMON), *bands, *curves(layers, excess_of(cosine, expected), styles))
    return fig.Figure(
        title=phrase("catalogue.norm-gains", a=names[0], b=names[1]),
        panels=(
            by_layer(
                phrase("catalogue.cosine-expectation"), curves(layers, cosine, styles, expected), COSINE
            ),
            by_layer(phrase("catalogue.what-is-left"), left, EXCESS),
        ),
        columns=2,
        note=phrase("catalogue.norm-gains-note"),
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
        null = line(phrase("catalogue.after-shuffling"), item.layers, item.shuffled, fig.EXPECTATION, "null")
        marks = (
            banded(null, item.shuffled_low, item.shuffled_high),
            fig.pearson_chance(n).mark(item.layers),
            line(COSINE, item.layers, item.cosine, BLUE),
            line(phrase("catalogue.centred"), item.layers, item.pearson, ORANGE),
        )
        panels.append(by_layer(kind, marks, phrase("catalogue.similarity")))
        cosine, shuffled, centred = (
            fig.brief(fig.mean(values), 4) for values in (item.cosine, item.shuffled, item.pearson)
        )
        told = {"cosine": cosine, "shuffled": shuffled, "centred": centred}
        means.append(phrase("catalogue.shuffle-means", name=kind, **told))
    return fig.Figure(
        title=phrase("catalogue.shuffle-summary", a=names[0], b=names[1]),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.shuffle-note", means=tuple(means), dependent=DEPENDENT),
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
    null_name: str | None = None,
) -> fig.Figure:
    """Draw the mean cosine of best-matched router rows, and what the search finds in unrelated rows."""
    label = null_name or phrase("catalogue.same-search", runs=repeats)
    chance = banded(line(label, layers, null, fig.NULL, "null"), null_low, null_high)
    found = line(phrase("catalogue.observed"), layers, observed, BLUE)
    pairs = zip(found.y, chance.high, strict=True)
    above = sum(value is not None and top is not None and value > top for value, top in pairs)
    return fig.Figure(
        title=phrase("catalogue.matched-rows", a=names[0], b=names[1]),
        panels=(by_layer("", (chance, found), phrase("catalogue.matched-cosine")),),
        note=phrase("catalogue.matched-note", above=above, layers=len(found.y)),
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
    panels = []
    for name in ("mean", "std", "min", "max"):
        start = () if initial is None else (level(0.0 if name == "std" else initial, UNTRAINED),)
        drawn = (
            line(model, item.layers, getattr(item, name), chosen[model]) for model, item in models.items()
        )
        without = "" if start else phrase("catalogue.initial-unknown")
        panels.append(
            by_layer(
                phrase(f"catalogue.of-{name}"),
                (*start, *drawn),
                phrase(f"catalogue.{name}"),
                without_null=without,
            )
        )
    return fig.Figure(
        title=phrase("catalogue.by-layer", what=what),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.single-models"),
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
    start, every = level(0.0, UNTRAINED), fig.complete(styles, [*means, *pearson])
    sizes = {
        pair: max(map(abs, fig.known(fig.numbers(values))), default=0.0) for pair, values in pearson.items()
    }
    groups = of_like_size(sizes)
    deviation, between = phrase("catalogue.of-std"), phrase("catalogue.between-models")
    panels = (
        by_layer(
            phrase("catalogue.of-mean"), (start, *curves(layers, means, styles)), phrase("catalogue.mean")
        ),
        by_layer(deviation, (start, *curves(layers, stds, styles)), phrase("catalogue.standard-deviation")),
        *(
            correlations(between, layers, {pair: pearson[pair] for pair in group}, every, n=n)
            for group in groups
        ),
    )
    return fig.Figure(
        title=phrase("catalogue.input-minus-post"),
        panels=panels,
        columns=3 if len(panels) == 3 else 2,
        note=DEPENDENT if len(groups) == 1 else phrase("catalogue.axes-differ", dependent=DEPENDENT),
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
    name = phrase("catalogue.mean-of-pairs", pairs=len(pairs))
    marks.append(banded(line(name, layers, centre, BLUE), low, high))
    if highlight is not None:
        marks.append(line(highlight, layers, pairs[highlight], ORANGE))
    if expected is not None:
        marks.append(expected_line(phrase("catalogue.expected-pairs"), layers, expected))
    if chance is not None:
        marks.append(chance.mark(fig.numbers(layers)))
    return fig.Figure(
        title=phrase("catalogue.pairs-by-layer", measure=measure, pairs=len(pairs)),
        panels=(by_layer("", marks, measure, height=3.2),),
        note=phrase("catalogue.thin"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCurves:
    """The pair in question and its controls; a control that could not be measured is its reason."""

    layers: fig.Numbers
    main: fig.Numbers
    controls: Mapping[str, fig.Numbers | Message]
    expected: fig.Numbers = ()
    chance: fig.Chance | None = None


def with_controls(
    kinds: Mapping[str, ControlCurves], *, main: str, measure: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Draw the pair in question next to its controls; what is missing is shown as missing."""
    every = dict.fromkeys([main, *(name for item in kinds.values() for name in item.controls)])
    chosen = fig.complete(styles, every)
    return fig.Figure(
        title=phrase("catalogue.against-controls", main=main),
        panels=tuple(_control_panel(kind, item, main, measure, chosen) for kind, item in kinds.items()),
        columns=2,
        note=phrase("catalogue.controls-note"),
    )


def _control_panel(kind: str, item: ControlCurves, main: str, measure: str, styles: fig.Styles) -> fig.Panel:
    there = {name: found for name, found in item.controls.items() if not isinstance(found, Message)}
    marks: list[fig.Mark] = [expected_line(EXPECTED, item.layers, item.expected)] if item.expected else []
    if item.chance:
        marks.append(item.chance.mark(item.layers))
    code = "catalogue.controls-are-chance" if there else "catalogue.no-control"
    without = "" if marks else phrase(code)
    marks += [line(name, item.layers, found, styles[name]) for name, found in there.items()]
    marks.append(line(main, item.layers, item.main, styles[main]))
    # An empty curve: the control is in the legend and in the alt text, and nothing is drawn for it.
    marks += [
        line(
            phrase("catalogue.missing", name=name, reason=reason),
            item.layers,
            (None,) * len(item.layers),
            _GONE,
        )
        for name, reason in item.controls.items()
        if isinstance(reason, Message)
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
    x, step = fig.numbers(layers), phrase("catalogue.one-step")
    mean = phrase("catalogue.mean-difference")
    size = [value or None for value in fig.numbers(mean_difference)]
    zeros = sum(value == 0 for value in fig.numbers(mean_difference))
    labels = fig.words([int(v or 0) for v in x])
    share = fig.Bars(labels=labels, series=(bars(phrase("catalogue.changed"), changed),), slim=True)
    difference = (
        expected_line(step, x, one_ulp, fig.NULL),
        line(mean, x, size, BLUE),
    )
    steps = (
        expected_line(step, x, (1.0,) * len(x), fig.NULL),
        line(phrase("catalogue.mean-change"), x, mean_ulps, ORANGE),
    )
    return fig.Figure(
        title=phrase("catalogue.what-differs", what=what, a=names[0], b=names[1]),
        panels=(
            by_layer(
                phrase("catalogue.changed-values"),
                (level(0.0, phrase("catalogue.equal-models")), share),
                phrase("catalogue.percent-of-values"),
            ),
            by_layer(
                phrase("catalogue.of-mean-difference"),
                difference,
                fig.Axis(label=mean, kind="log"),
                note=phrase("catalogue.not-on-axis", layers=zeros) if zeros else "",
            ),
            by_layer(
                phrase("catalogue.change-in-steps"), steps, fig.Axis(label=phrase("catalogue.ulps"), low=0.0)
            ),
        ),
        columns=3,
        note=phrase("catalogue.large-steps"),
    )
