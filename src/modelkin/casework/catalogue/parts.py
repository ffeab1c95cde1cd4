"""What kinds of figures share: curves and bars with their expectation, histograms, matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
from msgspec import structs

from modelkin import figures as fig
from modelkin.describe.measures import find_measure
from modelkin.message import phrase

COSINE, PEARSON = phrase("catalogue.cosine"), "Pearson r"
EXPECTED = phrase("catalogue.expected")
DEPENDENT = phrase("catalogue.dependent")
UNTRAINED = phrase("catalogue.untrained")
IN_COMMON = phrase("catalogue.nothing-in-common")
EXCESS = phrase("figure.excess")
RAW = phrase("catalogue.raw")
BLUE, ORANGE = fig.Style(tone="blue", marker="o"), fig.Style(tone="orange", marker="s")
_EXPECTATIONS = (fig.EXPECTATION, fig.Style(tone="ink", dash="dotted"), fig.Style(tone="ink", dash="dashdot"))


def measure_name(measure: str) -> str:
    """Return what figures call a measure, given any of its names."""
    found = find_measure(measure)
    return COSINE if found.name == "cosine" else found.title


def is_correlation(measure: str) -> bool:
    """Say whether chance has one range around zero."""
    return find_measure(measure).name in ("pearson", "spearman")


# -- curves --------------------------------------------------------------------------------------------


def line(name: str, x: fig.Series, y: fig.Series, style: fig.Style, role: fig.Role = "data") -> fig.Lines:
    """Draw a curve."""
    return fig.Lines(name=name, x=fig.numbers(x), y=fig.numbers(y), style=style, role=role)


def banded(curve: fig.Lines, low: fig.Series, high: fig.Series) -> fig.Lines:
    """Give a curve a band."""
    return structs.replace(curve, low=fig.numbers(low), high=fig.numbers(high))


def expected_line(name: str, x: fig.Series, y: fig.Series, style: fig.Style = fig.EXPECTATION) -> fig.Lines:
    """Draw what is expected along the layers."""
    return line(name, x, y, style, "expectation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A measure over layers, with what it is by chance as far as that is known."""

    layers: fig.Numbers
    values: fig.Numbers
    expected: fig.Numbers = ()
    """Its mean over all orders of one vector."""
    sd: fig.Numbers = ()
    """Its standard deviation over these."""
    n: int = 0
    """How many values were compared."""
    chance: fig.Chance | None = None
    """That of the whole curve, if it has another than its measure."""

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return any(value is not None for value in self.values)

    @property
    def mean_expected(self) -> float | None:
        """Mean over layers of what was expected."""
        known = fig.known(self.expected)
        return float(np.mean(known)) if known else None

    @property
    def excess(self) -> fig.Numbers:
        """What is left after its expectation is subtracted."""
        return fig.numbers(fig.array(self.values) - fig.array(self.expected))

    def over(self, layers: Sequence[int]) -> Curve:
        """Return it over other layers, with gaps for missing values."""
        place = {layer: at for at, layer in enumerate(self.layers)}
        values, expected, sd = (
            tuple(many[place[layer]] if layer in place else None for layer in layers) if many else ()
            for many in (self.values, self.expected, self.sd)
        )
        return replace(self, layers=tuple(layers), values=values, expected=expected, sd=sd)


Marks: TypeAlias = tuple[fig.Mark, ...]
Curves: TypeAlias = Mapping[str, Curve]
"""By the name under which each is drawn."""


def curves(
    drawn: Curves, styles: fig.Styles | None = None, what: str = "values", *, expected: bool = False
) -> tuple[fig.Lines, ...]:
    """Draw curves, each with its expectation if asked for: dark, since it may run along the curve."""
    chosen = fig.complete(styles, drawn)
    return (
        *(
            expected_line(phrase("catalogue.expected-of", name=name), item.layers, item.expected, dash)
            for (name, item), dash in zip(drawn.items(), cycle(_EXPECTATIONS), strict=False)
            if expected
        ),
        *(line(name, item.layers, getattr(item, what), chosen[name]) for name, item in drawn.items()),
    )


def by_layer(title: str, marks: Iterable[fig.Mark], measure: str | fig.Axis, **more: Any) -> fig.Panel:  # noqa: ANN401
    """Make a panel of marks over layers; `more` are fields of the panel."""
    axis = fig.Axis(label=measure) if isinstance(measure, str) else measure
    return fig.Panel(
        title=title, marks=tuple(marks), x=fig.Axis(label=phrase("catalogue.layer")), y=axis, **more
    )


def correlations(title: str, drawn: Curves, styles: fig.Styles | None, *, n: int) -> fig.Panel:
    """Draw correlations of vectors of `n` values by layer, with the range of shuffles."""
    return by_layer(title, (fig.pearson_chance(n).mark(()), *curves(drawn, styles)), PEARSON)


def level(value: float, label: str, axis: Any = "y") -> fig.ReferenceLine:  # noqa: ANN401  "x" or "y"
    """Draw an expectation that is one value."""
    return fig.ReferenceLine(value=value, label=label, axis=axis, role="expectation", style=fig.EXPECTATION)


def deviations(samples: Iterable[Sequence[float | None]]) -> tuple[fig.Numbers, fig.Numbers, fig.Numbers]:
    """Mean of each sample, and one standard deviation below and above it."""
    pairs = [(fig.mean(sample), fig.spread(sample)) for sample in samples]
    ends = [(None, None) if m is None or s is None else (m - s, m + s) for m, s in pairs]
    return tuple(m for m, _ in pairs), tuple(low for low, _ in ends), tuple(high for _, high in ends)


# -- bars ----------------------------------------------------------------------------------------------


def bars(name: str, values: fig.Series, tone: fig.Tone = "blue") -> fig.BarSeries:
    """Draw bars of one colour."""
    return fig.BarSeries(name=name, values=fig.numbers(values), style=fig.Style(tone=tone))


def expected_bars(name: str, values: fig.Series, style: fig.Style = fig.EXPECTATION) -> fig.BarSeries:
    """Draw what bars should be by chance."""
    return fig.BarSeries(name=name, values=fig.numbers(values), style=style, role="expectation")


def slim(*series: fig.BarSeries) -> fig.Bars:
    """Draw many bars without gaps, named by their place."""
    return fig.Bars(labels=fig.words(range(len(series[0].values))), series=series, slim=True)


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
