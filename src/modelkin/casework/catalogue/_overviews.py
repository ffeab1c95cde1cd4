"""Overviews: several views of one question in one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import (
    LAYER,
    Chance,
    at_zero,
    binned,
    drawn_curves,
    edges_of,
    pearson_chance,
    words,
)
from modelkin.figures._marks import Bars, BarSeries, HeatMap, Lines, ReferenceLine, Text
from modelkin.figures._scale import sequential_scale, signed_scale
from modelkin.figures._style import EXPECTATION, NULL, Style, Styles
from modelkin.figures._values import Matrix, Series, array, brief, grid, known, mean, numbers

from ._bars import group_means, layer_pairs
from ._controls import layer_range
from ._distributions import SHARE
from ._matrices import beyond_chance, model_matrix


def comprehensive(
    layers: Series,
    cosine: Mapping[str, Series],
    expected: Mapping[str, Series],
    pearson: Mapping[str, Series],
    *,
    names: tuple[str, str],
    n: int,
    summary: Sequence[str] = (),
    styles: Styles | None = None,
) -> Figure:
    """Draw cosine, correlation, the distribution of what exceeds chance, and what follows, in words."""
    excess = {kind: array(values) - array(expected[kind]) for kind, values in cosine.items()}
    edges = edges_of([*excess.values(), [0.0]], bins=30)
    chance = pearson_chance(n)
    curves = drawn_curves(layers, cosine, styles, expected=expected)
    chosen = {mark.name: mark.style for mark in curves}
    told = list(summary) or [
        f"{kind}: cosine {brief(mean(numbers(values)))}, expected {brief(mean(numbers(expected[kind])))}, "
        f"correlation {brief(mean(numbers(pearson[kind])))}"
        for kind, values in cosine.items()
        if kind in pearson
    ]
    panels = (
        Panel(title="Cosine", marks=curves, x=LAYER, y=Axis(label="cosine")),
        Panel(
            title="Correlation",
            marks=(chance.mark(numbers(layers)), *drawn_curves(layers, pearson, styles)),
            x=LAYER,
            y=Axis(label="Pearson r"),
        ),
        Panel(
            title="Cosine minus expectation",
            marks=(
                ReferenceLine(
                    value=0.0, axis="x", label="nothing in common", role="expectation", style=EXPECTATION
                ),
                *(binned(kind, values, edges, chosen[kind]) for kind, values in excess.items()),
            ),
            x=Axis(label="excess cosine"),
            y=SHARE,
        ),
        Panel(title="In words", marks=(Text(text="\n".join(told)),)),
    )
    return Figure(title=f"{names[0]} and {names[1]}: overview", panels=panels, columns=2)


def proof(
    layers: Series,
    cosine: Mapping[str, Series],
    expected: Mapping[str, Series],
    about_one: Mapping[str, Series],
    about_mean: Mapping[str, Series],
    mismatched: Series,
    *,
    names: tuple[str, str],
    n: int,
    distance: str = "equal distance",
    styles: Styles | None = None,
) -> Figure:
    """Draw cosines with mismatched layers beside them, and centring at one against centring at the mean.

    Parameters
    ----------
    about_one
        Cosine after subtracting one from every value. It mixes in the sign of the means and swings with them.
    about_mean
        Cosine after subtracting each vector's mean: Pearson's correlation.
    mismatched
        Cosines of layers that do not face each other, of one kind of vector and one distance.
    """
    wrong = known(numbers(mismatched))
    level = mean(wrong)
    band = (min(wrong), max(wrong)) if wrong else (0.0, 0.0)
    null = ReferenceLine(
        value=level or 0.0, label=f"mismatched layers, {distance} (range)", low=band[0], high=band[1]
    )
    first = next(iter(cosine))
    same = known(numbers(cosine[first]))
    edges = edges_of([same, wrong], bins=30)
    panels = (
        Panel(
            title="Cosine",
            marks=(null, *drawn_curves(layers, cosine, styles, expected=expected)),
            x=LAYER,
            y=Axis(label="cosine"),
        ),
        Panel(
            title="Centred at one: follows the sign of the means",
            marks=(at_zero("no agreement"), *drawn_curves(layers, about_one, styles)),
            x=LAYER,
            y=Axis(label="cosine about 1", low=-1.05, high=1.05),
            note="means on one side of 1 push it to +1, on both sides to -1, without any relation",
        ),
        Panel(
            title="Centred at the mean",
            marks=(pearson_chance(n).mark(numbers(layers)), *drawn_curves(layers, about_mean, styles)),
            x=LAYER,
            y=Axis(label="Pearson r"),
        ),
        Panel(
            title=f"{first}: facing against mismatched layers",
            marks=(
                binned("facing layers", same, edges, Style(tone="blue")),
                binned("mismatched layers", wrong, edges, NULL, "null"),
            ),
            x=Axis(label="cosine"),
            y=SHARE,
        ),
    )
    return Figure(
        title=f"{names[0]} and {names[1]}: centring and mismatched layers", panels=panels, columns=2
    )


def layer_decay(
    matrix: Matrix, pearson: Series, *, names: tuple[str, str], n: int, signed: bool = False
) -> Figure:
    """Draw all layers against all, facing layers against the rest of their row, and correlations.

    Parameters
    ----------
    matrix
        Cosines (or, with `signed`, correlations) of layers: rows are those of the first model.
    pearson
        Correlation of facing layers.
    """
    values = array(matrix)
    if values.ndim != 2 or values.shape[1] < 2:
        raise UsageError("layer_decay", "expected at least two layers to compare with")
    depth = min(values.shape)
    facing = np.diag(values)
    others = np.where(np.eye(*values.shape) > 0, np.nan, values)[:depth]
    rows = [[value for value in row if not np.isnan(value)] for row in others]
    middle = [mean(row) for row in rows]
    low, high = ([side(row, default=None) for row in rows] for side in (min, max))
    every = mean(value for row in rows for value in row)
    label = "Pearson r" if signed else "cosine"
    if signed:
        scale = signed_scale(values.ravel(), label=label)
    else:
        scale = sequential_scale(
            values.ravel(), label=label, chance=every, chance_label="mean of other layers"
        )
    heat = HeatMap(
        values=grid(values),
        rows=words(range(values.shape[0])),
        columns=words(range(values.shape[1])),
        scale=scale,
        path=tuple((i, i) for i in range(depth)),
        path_name="same layer",
    )
    x = numbers(range(depth))
    chance = Chance(
        label="other layers of the row (mean, range)",
        value=numbers(middle),
        low=numbers(low),
        high=numbers(high),
    )
    best = sum(top is not None and value >= top for value, top in zip(facing, high, strict=True))
    r = numbers(pearson)
    reach = pearson_chance(n)
    panels = (
        Panel(
            title="All layers against all",
            marks=(heat,),
            x=Axis(label=f"layer of {names[1]}"),
            y=Axis(label=f"layer of {names[0]}"),
        ),
        Panel(
            title="Same layer against other layers",
            marks=(
                chance.mark(x),
                Lines(name="same layer", x=x, y=numbers(facing), style=Style(tone="blue", marker="o")),
            ),
            x=LAYER,
            y=Axis(label=label),
        ),
        Panel(
            title="Correlation of facing layers",
            marks=(
                reach.mark(x),
                Bars(
                    labels=words(range(len(r))),
                    series=(BarSeries(name="Pearson r", values=r, style=Style(tone="green")),),
                    slim=True,
                ),
            ),
            x=LAYER,
            y=Axis(label="Pearson r"),
        ),
        Panel(
            title="In words",
            marks=(
                Text(
                    text=(
                        f"The facing layer is the best of its row in {best} of {depth} layers; "
                        f"by chance in {depth / values.shape[1]:.1f}.\n"
                        f"Facing layers: mean {brief(mean(numbers(facing)))}; "
                        f"others: {brief(every)}.\n{beyond_chance(array(r), n)}."
                    )
                ),
            ),
        ),
    )
    return Figure(
        title=f"{names[0]} and {names[1]}: does likeness fade with distance?", panels=panels, columns=2
    )


def experiments_summary(
    pairs: tuple[Sequence[str], Mapping[str, Series], Mapping[str, Series]],
    models: tuple[Sequence[str], Matrix, Matrix],
    by_layer: tuple[Series, Mapping[str, Series], Series],
    groups: tuple[Mapping[str, Mapping[str, float | None]], Mapping[str, Mapping[str, float | None]]],
) -> Figure:
    """Draw four experiments in one figure: layer pairs, models against models, layers, groups.

    Parameters
    ----------
    pairs
        Labels, cosines and expectations, as for `layer_pairs`.
    models
        Names, cosines and expectations, as for `model_matrix`.
    by_layer
        Layers, cosines by pair, and the expectation, as for `layer_range`.
    groups
        Values and expectations, as for `group_means`.
    """
    layers, curves, expected = by_layer
    parts = (
        layer_pairs(*pairs, title="Layers of one model"),
        model_matrix(models[0], models[1], expected=models[2], measure="cosine", title="Models"),
        layer_range(layers, curves, measure="cosine", expected=expected),
        group_means(*groups, measure="cosine"),
    )
    titles = ("Layers of one model", "Models against models", "By layer", "By group")
    panels = tuple(
        Panel(
            title=title,
            marks=part.panels[0].marks,
            x=part.panels[0].x,
            y=part.panels[0].y,
            without_null=part.panels[0].without_null,
            note=part.note,
            height=3.1,
        )
        for title, part in zip(titles, parts, strict=True)
    )
    return Figure(title="Baselines for cosines of norm gains", panels=panels, columns=2)
