"""Measures along the layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import LAYER, WITHIN, Chance, at_zero, drawn_curves, pearson_chance
from modelkin.figures._marks import Lines, ReferenceLine
from modelkin.figures._style import EXPECTATION, Style, Styles, complete
from modelkin.figures._values import Numbers, Series, array, brief, mean, numbers

_DEPENDENT = "Layers of one model resemble each other: the curve is not so many independent tests."


def layer_curves(
    layers: Series,
    curves: Mapping[str, Series],
    *,
    measure: str,
    title: str | None = None,
    chance: Chance | None = None,
    expected: Mapping[str, Series] | None = None,
    styles: Styles | None = None,
) -> Figure:
    """Draw any measure by layer, one curve for each kind of tensor or each pair.

    Either `chance` (one null for all curves) or `expected` (one expectation for each curve, such as the
    cosine over all shuffles) is needed: a similarity without it says nothing.
    """
    if chance is None and not expected:
        raise UsageError(
            "layer_curves", "expected chance or expected values", hint="Give the null of the measure."
        )
    marks = drawn_curves(layers, curves, styles, expected=expected)
    null = (chance.mark(numbers(layers)),) if chance else ()
    panel = Panel(title="", marks=(*null, *marks), x=LAYER, y=Axis(label=measure), height=3.2)
    return Figure(title=title or f"{measure} by layer", panels=(panel,), note=_DEPENDENT)


def norm_cosines(
    layers: Series,
    cosine: Mapping[str, Series],
    expected: Mapping[str, Series],
    *,
    names: tuple[str, str],
    spread_of_shuffles: Mapping[str, Series] | None = None,
    styles: Styles | None = None,
) -> Figure:
    """Draw cosines of norm gains by layer with what shuffling would give, and what is left of them.

    Parameters
    ----------
    spread_of_shuffles
        Standard deviation of the cosine over all shuffles, by kind and layer; see `shuffle_spread`.
    """
    bands = tuple(
        Lines(
            name=f"{kind}: 95 % of shuffles",
            x=numbers(layers),
            y=(0.0,) * len(numbers(layers)),
            low=numbers(-WITHIN * array(sd)),
            high=numbers(WITHIN * array(sd)),
            style=Style(tone=complete(styles, cosine)[kind].tone, dash="dotted"),
            role="null",
        )
        for kind, sd in (spread_of_shuffles or {}).items()
    )
    excess = {kind: array(values) - array(expected[kind]) for kind, values in cosine.items()}
    panels = (
        Panel(
            title="Cosine, and its expectation",
            marks=drawn_curves(layers, cosine, styles, expected=expected),
            x=LAYER,
            y=Axis(label="cosine"),
        ),
        Panel(
            title="What is left: cosine minus expectation",
            marks=(at_zero("nothing in common"), *bands, *drawn_curves(layers, excess, styles)),
            x=LAYER,
            y=Axis(label="excess cosine"),
        ),
    )
    return Figure(
        title=f"Norm gains of {names[0]} and {names[1]}: cosine and its expectation",
        panels=panels,
        columns=2,
        note="Dashed: product of both mean directions, exactly the mean of the cosine over all shuffles.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCurves:
    """Cosine by layer, the same after shuffling, and the correlation that remains after centring."""

    layers: Numbers
    cosine: Numbers
    shuffled: Numbers
    pearson: Numbers
    shuffled_low: Numbers = ()
    shuffled_high: Numbers = ()


def shuffle_summary(kinds: Mapping[str, ShuffleCurves], *, names: tuple[str, str], n: int) -> Figure:
    """Draw, for each kind of vector, its cosine, shuffled cosine and centred cosine by layer."""
    chance = pearson_chance(n)
    panels = tuple(
        Panel(
            title=kind,
            marks=(
                Lines(
                    name="cosine after shuffling",
                    x=item.layers,
                    y=item.shuffled,
                    low=item.shuffled_low,
                    high=item.shuffled_high,
                    style=EXPECTATION,
                    role="null",
                ),
                chance.mark(item.layers),
                Lines(name="cosine", x=item.layers, y=item.cosine, style=Style(tone="blue", marker="o")),
                Lines(
                    name="centred cosine (Pearson)",
                    x=item.layers,
                    y=item.pearson,
                    style=Style(tone="orange", marker="s"),
                ),
            ),
            x=LAYER,
            y=Axis(label="similarity"),
        )
        for kind, item in kinds.items()
    )
    differences = [
        f"{kind}: mean cosine {brief(mean(item.cosine), 4)}, shuffled {brief(mean(item.shuffled), 4)}, "
        f"centred {brief(mean(item.pearson), 4)}"
        for kind, item in kinds.items()
    ]
    return Figure(
        title=f"{names[0]} and {names[1]}: before and after shuffling",
        panels=panels,
        columns=2,
        note=f"{'; '.join(differences)}. {_DEPENDENT}",
    )


def matched_rows(
    layers: Series,
    observed: Series,
    null: Series,
    null_low: Series,
    null_high: Series,
    *,
    names: tuple[str, str],
    repeats: int,
    null_of: str = "shuffled rows",
) -> Figure:
    """Draw the mean cosine of best-matched router rows, and what the search finds in unrelated rows."""
    x, y = numbers(layers), numbers(observed)
    chance = Chance(
        label=f"the same search on {null_of} ({repeats} runs, full range)",
        value=numbers(null),
        low=numbers(null_low),
        high=numbers(null_high),
    )
    line = Lines(name="observed", x=x, y=y, style=Style(tone="blue", marker="o"))
    above = sum(a is not None and b is not None and a > b for a, b in zip(y, numbers(null_high), strict=True))
    return Figure(
        title=f"Best-matched router rows of {names[0]} and {names[1]}",
        panels=(
            Panel(
                title="", marks=(chance.mark(x), line), x=LAYER, y=Axis(label="mean cosine of matched rows")
            ),
        ),
        note=f"A search finds matches in noise too; {above} of {len(x)} layers exceed its range there.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStatistics:
    """Mean, standard deviation, least and largest value of a vector in each layer of a model."""

    layers: Numbers
    mean: Numbers
    std: Numbers
    min: Numbers
    max: Numbers


def vector_statistics(
    models: Mapping[str, VectorStatistics],
    *,
    what: str,
    initial: float | None = 1.0,
    styles: Styles | None = None,
) -> Figure:
    """Draw mean, standard deviation, minimum and maximum by layer for each model."""
    chosen = complete(styles, models)
    panels = []
    for name in ("mean", "std", "min", "max"):
        start = initial if name != "std" else 0.0
        line = (
            ReferenceLine(value=start, label="before training", role="expectation", style=EXPECTATION)
            if initial is not None and start is not None
            else None
        )
        curves = tuple(
            Lines(name=model, x=item.layers, y=getattr(item, name), style=chosen[model])
            for model, item in models.items()
        )
        panels.append(
            Panel(
                title={
                    "mean": "Mean",
                    "std": "Standard deviation",
                    "min": "Least value",
                    "max": "Largest value",
                }[name],
                marks=(*((line,) if line else ()), *curves),
                x=LAYER,
                y=Axis(label=name),
                without_null="" if line else "the initial values are not known",
            )
        )
    return Figure(
        title=f"{what} by layer",
        panels=tuple(panels),
        columns=2,
        note="Of single models: like curves come of like training and are no evidence of a common origin.",
    )


def input_minus_post(
    layers: Series,
    means: Mapping[str, Series],
    stds: Mapping[str, Series],
    pearson: Mapping[str, Series],
    *,
    n: int,
    styles: Styles | None = None,
) -> Figure:
    """Draw the difference of both norm gains of a layer: mean and spread by model, correlation by pair."""
    x = numbers(layers)
    start = at_zero("before training")
    panels = (
        Panel(
            title="Mean", marks=(start, *drawn_curves(layers, means, styles)), x=LAYER, y=Axis(label="mean")
        ),
        Panel(
            title="Standard deviation",
            marks=(start, *drawn_curves(layers, stds, styles)),
            x=LAYER,
            y=Axis(label="standard deviation"),
        ),
        Panel(
            title="Correlation between models",
            marks=(
                pearson_chance(n).mark(x),
                *drawn_curves(layers, pearson, complete(styles, [*means, *pearson])),
            ),
            x=LAYER,
            y=Axis(label="Pearson r"),
        ),
    )
    return Figure(title="Input norm minus post-attention norm", panels=panels, columns=3, note=_DEPENDENT)


def expected_cosine(mean_a: Series, std_a: Series, mean_b: Series, std_b: Series) -> Numbers:
    """Give the mean of the cosine over all shuffles, from means and standard deviations of both sides."""
    a, b = (array(m) / np.hypot(array(m), array(s)) for m, s in ((mean_a, std_a), (mean_b, std_b)))
    return numbers(a * b)


def shuffle_spread(mean_a: Series, std_a: Series, mean_b: Series, std_b: Series, *, n: int) -> Numbers:
    """Give the standard deviation of the cosine over all shuffles of vectors of `n` values."""
    a, b = (array(s) / np.hypot(array(m), array(s)) for m, s in ((mean_a, std_a), (mean_b, std_b)))
    return numbers(a * b / np.sqrt(n - 1))
