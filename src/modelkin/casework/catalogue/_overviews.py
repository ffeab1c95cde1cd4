"""Overviews: several views of one question in one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import say

from ._curves import layer_range
from ._matrices import beyond_chance, model_matrix
from ._parts import (
    BLUE,
    banded,
    bars,
    by_layer,
    correlations,
    curves,
    excess_of,
    layers_against_layers,
    level,
    line,
    shares,
    slim,
    told,
)
from .bars import Groups, group_means, layer_pairs

_RANDOM = tuple(fig.Style(tone="muted", dash=dash) for dash in ("dashed", "dotted", "dashdot", "solid"))


def comprehensive(
    layers: fig.Series,
    cosine: Mapping[str, fig.Series],
    expected: Mapping[str, fig.Series],
    pearson: Mapping[str, fig.Series],
    *,
    names: tuple[str, str],
    n: int,
    random: Mapping[str, tuple[float, float]],
    summary: Sequence[str] = (),
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw cosine, correlation, the distribution of what exceeds chance, and what follows, in words.

    `random` has mean and standard deviation of the cosine of random vectors, by how they were drawn. Divided
    by such a small deviation, any difference becomes many sigmas: it is reported, and nothing follows.
    """
    excess = excess_of(cosine, expected)
    edges = fig.edges_of([*excess.values(), [0.0]], bins=30)
    drawn = curves(layers, cosine, styles, expected)
    chosen = {mark.name: mark.style for mark in drawn}
    left = (fig.binned(kind, values, edges, chosen[kind]) for kind, values in excess.items())
    means = {
        kind: [fig.brief(fig.mean(fig.numbers(side[kind]))) for side in (cosine, expected, pearson)]
        for kind in cosine
        if kind in pearson
    }
    words = [f"{kind}: cosine {c}, expected {e}, correlation {r}" for kind, (c, e, r) in means.items()]
    first = next(iter(cosine))
    measured = fig.mean(fig.numbers(cosine[first])) or 0.0
    words += [
        f"Random vectors, {how}: cosine {mean:.6f} ± {sd:.1g};\n"
        f"   the mean of {first} is {(measured - mean) / sd:+,.0f} of these deviations away"
        for how, (mean, sd) in random.items()
        if sd > 0
    ]
    levels = [
        fig.ReferenceLine(value=mean, label=f"random vectors, {how}: {mean:.4f}", style=style)
        for (how, (mean, _)), style in zip(random.items(), _RANDOM, strict=False)
    ]
    panels = (
        by_layer("Cosine", (*levels, *drawn), "cosine"),
        correlations("Correlation", layers, pearson, styles, n=n),
        shares("Cosine minus expectation", (level(0.0, "nothing in common", "x"), *left), "excess cosine"),
        told("In words", "\n".join(summary or words)),
    )
    return fig.Figure(title=f"{names[0]} and {names[1]}: overview", panels=panels, columns=2)


