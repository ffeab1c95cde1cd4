"""Bars and points that compare a few numbers, each next to what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

from ._parts import (
    BLUE,
    COSINE,
    EXPECTED,
    IN_COMMON,
    PEARSON,
    UNTRAINED,
    bars,
    by_layer,
    deviations,
    expected_bars,
    expected_line,
    level,
    line,
    slim,
)

Groups = Mapping[str, Mapping[str, float | None]]


def type_summary(
    values: Mapping[str, fig.Series],
    expected: Mapping[str, float | None],
    *,
    measure: str,
    names: tuple[str, str],
) -> fig.Figure:
    """Draw the mean of a measure per kind of tensor, next to its expectation."""
    means, low, high = deviations(fig.numbers(sample) for sample in values.values())
    style = fig.Style(tone="blue")
    observed = fig.BarSeries(
        name=phrase("catalogue.mean-measure", measure=measure), values=means, low=low, high=high, style=style
    )
    chance = expected_bars(EXPECTED, [expected.get(kind) for kind in values], fig.NULL)
    drawn = fig.Bars(labels=tuple(values), series=(observed, chance), digits=3)
    return fig.Figure(
        title=phrase("catalogue.type-summary", a=names[0], b=names[1], measure=measure),
        panels=(fig.Panel(title="", marks=(drawn,), y=fig.Axis(label=measure), height=3.0),),
        note=phrase("catalogue.whiskers"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One bar of an argument: a cosine, what shuffling would give, and what it served as."""

    label: str
    cosine: float
    expected: float
    served: Literal["baseline", "evidence", "beside"]
    """``beside``: not part of the argument, such as a fairer baseline or a control."""
    pearson: float | None = None


_BARS_BESIDE = 3
"""More models than this have no room for two numbered bars each, side by side."""
_SIDE_BY_SIDE = 4
"""More bars than this have no room for their labels in a third of the width."""
_SERVED: Mapping[str, fig.Tone] = {"baseline": "muted", "evidence": "rose", "beside": "green"}


def claimed_evidence(
    claims: Sequence[Claim], *, difference: float, expected_difference: float, sigmas: float | None = None
) -> fig.Figure:
    """Draw a claim that rests on cosines, and its refutation: the same bars with their expectation.

    `difference` is evidence minus baseline as the claim computes it, which need not be over all bars;
    `sigmas` is what the claim derives from it, shown as a claim.
    """
    if not {"baseline", "evidence"} <= {item.served for item in claims}:
        raise UsageError("claimed_evidence", say("problem.one-baseline"))

    def called(served: str, tone: fig.Tone) -> fig.BarSeries:
        values = tuple(item.cosine if item.served == served else None for item in claims)
        return fig.BarSeries(
            name=phrase(f"catalogue.called-{served}"), values=values, style=fig.Style(tone=tone), missing=""
        )

    labels = tuple(item.label for item in claims)
    claimed = (
        phrase("catalogue.difference-sigmas", difference=difference, sigmas=sigmas)
        if sigmas
        else phrase("catalogue.difference", difference=difference)
    )
    whole = fig.Axis(label=COSINE, low=0.0, high=1.3)
    as_claimed = tuple(
        called(served, tone)
        for served, tone in _SERVED.items()
        if any(item.served == served for item in claims)
    )
    beside = (
        bars(COSINE, [item.cosine for item in claims]),
        expected_bars(EXPECTED, [item.expected for item in claims]),
    )
    left = [
        bars(
            phrase("catalogue.minus-expectation", measure=COSINE),
            [item.cosine - item.expected for item in claims],
        )
    ]
    if any(item.pearson is not None for item in claims):
        left.append(
            bars(phrase("catalogue.correlation-pearson"), [item.pearson for item in claims], "orange")
        )
    reach = 1.4 * max(
        [0.05, *(abs(value) for series in left for value in series.values if value is not None)]
    )
    panels = (
        fig.Panel(
            title=phrase("catalogue.the-claim"),
            marks=(
                fig.Bars(labels=labels, digits=3, overlaid=True, series=as_claimed),
                fig.TextMark(text=claimed),
            ),
            y=whole,
            without_null=phrase("catalogue.claim-null"),
        ),
        fig.Panel(
            title=phrase("catalogue.same-cosines"),
            marks=(
                fig.Bars(labels=labels, digits=3, series=beside),
                fig.TextMark(text=phrase("catalogue.expected-difference", difference=expected_difference)),
            ),
            y=whole,
        ),
        fig.Panel(
            title=phrase("catalogue.left-to-explain"),
            marks=(
                level(0.0, IN_COMMON),
                fig.Bars(labels=labels, series=tuple(left), digits=3),
            ),
            y=fig.Axis(label=phrase("catalogue.excess"), low=-min(1.0, reach), high=min(1.0, reach)),
        ),
    )
    return fig.Figure(
        title=phrase("catalogue.claimed-evidence"),
        panels=panels,
        columns=3 if len(claims) <= _SIDE_BY_SIDE else 1,
        note=phrase("catalogue.claimed-note"),
    )


