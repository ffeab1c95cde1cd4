"""Two models: their measures by layer, all layers against all, and the values of one layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, phrase, say

from . import parts

_GONE = fig.Style(tone="muted", marker="X", dash="dotted")
_RANDOM = tuple(fig.Style(tone="muted", dash=dash) for dash in ("dashed", "dotted", "dashdot", "solid"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A measure of all layers of one model against all of another."""

    values: fig.Matrix
    expected: fig.Matrix | None = None
    layers: tuple[Sequence[int], Sequence[int]] | None = None
    """Their numbers, if they do not count from 0."""
    n: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoModels:
    """What was measured of two models; a view needs only a part of it."""

    names: tuple[str, str]
    measure: str = "cosine"
    label: str = ""
    """What the measure is called, if not by its own name."""
    curves: Mapping[str, parts.Curves] = field(default_factory=dict)
    """By measure and kind of tensor."""
    cells: Mapping[str, Cells] = field(default_factory=dict)
    """By measure."""
    controls: Mapping[str, Mapping[str, fig.Numbers | Message]] = field(default_factory=dict)
    """By kind of tensor: curves of other pairs, over the same layers, or why there is none."""
    random: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Mean and standard deviation of the cosine of random vectors, by how they were drawn."""
    mismatched: fig.Series = ()
    """Cosines of layers that are `distance` apart, of the first kind of tensor."""
    distance: int = 0
    vectors: tuple[fig.Series, fig.Series] = ((), ())
    """All values of both in one `layer`."""
    layer: int = 0
    styles: fig.Styles | None = None

    @property
    def measured(self) -> parts.Curves:
        """The curves of the measure."""
        return self.curves[self.measure]

    @property
    def called(self) -> str:
        """The name of the measure."""
        return self.label or parts.measure_name(self.measure)

    @property
    def n(self) -> int:
        """The least number of values of a cosine."""
        return min(item.n for item in self.curves["cosine"].values())

    def first(self, measure: str) -> parts.Curve:
        """Return the curve of the first kind of tensor."""
        return next(iter(self.curves[measure].values()))


# -- curves --------------------------------------------------------------------------------------------


def layer_curves(pair: TwoModels, title: str = "") -> fig.Figure:
    """Measures by layer, a curve for each role.

    Curves of different chance get their own panels. One without chance and expectation says nothing.
    """
    chosen, alike = fig.complete(pair.styles, pair.measured), parts.is_correlation(pair.measure)
    groups: dict[fig.Chance | None, dict[str, parts.Curve]] = {}
    for name, item in pair.measured.items():
        null = item.chance or (fig.pearson_chance(item.n) if alike else None)
        if null is None and not item.expected:
            hint = say("hint.give-null")
            raise UsageError("layer_curves", say("problem.chance-or-expected"), hint=hint)
        groups.setdefault(null, {})[name] = item
    panels = []
    for null, drawn in groups.items():
        band = (null.mark(()),) if null else ()
        marks = (*band, *parts.curves(drawn, chosen, expected=not null))
        panels.append(parts.by_layer("", marks, pair.called, height=3.2))
    a, b = pair.names
    several = alike and len({item.n for item in pair.measured.values()}) > 1
    shared = phrase("catalogue.shared-dimensions")
    return fig.Figure(
        title=title or phrase("catalogue.pair-by-layer", measure=pair.called, a=a, b=b),
        panels=tuple(panels),
        columns=min(2, len(panels)),
        note=phrase("sentences", said=(parts.DEPENDENT, shared)) if several else parts.DEPENDENT,
    )


def norm_cosines(pair: TwoModels) -> fig.Figure:
    """Cosines of norm gains by layer with what shuffling would give, and what is left of them."""
    return fig.Figure(
        title=phrase("catalogue.norm-gains", a=pair.names[0], b=pair.names[1]),
        panels=(_cosine(pair, phrase("catalogue.cosine-expectation")), _excess(pair)),
        columns=2,
        note=phrase("catalogue.norm-gains-note"),
    )


def comprehensive(pair: TwoModels) -> fig.Figure:
    """Cosines and correlations by layer, with their expectation and what random vectors have."""
    panels = (_cosine(pair), _pearson(pair), _excess_shares(pair), _overview_words(pair))
    title = phrase("catalogue.overview", a=pair.names[0], b=pair.names[1])
    return fig.Figure(title=title, panels=panels, columns=2)


def proof(pair: TwoModels) -> fig.Figure:
    """Cosines, cosines about one and correlations by layer, next to layers that do not face each other."""
    mean = _pearson(pair, phrase("catalogue.centred-at-mean"))
    panels = (_cosine(pair), _about_one(pair), mean, _facing_shares(pair))
    title = phrase("catalogue.proof", a=pair.names[0], b=pair.names[1])
    return fig.Figure(title=title, panels=panels, columns=2)


def cosine_and_pearson(pair: TwoModels) -> fig.Figure:
    """All layers against all layers: cosines, what is left of them, and correlations."""
    panels = (_cosine_cells(pair), *_excess_cells(pair), _pearson_cells(pair))
    title = phrase("catalogue.all-layers", a=pair.names[0], b=pair.names[1])
    return fig.Figure(title=title, panels=panels, columns=len(panels))


def intuition(pair: TwoModels) -> fig.Figure:
    """Values of one layer of both models, the same without their means, and both measures by layer."""
    return fig.Figure(
        title=phrase("catalogue.pair-layer", a=pair.names[0], b=pair.names[1], layer=pair.layer),
        panels=(*_values(pair), _both_measures(pair)),
        columns=3,
        note=phrase("catalogue.intuition-note"),
    )


def _cosine(pair: TwoModels, title: str = phrase("catalogue.of-cosine")) -> fig.Panel:
    """Draw cosines with their expectations, the levels of random vectors, the range of mismatched layers."""
    levels = [
        fig.ReferenceLine(value=mean, label=phrase("catalogue.random-level", how=how, mean=mean), style=style)
        for (how, (mean, _)), style in zip(pair.random.items(), _RANDOM, strict=False)
    ]
    if wrong := fig.known(fig.numbers(pair.mismatched)):
        label = phrase("catalogue.mismatched-range", distance=pair.distance)
        middle = fig.mean(wrong) or 0.0
        levels.append(fig.ReferenceLine(value=middle, label=label, low=min(wrong), high=max(wrong)))
    return parts.by_layer(
        title, (*levels, *parts.curves(pair.curves["cosine"], pair.styles, expected=True)), parts.COSINE
    )


def _excess(pair: TwoModels) -> fig.Panel:
    """Draw what is left of cosines, with the range of shuffles where it is known."""
    found = pair.curves["cosine"]
    tones, bands = fig.complete(pair.styles, found), []
    for kind, item in found.items():
        if item.sd:
            style, reach = fig.Style(tone=tones[kind].tone, dash="dotted"), fig.WITHIN * fig.array(item.sd)
            name = phrase("catalogue.shuffles", name=kind)
            null = parts.line(name, item.layers, (0.0,) * len(item.layers), style, "null")
            bands.append(parts.banded(null, -reach, reach))
    zero = parts.level(0.0, parts.IN_COMMON)
    left: parts.Marks = (zero, *bands, *parts.curves(found, pair.styles, "excess"))
    return parts.by_layer(phrase("catalogue.what-is-left"), left, parts.EXCESS)


def _about_one(pair: TwoModels) -> fig.Panel:
    """Draw cosines after one is subtracted: they mix in the sign of the means, and swing with them."""
    drawn = parts.curves(pair.curves["cosine-about-1"], pair.styles)
    return parts.by_layer(
        phrase("catalogue.centred-at-one"),
        (parts.level(0.0, phrase("catalogue.no-agreement")), *drawn),
        fig.Axis(label=phrase("catalogue.about-one"), low=-1.05, high=1.05),
        note=phrase("catalogue.about-one-note"),
    )


def _pearson(pair: TwoModels, title: str = phrase("catalogue.correlation")) -> fig.Panel:
    return parts.correlations(title, pair.curves["pearson"], pair.styles, n=pair.n)


def _both_measures(pair: TwoModels) -> fig.Panel:
    """Draw cosine and correlation of every layer, the chosen one marked."""
    cosine, here = pair.first("cosine"), phrase("catalogue.layer-number", layer=pair.layer)
    gold = fig.Style(tone="gold", dash="dotted")
    marks = (
        fig.ReferenceLine(value=float(pair.layer), axis="x", label=here, role="threshold", style=gold),
        fig.pearson_chance(len(pair.vectors[0])).mark(()),
        parts.expected_line(phrase("catalogue.cosine-if-shuffled"), cosine.layers, cosine.expected, fig.NULL),
        parts.line(parts.COSINE, cosine.layers, cosine.values, fig.Style(tone="ink", marker="o")),
        parts.line(
            parts.PEARSON, cosine.layers, pair.first("pearson").values, fig.Style(tone="purple", marker="^")
        ),
    )
    return parts.by_layer(phrase("catalogue.every-layer"), marks, phrase("catalogue.similarity"))


def with_controls(pair: TwoModels) -> fig.Figure:
    """Measures of the pair by layer, next to each of the two with its controls.

    What is missing is shown as missing.
    """
    main = " | ".join(pair.names)
    every = dict.fromkeys([main, *(name for kind in pair.measured for name in pair.controls[kind])])
    styles = fig.complete(pair.styles, every)
    panels = []
    for kind, item in pair.measured.items():
        there = {n: values for n, values in pair.controls[kind].items() if not isinstance(values, Message)}
        gone = {n: reason for n, reason in pair.controls[kind].items() if isinstance(reason, Message)}
        marks: list[fig.Mark] = []
        if parts.is_correlation(pair.measure):
            marks.append(fig.pearson_chance(item.n).mark(()))
        elif item.expected:
            marks.append(parts.expected_line(parts.EXPECTED, item.layers, item.expected))
        code = "catalogue.controls-are-chance" if there else "catalogue.no-control"
        without = "" if marks else phrase(code)
        marks += [parts.line(name, item.layers, found, styles[name]) for name, found in there.items()]
        marks.append(parts.line(main, item.layers, item.values, styles[main]))
        # An empty curve: the control is in the legend and in the alt text, and nothing is drawn for it.
        nothing = (None,) * len(item.layers)
        for name, reason in gone.items():
            missing = phrase("catalogue.missing", name=name, reason=reason)
            marks.append(parts.line(missing, item.layers, nothing, _GONE))
        panels.append(parts.by_layer(kind, marks, pair.called, without_null=without))
    return fig.Figure(
        title=phrase("catalogue.against-controls", main=main),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.controls-note"),
    )


# -- distributions, means, words -----------------------------------------------------------------------


def _excess_shares(pair: TwoModels) -> fig.Panel:
    found = pair.curves["cosine"]
    styles = fig.complete(pair.styles, found)
    edges = fig.edges_of([*(item.excess for item in found.values()), [0.0]], 30)
    drawn = (fig.binned(kind, item.excess, edges, styles[kind]) for kind, item in found.items())
    marks: parts.Marks = (parts.level(0.0, parts.IN_COMMON, "x"), *drawn)
    return parts.shares(phrase("catalogue.cosine-minus-expectation"), marks, parts.EXCESS)


def _facing_shares(pair: TwoModels) -> fig.Panel:
    """Draw cosines of facing layers against those of mismatched ones."""
    wrong, same = (fig.known(fig.numbers(s)) for s in (pair.mismatched, pair.first("cosine").values))
    edges = fig.edges_of([same, wrong], bins=30)
    facing = (
        fig.binned(phrase("catalogue.facing"), same, edges, fig.Style(tone="blue")),
        fig.binned(phrase("catalogue.mismatched"), wrong, edges, fig.NULL, "null"),
    )
    return parts.shares(
        phrase("catalogue.facing-against", name=next(iter(pair.curves["cosine"]))), facing, parts.COSINE
    )


def _overview_words(pair: TwoModels) -> fig.Panel:
    """Say what was found, in words.

    Divided by the small deviation of random vectors, any difference becomes many sigmas: it is reported, and
    nothing follows.
    """
    cosine, pearson = pair.curves["cosine"], pair.curves["pearson"]
    words = []
    for kind in cosine:
        if kind in pearson:
            sides = (cosine[kind].values, cosine[kind].expected, pearson[kind].values)
            c, e, r = (fig.brief(fig.mean(side)) for side in sides)
            words.append(phrase("catalogue.in-words", name=kind, cosine=c, expected=e, correlation=r))
    first = next(iter(cosine))
    measured = fig.mean(cosine[first].values) or 0.0
    words += [
        phrase("catalogue.random-words", how=how, mean=mean, sd=sd, name=first, away=(measured - mean) / sd)
        for how, (mean, sd) in pair.random.items()
        if sd > 0
    ]
    return parts.told(phrase("catalogue.words"), phrase("catalogue.lines", lines=tuple(words)))


def type_summary(pair: TwoModels) -> fig.Figure:
    """Means of a measure over layers for each role, next to their expectations."""
    means, low, high = parts.deviations(item.values for item in pair.measured.values())
    name, style = phrase("catalogue.mean-measure", measure=pair.called), fig.Style(tone="blue")
    observed = fig.BarSeries(name=name, values=means, low=low, high=high, style=style)
    chance = parts.expected_bars(
        parts.EXPECTED, [item.mean_expected for item in pair.measured.values()], fig.NULL
    )
    drawn = fig.Bars(labels=tuple(pair.measured), series=(observed, chance), digits=3)
    return fig.Figure(
        title=phrase("catalogue.type-summary", a=pair.names[0], b=pair.names[1], measure=pair.called),
        panels=(fig.Panel(title="", marks=(drawn,), y=fig.Axis(label=pair.called), height=3.0),),
        note=phrase("catalogue.whiskers"),
    )


# -- all layers against all ----------------------------------------------------------------------------


def layer_decay(pair: TwoModels) -> fig.Figure:
    """All layers against all, facing layers against the rest of their row, and correlations."""
    values, signed = fig.array(pair.cells[pair.measure].values), pair.measure != "cosine"
    if values.ndim != 2 or values.shape[1] < 2:
        raise UsageError("layer_decay", say("problem.two-layers"))
    depth, label = min(values.shape), parts.PEARSON if signed else parts.COSINE
    facing = np.diag(values)
    others = np.where(np.eye(*values.shape) > 0, np.nan, values)[:depth]
    rows = [fig.known(fig.numbers(row)) for row in others]
    low, high = ([side(row, default=None) for row in rows] for side in (min, max))
    every = fig.mean(value for row in rows for value in row)
    rest = phrase("catalogue.mean-of-others")
    scale = (
        fig.signed_scale(values.ravel(), label=label)
        if signed
        else fig.sequential_scale(values.ravel(), label=label, chance=every, chance_label=rest)
    )
    x, pearson = range(depth), pair.first("pearson")
    null = parts.line(phrase("catalogue.others-of-row"), x, [fig.mean(row) for row in rows], fig.NULL, "null")
    same = parts.line(phrase("catalogue.same-layer"), x, facing, parts.BLUE)
    r = (
        fig.pearson_chance(pearson.n).mark(()),
        parts.slim(parts.bars(parts.PEARSON, pearson.values, "green")),
    )
    words = phrase(
        "catalogue.decay-words",
        best=sum(top is not None and value >= top for value, top in zip(facing, high, strict=True)),
        depth=depth,
        chance=depth / values.shape[1],
        facing=fig.brief(fig.mean(fig.numbers(facing))),
        others=fig.brief(every),
        beyond=_beyond_chance(fig.array(pearson.values), pearson.n),
    )
    panels = (
        parts.layers_against_layers(phrase("catalogue.layers-against-all"), values, scale, pair.names),
        parts.by_layer(phrase("catalogue.same-against-others"), (parts.banded(null, low, high), same), label),
        parts.by_layer(phrase("catalogue.correlation-of-facing"), r, parts.PEARSON),
        parts.told(phrase("catalogue.words"), words),
    )
    title = phrase("catalogue.decay", a=pair.names[0], b=pair.names[1])
    return fig.Figure(title=title, panels=panels, columns=2)


def _cosine_cells(pair: TwoModels) -> fig.Panel:
    cells = pair.cells["cosine"]
    values = fig.array(cells.values)
    scale = fig.sequential_scale(values.ravel(), label=parts.COSINE, low=_fence(values))
    title = phrase("catalogue.of-cosine")
    return parts.layers_against_layers(title, values, scale, pair.names, cells.layers, note=parts.RAW)


def _excess_cells(pair: TwoModels) -> tuple[fig.Panel, ...]:
    cells = pair.cells["cosine"]
    if cells.expected is None:
        return ()
    excess = fig.array(cells.values) - fig.array(cells.expected)
    scale = fig.signed_scale(
        excess.ravel(),
        label=phrase("catalogue.minus-expectation", measure=parts.COSINE),
        limit=-_fence(-np.abs(excess)) or None,
        chance_label=phrase("catalogue.expected-short"),
    )
    title = phrase("catalogue.cosine-minus-expectation")
    return (parts.layers_against_layers(title, excess, scale, pair.names, cells.layers),)


def _pearson_cells(pair: TwoModels) -> fig.Panel:
    cells = pair.cells["pearson"]
    r = fig.array(cells.values)
    scale, note = fig.signed_scale(r.ravel(), label=parts.PEARSON), _beyond_chance(r, cells.n)
    title = phrase("catalogue.correlation")
    return parts.layers_against_layers(title, r, scale, pair.names, cells.layers, note=note)


def _fence(values: npt.NDArray[np.float64]) -> float:
    """Return where colours begin.

    The first layers of a model have cosines far below all others, and on a scale that reached down to them
    the others could not be told apart.
    """
    found = values[np.isfinite(values)]
    if not found.size:
        return 0.0
    low, high = np.quantile(found, (0.25, 0.75))
    return float(max(found.min(), low - 1.5 * (high - low)))


def _beyond_chance(r: npt.NDArray[np.float64], n: int) -> str:
    """Say how many correlations exceed the range of shuffles, and how many would by chance."""
    reach = fig.WITHIN / math.sqrt(n - 1)
    found = r[np.isfinite(r)]
    beyond = int((np.abs(found) > reach).sum())
    return phrase("catalogue.beyond-chance", reach=reach, values=n, beyond=beyond, cells=found.size)


# -- values of one layer -------------------------------------------------------------------------------


def _values(pair: TwoModels) -> tuple[fig.Panel, fig.Panel]:
    """Draw sampled values of both vectors, and the same without their means.

    Means and measures are those of all values, not of the sample.
    """
    first, second = (fig.array(side) for side in pair.vectors)
    if first.shape != second.shape:
        raise UsageError("intuition", say("problem.two-vectors"))
    chosen, picked = fig.complete(pair.styles, pair.names), sampled_dimensions(first, second)

    def values(title: str, start: fig.Mark, text: str, label: str, *sides: fig.Series) -> fig.Panel:
        series = (parts.bars(n, side, chosen[n].tone) for n, side in zip(pair.names, sides, strict=True))
        marks = (start, parts.slim(*series), fig.TextMark(text=text, corner="bottom right"))
        x, y = fig.Axis(label=phrase("catalogue.sampled-dimension")), fig.Axis(label=label)
        return fig.Panel(title=title, marks=marks, x=x, y=y)

    cos = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    r = float(np.corrcoef(first, second)[0, 1])
    return (
        values(
            phrase("catalogue.some-values", shown=len(picked), all=first.size),
            parts.level(1.0, parts.UNTRAINED),
            phrase("catalogue.cosine-is", value=cos),
            phrase("catalogue.value"),
            first[picked],
            second[picked],
        ),
        values(
            phrase("catalogue.without-means"),
            parts.level(0.0, phrase("catalogue.mean-of-vector")),
            f"{parts.PEARSON} {r:+.3f}",
            phrase("catalogue.value-minus-mean"),
            first[picked] - first.mean(),
            second[picked] - second.mean(),
        ),
    )


def sampled_dimensions(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], sample: int = 50, seed: int = 42
) -> npt.NDArray[np.intp]:
    """Draw distinct dimensions, equally many from each quartile of the mean of both vectors."""
    order = np.argsort(first + second, kind="stable")
    rng = np.random.default_rng(seed)
    count = min(sample, order.size)
    sizes = [count // 4 + (i < count % 4) for i in range(4)]
    drawn = [
        rng.choice(part, min(size, part.size), replace=False)
        for part, size in zip(np.array_split(order, 4), sizes, strict=True)
    ]
    return np.sort(np.concatenate(drawn))