def proof(
    layers: fig.Series,
    cosine: Mapping[str, fig.Series],
    expected: Mapping[str, fig.Series],
    about_one: Mapping[str, fig.Series],
    about_mean: Mapping[str, fig.Series],
    mismatched: fig.Series,
    *,
    names: tuple[str, str],
    n: int,
    distance: str = "equal distance",
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw cosines next to those of mismatched layers, and centring at one against centring at the mean.

    The cosine `about_one` mixes in the sign of the means and swings with them; `about_mean` is Pearson's
    correlation. The `mismatched` cosines are of one kind of vector and one distance.
    """
    wrong = fig.known(fig.numbers(mismatched))
    null = fig.ReferenceLine(
        value=fig.mean(wrong) or 0.0,
        label=f"mismatched layers, {distance} (range)",
        low=min(wrong, default=0.0),
        high=max(wrong, default=0.0),
    )
    first = next(iter(cosine))
    same = fig.known(fig.numbers(cosine[first]))
    edges = fig.edges_of([same, wrong], bins=30)
    facing = (
        fig.binned("facing layers", same, edges, fig.Style(tone="blue")),
        fig.binned("mismatched layers", wrong, edges, fig.NULL, "null"),
    )
    panels = (
        by_layer("Cosine", (null, *curves(layers, cosine, styles, expected)), "cosine"),
        by_layer(
            "Centred at one: follows the sign of the means",
            (level(0.0, "no agreement"), *curves(layers, about_one, styles)),
            fig.Axis(label="cosine about 1", low=-1.05, high=1.05),
            note="means on one side of 1 push it to +1, on both sides to -1, without any relation",
        ),
        correlations("Centred at the mean", layers, about_mean, styles, n=n),
        shares(f"{first}: facing against mismatched layers", facing, "cosine"),
    )
    title = f"{names[0]} and {names[1]}: centring and mismatched layers"
    return fig.Figure(title=title, panels=panels, columns=2)


def layer_decay(
    matrix: fig.Matrix, pearson: fig.Series, *, names: tuple[str, str], n: int, signed: bool = False
) -> fig.Figure:
    """Draw all layers against all, facing layers against the rest of their row, and correlations.

    The matrix has cosines, or correlations if `signed`; rows are layers of the first model.
    """
    values = fig.array(matrix)
    if values.ndim != 2 or values.shape[1] < 2:
        raise UsageError("layer_decay", say("problem.two-layers"))
    depth, label = min(values.shape), "Pearson r" if signed else "cosine"
    facing = np.diag(values)
    others = np.where(np.eye(*values.shape) > 0, np.nan, values)[:depth]
    rows = [fig.known(fig.numbers(row)) for row in others]
    low, high = ([side(row, default=None) for row in rows] for side in (min, max))
    every = fig.mean(value for row in rows for value in row)
    scale = (
        fig.signed_scale(values.ravel(), label=label)
        if signed
        else fig.sequential_scale(
            values.ravel(), label=label, chance=every, chance_label="mean of other layers"
        )
    )
    x, r = range(depth), fig.numbers(pearson)
    null = line("other layers of the row (mean, range)", x, [fig.mean(row) for row in rows], fig.NULL, "null")
    best = sum(top is not None and value >= top for value, top in zip(facing, high, strict=True))
    words = (
        f"The facing layer is the best of its row in {best} of {depth} layers; "
        f"by chance in {depth / values.shape[1]:.1f}.\n"
        f"Facing layers: mean {fig.brief(fig.mean(fig.numbers(facing)))}; "
        f"others: {fig.brief(every)}.\n{beyond_chance(fig.array(r), n)}."
    )
    panels = (
        layers_against_layers("All layers against all", values, scale, names),
        by_layer(
            "Same layer against other layers",
            (banded(null, low, high), line("same layer", x, facing, BLUE)),
            label,
        ),
        by_layer(
            "Correlation of facing layers",
            (fig.pearson_chance(n).mark(()), slim(len(r), bars("Pearson r", r, "green"))),
            "Pearson r",
        ),
        told("In words", words),
    )
    title = f"{names[0]} and {names[1]}: does likeness fade with distance?"
    return fig.Figure(title=title, panels=panels, columns=2)


def experiments_summary(
    pairs: tuple[Sequence[str], Mapping[str, fig.Series], Mapping[str, fig.Series]],
    models: tuple[Sequence[str], fig.Matrix, fig.Matrix],
    by_layers: tuple[fig.Series, Mapping[str, fig.Series], fig.Series],
    groups: tuple[Groups, Groups],
) -> fig.Figure:
    """Draw four experiments in one figure: layer pairs, models against models, layers, groups.

    Each has what `layer_pairs`, `model_matrix`, `layer_range` and `group_means` take, in their order.
    """
    layers, measured, expected = by_layers
    parts = {
        "Layers of one model": layer_pairs(*pairs, title="Layers of one model"),
        "Models against models": model_matrix(
            models[0], models[1], expected=models[2], measure="cosine", title="Models"
        ),
        "By layer": layer_range(layers, measured, measure="cosine", expected=expected),
        "By group": group_means(*groups, measure="cosine"),
    }
    panels = tuple(
        replace(part.panels[0], title=title, note=part.note, height=3.1) for title, part in parts.items()
    )
    return fig.Figure(title="Baselines for cosines of norm gains", panels=panels, columns=2)