def layer_pairs(
    labels: Sequence[str],
    cosines: Mapping[str, fig.Series],
    expected: Mapping[str, fig.Series],
    *,
    title: str,
    zoom: bool = False,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw cosines of layer pairs within models, each with its expectation.

    With `zoom`, or more than three models, they are points, since bars must start at zero.
    """
    zoom |= len(cosines) > _BARS_BESIDE
    tones = {model: style.tone for model, style in fig.complete(styles, cosines).items()}
    marks: list[fig.Mark] = []
    series: list[fig.BarSeries] = []
    for i, (model, values) in enumerate(cosines.items()):
        name = phrase("catalogue.expected-of", name=model)
        step = min(0.16, 0.7 / len(cosines))
        x = [place + step * (i - (len(cosines) - 1) / 2) for place in range(len(labels))]
        cross, dot = (fig.Style(tone=tones[model], marker=marker) for marker in ("X", "o"))
        marks.append(_points(name, x, expected[model], cross, "expectation"))
        marks.append(_points(model, x, values, dot))
        series.append(bars(model, values, tones[model]))
        series.append(expected_bars(name, expected[model], fig.Style(tone=tones[model], dash="dashed")))
    if zoom:
        axis = _places(labels)
    else:
        marks, axis = [fig.Bars(labels=tuple(labels), series=tuple(series), digits=3)], fig.Axis()
    return fig.Figure(
        title=title,
        panels=(fig.Panel(title="", marks=tuple(marks), x=axis, y=fig.Axis(label=COSINE), height=3.0),),
        note=phrase("catalogue.layer-pairs-note"),
    )


def _points(
    name: str, x: fig.Series, y: fig.Series, style: fig.Style, role: fig.Role = "data"
) -> fig.Scatter:
    return fig.Scatter(name=name, x=fig.numbers(x), y=fig.numbers(y), style=style, role=role)


def _places(labels: Sequence[str]) -> fig.Axis:
    ticks = tuple((float(place), label) for place, label in enumerate(labels))
    return fig.Axis(ticks=ticks, low=-0.5, high=len(labels) - 0.5)


def group_means(groups: Groups, expected: Groups, *, measure: str) -> fig.Figure:
    """Draw every pair of each group as a point, the mean of the group, and the mean of what is expected."""
    return fig.Figure(
        title=phrase("catalogue.by-group", measure=measure),
        panels=(_group_panel("", groups, expected, measure),),
        note=phrase("catalogue.group-note"),
    )


def arm_comparison(
    measures: Mapping[str, Groups], expected: Mapping[str, Groups], *, title: str, note: str = ""
) -> fig.Figure:
    """Draw an experiment with several arms: one panel per measure, every run of each arm as a point."""
    panels = tuple(
        _group_panel(measure, arms, expected[measure], measure) for measure, arms in measures.items()
    )
    return fig.Figure(title=title, panels=panels, columns=min(3, len(panels)), note=note)


def _group_panel(title: str, groups: Groups, expected: Groups, measure: str) -> fig.Panel:
    diamond, cross = fig.Style(tone="orange", marker="D"), fig.Style(tone="ink", marker="X")
    marks: list[fig.Mark] = []
    labels = []
    for place, (group, pairs) in enumerate(groups.items()):
        values, middle = fig.numbers(pairs.values()), (float(place),)
        count, mean = len(fig.known(values)), fig.brief(fig.mean(values))
        labels.append(phrase("catalogue.group", group=group, count=count, mean=mean))
        x = [place + 0.24 * ((i * 0.618034) % 1.0 - 0.5) for i in range(len(values))]
        chance = fig.mean(expected.get(group, {}).values())
        marks += [
            _points(phrase("catalogue.one-value"), x, values, BLUE),
            _points(phrase("catalogue.mean"), middle, (fig.mean(values),), diamond),
            _points(phrase("catalogue.mean-expected"), middle, (chance,), cross, "expectation"),
        ]
    y = fig.Axis(label=measure)
    return fig.Panel(title=title, marks=tuple(marks), x=_places(labels), y=y, height=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Cosine, correlation and expected cosine of one comparison."""

    cosine: float | None
    pearson: float | None
    expected: float | None = None


def measure_comparison(panels: Mapping[str, Mapping[str, Measured]]) -> fig.Figure:
    """Draw cosine, its expectation and correlation side by side, for any groups of comparisons."""
    drawn = []
    for title, items in panels.items():
        series = (
            bars(COSINE, [item.cosine for item in items.values()]),
            expected_bars(phrase("catalogue.cosine-expected"), [item.expected for item in items.values()]),
            bars(
                phrase("catalogue.correlation-pearson"), [item.pearson for item in items.values()], "orange"
            ),
        )
        chance = fig.ReferenceLine(
            value=0.0, axis="x", label=phrase("catalogue.correlation-by-chance"), style=fig.NULL
        )
        marks = (chance, fig.Bars(labels=tuple(items), digits=2, series=series, horizontal=True))
        # Room for the numbers at the ends of bars, on both sides.
        found = [value for bar in series for value in bar.values if value is not None]
        axis = fig.Axis(
            label=phrase("catalogue.similarity"),
            low=min([0.0, *found]) - 0.12,
            high=max([1.0, *found]) + 0.18,
        )
        drawn.append(fig.Panel(title=title, marks=marks, x=axis))
    return fig.Figure(title=phrase("catalogue.measure-comparison"), panels=tuple(drawn), columns=2)


def intuition(
    a: fig.Series,
    b: fig.Series,
    *,
    names: tuple[str, str],
    layer: int,
    layers: fig.Series,
    cosine: fig.Series,
    pearson: fig.Series,
    expected: fig.Series,
    sample: int = 50,
    seed: int = 42,
    initial: float = 1.0,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw sampled values of two vectors, the same without their means, and both measures by layer.

    Both vectors of `layer` are whole: means and measures are those of all values, not of the sample.
    """
    first, second = fig.array(a), fig.array(b)
    if first.shape != second.shape:
        raise UsageError("intuition", say("problem.two-vectors"))
    chosen = fig.complete(styles, names)
    picked = sampled_dimensions(first, second, sample, seed)
    cos = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    r = float(np.corrcoef(first, second)[0, 1])

    def values(title: str, start: fig.Mark, told: str, label: str, *sides: fig.Series) -> fig.Panel:
        series = (bars(name, side, chosen[name].tone) for name, side in zip(names, sides, strict=True))
        marks = (start, slim(len(picked), *series), fig.TextMark(text=told, corner="bottom right"))
        x, y = fig.Axis(label=phrase("catalogue.sampled-dimension")), fig.Axis(label=label)
        return fig.Panel(title=title, marks=marks, x=x, y=y)

    here = fig.Style(tone="gold", dash="dotted")
    by_layers = (
        fig.ReferenceLine(
            value=float(layer),
            axis="x",
            label=phrase("catalogue.layer-number", layer=layer),
            role="threshold",
            style=here,
        ),
        fig.pearson_chance(first.size).mark(fig.numbers(layers)),
        expected_line(phrase("catalogue.cosine-if-shuffled"), layers, expected, fig.NULL),
        line(COSINE, layers, cosine, fig.Style(tone="ink", marker="o")),
        line(PEARSON, layers, pearson, fig.Style(tone="purple", marker="^")),
    )
    stored, centred = phrase("catalogue.cosine-is", value=cos), f"{PEARSON} {r:+.3f}"
    panels = (
        values(
            phrase("catalogue.some-values", shown=len(picked), all=first.size),
            level(initial, UNTRAINED),
            stored,
            phrase("catalogue.value"),
            first[picked],
            second[picked],
        ),
        values(
            phrase("catalogue.without-means"),
            level(0.0, phrase("catalogue.mean-of-vector")),
            centred,
            phrase("catalogue.value-minus-mean"),
            first[picked] - first.mean(),
            second[picked] - second.mean(),
        ),
        by_layer(phrase("catalogue.every-layer"), by_layers, phrase("catalogue.similarity")),
    )
    return fig.Figure(
        title=phrase("catalogue.pair-layer", a=names[0], b=names[1], layer=layer),
        panels=panels,
        columns=3,
        note=phrase("catalogue.intuition-note"),
    )


def sampled_dimensions(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], sample: int, seed: int
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
