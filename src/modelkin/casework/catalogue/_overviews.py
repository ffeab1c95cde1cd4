"""Overviews: several views of one question in one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

from ._curves import layer_range
from ._matrices import beyond_chance, model_matrix
from ._parts import (
    BLUE,
    COSINE,
    EXCESS,
    IN_COMMON,
    PEARSON,
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
    words = [
        phrase("catalogue.in-words", name=kind, cosine=c, expected=e, correlation=r)
        for kind, (c, e, r) in means.items()
    ]
    first = next(iter(cosine))
    measured = fig.mean(fig.numbers(cosine[first])) or 0.0
    words += [
        phrase("catalogue.random-words", how=how, mean=mean, sd=sd, name=first, away=(measured - mean) / sd)
        for how, (mean, sd) in random.items()
        if sd > 0
    ]
    levels = [
        fig.ReferenceLine(value=mean, label=phrase("catalogue.random-level", how=how, mean=mean), style=style)
        for (how, (mean, _)), style in zip(random.items(), _RANDOM, strict=False)
    ]
    panels = (
        by_layer(phrase("catalogue.of-cosine"), (*levels, *drawn), COSINE),
        correlations(phrase("catalogue.correlation"), layers, pearson, styles, n=n),
        shares(phrase("catalogue.cosine-minus-expectation"), (level(0.0, IN_COMMON, "x"), *left), EXCESS),
        told(phrase("catalogue.words"), phrase("catalogue.lines", lines=tuple(words))),
    )
    return fig.Figure(title=phrase("catalogue.overview", a=names[0], b=names[1]), panels=panels, columns=2)


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
    distance: int,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw cosines next to those of mismatched layers, and centring at one against centring at the mean.

    The cosine `about_one` mixes in the sign of the means and swings with them; `about_mean` is Pearson's
    correlation. The `mismatched` cosines are of one kind of vector and one distance.
    """
    wrong = fig.known(fig.numbers(mismatched))
    null = fig.ReferenceLine(
        value=fig.mean(wrong) or 0.0,
        label=phrase("catalogue.mismatched-range", distance=distance),
        low=min(wrong, default=0.0),
        high=max(wrong, default=0.0),
    )
    first = next(iter(cosine))
    same = fig.known(fig.numbers(cosine[first]))
    edges = fig.edges_of([same, wrong], bins=30)
    facing = (
        fig.binned(phrase("catalogue.facing"), same, edges, fig.Style(tone="blue")),
        fig.binned(phrase("catalogue.mismatched"), wrong, edges, fig.NULL, "null"),
    )
    panels = (
        by_layer(phrase("catalogue.of-cosine"), (null, *curves(layers, cosine, styles, expected)), COSINE),
        by_layer(
            phrase("catalogue.centred-at-one"),
            (level(0.0, phrase("catalogue.no-agreement")), *curves(layers, about_one, styles)),
            fig.Axis(label=phrase("catalogue.about-one"), low=-1.05, high=1.05),
            note=phrase("catalogue.about-one-note"),
        ),
        correlations(phrase("catalogue.centred-at-mean"), layers, about_mean, styles, n=n),
        shares(phrase("catalogue.facing-against", name=first), facing, COSINE),
    )
    title = phrase("catalogue.proof", a=names[0], b=names[1])
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
    depth, label = min(values.shape), PEARSON if signed else COSINE
    facing = np.diag(values)
    others = np.where(np.eye(*values.shape) > 0, np.nan, values)[:depth]
    rows = [fig.known(fig.numbers(row)) for row in others]
    low, high = ([side(row, default=None) for row in rows] for side in (min, max))
    every = fig.mean(value for row in rows for value in row)
    scale = (
        fig.signed_scale(values.ravel(), label=label)
        if signed
        else fig.sequential_scale(
            values.ravel(), label=label, chance=every, chance_label=phrase("catalogue.mean-of-others")
        )
    )
    x, r = range(depth), fig.numbers(pearson)
    null = line(phrase("catalogue.others-of-row"), x, [fig.mean(row) for row in rows], fig.NULL, "null")
    best = sum(top is not None and value >= top for value, top in zip(facing, high, strict=True))
    words = phrase(
        "catalogue.decay-words",
        best=best,
        depth=depth,
        chance=depth / values.shape[1],
        facing=fig.brief(fig.mean(fig.numbers(facing))),
        others=fig.brief(every),
        beyond=beyond_chance(fig.array(r), n),
    )
    panels = (
        layers_against_layers(phrase("catalogue.layers-against-all"), values, scale, names),
        by_layer(
            phrase("catalogue.same-against-others"),
            (banded(null, low, high), line(phrase("catalogue.same-layer"), x, facing, BLUE)),
            label,
        ),
        by_layer(
            phrase("catalogue.correlation-of-facing"),
            (fig.pearson_chance(n).mark(()), slim(len(r), bars(PEARSON, r, "green"))),
            PEARSON,
        ),
        told(phrase("catalogue.words"), words),
    )
    title = phrase("catalogue.decay", a=names[0], b=names[1])
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
    parts = (
        layer_pairs(*pairs, title=phrase("catalogue.of-one-model")),
        model_matrix(*models[:2], expected=models[2], measure=COSINE, title=phrase("catalogue.of-models")),
        layer_range(layers, measured, measure=COSINE, expected=expected),
        group_means(*groups, measure=COSINE),
    )
    titles = (parts[0].title, parts[1].title, phrase("catalogue.of-layers"), phrase("catalogue.of-groups"))
    panels = tuple(
        replace(part.panels[0], title=title, note=part.note, height=3.1)
        for title, part in zip(titles, parts, strict=True)
    )
    return fig.Figure(title=phrase("catalogue.baselines"), panels=panels, columns=2)
