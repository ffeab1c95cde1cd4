"""What kinds of figures share: curves and bars with their expectation, histograms, matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

COSINE, PEARSON = phrase("catalogue.cosine"), "Pearson r"
EXPECTED = phrase("catalogue.expected")
DEPENDENT = phrase("catalogue.dependent")
UNTRAINED = phrase("catalogue.untrained")
IN_COMMON = phrase("catalogue.nothing-in-common")
EXCESS = phrase("figure.excess")
_ONE_SCALE = 4.0
RAW = phrase("catalogue.raw")
BLUE, ORANGE = fig.Style(tone="blue", marker="o"), fig.Style(tone="orange", marker="s")
_EXPECTATIONS = (fig.EXPECTATION, fig.Style(tone="ink", dash="dotted"), fig.Style(tone="ink", dash="dashdot"))


# -- curves --------------------------------------------------------------------------------------------


def line(name: str, x: fig.Series, y: fig.Series, style: fig.Style, role: fig.Role = "data") -> fig.Lines:
    """Draw a curve."""
    return fig.Lines(name=name, x=fig.numbers(x), y=fig.numbers(y), style=style, role=role)


def banded(curve: fig.Lines, low: fig.Series, high: fig.Series) -> fig.Lines:
    """Give a curve a band."""
    return replace(curve, low=fig.numbers(low), high=fig.numbers(high))


def expected_line(name: str, x: fig.Series, y: fig.Series, style: fig.Style = fig.EXPECTATION) -> fig.Lines:
    """Draw what is expected along the layers."""
    return line(name, x, y, style, "expectation")


def curves(
    layers: fig.Series,
    drawn: Mapping[str, fig.Series],
    styles: fig.Styles | None = None,
    expected: Mapping[str, fig.Series] | None = None,
) -> tuple[fig.Lines, ...]:
    """Draw curves over layers, each with its expectation: dark, since it may run along the curve."""
    chosen, expected = fig.complete(styles, drawn), expected or {}
    unknown = expected.keys() - drawn.keys()
    if unknown:
        raise UsageError("figure", say("problem.curves-unknown", names=str(sorted(unknown))))
    dashes = [_EXPECTATIONS[i % len(_EXPECTATIONS)] for i in range(len(expected))]
    return (
        *(
            expected_line(phrase("catalogue.expected-of", name=name), layers, values, dash)
            for (name, values), dash in zip(expected.items(), dashes, strict=True)
        ),
        *(line(name, layers, values, chosen[name]) for name, values in drawn.items()),
    )


def by_layer(title: str, marks: Iterable[fig.Mark], measure: str | fig.Axis, **more: Any) -> fig.Panel:  # noqa: ANN401
    """Make a panel of marks over layers; `more` are fields of the panel."""
    axis = fig.Axis(label=measure) if isinstance(measure, str) else measure
    return fig.Panel(
        title=title, marks=tuple(marks), x=fig.Axis(label=phrase("catalogue.layer")), y=axis, **more
    )


def correlations(
    title: str, layers: fig.Series, drawn: Mapping[str, fig.Series], styles: fig.Styles | None, *, n: int
) -> fig.Panel:
    """Draw correlations of vectors of `n` values by layer, with the range of shuffles."""
    chance = fig.pearson_chance(n).mark(fig.numbers(layers))
    return by_layer(title, (chance, *curves(layers, drawn, styles)), PEARSON)


def level(value: float, label: str, axis: Any = "y") -> fig.ReferenceLine:  # noqa: ANN401  "x" or "y"
    """Draw an expectation that is one value."""
    return fig.ReferenceLine(value=value, label=label, axis=axis, role="expectation", style=fig.EXPECTATION)


def excess_of(cosine: Mapping[str, fig.Series], expected: Mapping[str, fig.Series]) -> dict[str, fig.Series]:
    """Subtract expectations from cosines."""
    return {kind: fig.array(values) - fig.array(expected[kind]) for kind, values in cosine.items()}


def deviations(samples: Iterable[Sequence[float | None]]) -> tuple[fig.Numbers, fig.Numbers, fig.Numbers]:
    """Mean of each sample, and one standard deviation below and above it."""
    pairs = [(fig.mean(sample), fig.spread(sample)) for sample in samples]
    ends = [(None, None) if m is None or s is None else (m - s, m + s) for m, s in pairs]
    return tuple(m for m, _ in pairs), tuple(low for low, _ in ends), tuple(high for _, high in ends)


def of_like_size(sizes: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Group what can share one scale: the largest is at most four times the smallest.

    A pair of relatives correlates by 1 and strangers by 0.02: on one scale the strangers would be blank.
    """
    groups: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if groups and sizes[name] <= _ONE_SCALE * sizes[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    order = list(sizes)
    return sorted(
        (tuple(sorted(group, key=order.index)) for group in groups), key=lambda group: order.index(group[0])
    )


# -- bars ----------------------------------------------------------------------------------------------


def bars(name: str, values: fig.Series, tone: fig.Tone = "blue") -> fig.BarSeries:
    """Draw bars of one colour."""
    return fig.BarSeries(name=name, values=fig.numbers(values), style=fig.Style(tone=tone))


def expected_bars(name: str, values: fig.Series, style: fig.Style = fig.EXPECTATION) -> fig.BarSeries:
    """Draw what bars should be by chance."""
    return fig.BarSeries(name=name, values=fig.numbers(values), style=style, role="expectation")


def slim(count: int, *series: fig.BarSeries) -> fig.Bars:
    """Draw many bars without gaps, named by their place."""
    return fig.Bars(labels=fig.words(range(count)), series=series, slim=True)


# -- histograms and matrices ---------------------------------------------------------------------------


def shares(
    title: str,
    marks: Iterable[fig.Mark],
    measure: str,
    *,
    tokens: bool = False,
    **more: Any,  # noqa: ANN401
) -> fig.Panel:
    """Make a panel of histograms over a measure; `more` are fields of the panel."""
    share = phrase("catalogue.share-of-tokens" if tokens else "catalogue.share-of-values")
    x, y = fig.Axis(label=measure), fig.Axis(label=share)
    return fig.Panel(title=title, marks=tuple(marks), x=x, y=y, **more)


def told(title: str, text: str, **more: Any) -> fig.Panel:  # noqa: ANN401  fields of a panel
    """Write words in place of a drawing."""
    return fig.Panel(title=title, marks=(fig.TextMark(text=text),), **more)


def layers_against_layers(
    title: str,
    values: fig.Matrix,
    scale: fig.Scale,
    names: tuple[str, str],
    layers: tuple[Sequence[int], Sequence[int]] | None = None,
    note: str = "",
) -> fig.Panel:
    """Draw layers of one model against layers of another, same layers marked."""
    cells = fig.array(values)
    rows, columns = layers or (range(cells.shape[0]), range(cells.shape[1]))
    heat = fig.HeatMap(
        values=fig.grid(cells),
        rows=fig.words(rows),
        columns=fig.words(columns),
        scale=scale,
        path=tuple((i, list(columns).index(layer)) for i, layer in enumerate(rows) if layer in columns),
        path_name=phrase("catalogue.same-layer"),
    )
    return fig.Panel(
        title=title,
        marks=(heat,),
        x=fig.Axis(label=phrase("figure.layer_of", name=names[1])),
        y=fig.Axis(label=phrase("figure.layer_of", name=names[0])),
        without_null=note if scale.chance is None else "",
        note="" if scale.chance is None else note,
    )
