"""How values are distributed: similarities, rows of embeddings, gains by layer, z scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import Chance, absent, binned, edges_of, words
from modelkin.figures._marks import ReferenceLine, Ridges, Scatter
from modelkin.figures._style import EXPECTATION, NULL, Style, Styles, complete
from modelkin.figures._values import Matrix, Series, array, brief, known, mean, numbers, spread

SHARE = Axis(label="share of values")


def distribution_by_type(
    values: Mapping[str, Mapping[str, Series]],
    *,
    measure: str,
    chance: Mapping[str, Chance],
    reasons: Mapping[str, str] | None = None,
    styles: Styles | None = None,
) -> Figure:
    """Draw a histogram for each kind of tensor, one colour for each pair; an empty kind says why it is empty.

    Parameters
    ----------
    values
        Kind of tensor, pair of models, values over the layers.
    chance
        Chance for each kind, as one value.
    reasons
        Why a kind has no values.
    """
    chosen = complete(styles, [pair for pairs in values.values() for pair in pairs])
    panels = []
    for kind, pairs in values.items():
        found = {pair: sample for pair, sample in pairs.items() if known(numbers(sample))}
        if not found:
            reason = (reasons or {}).get(kind, "no tensors of one shape")
            panels.append(Panel(title=kind, marks=(absent(measure, reason),), height=2.3))
            continue
        null = chance[kind].mark(())
        if not isinstance(null, ReferenceLine):
            raise UsageError(kind, "expected chance as one value for a histogram, got a curve")
        edges = edges_of([*found.values(), [null.value]], bins=30)
        upright = ReferenceLine(
            value=null.value, label=null.label, axis="x", low=null.low, high=null.high, style=null.style
        )
        marks = tuple(binned(pair, sample, edges, chosen[pair]) for pair, sample in found.items())
        panels.append(Panel(title=kind, marks=(upright, *marks), x=Axis(label=measure), y=SHARE, height=2.3))
    return Figure(title=f"{measure} by kind of tensor", panels=tuple(panels), columns=3)


def row_similarity(
    token_ids: Series,
    cosines: Series,
    permuted: Series,
    *,
    names: tuple[str, str],
    measure: str = "cosine of the rows of a token",
) -> Figure:
    """Draw similarities of embedding rows of shared tokens, and those of the same rows wrongly paired."""
    edges = edges_of([cosines, permuted])
    null_mean, null_sd = mean(numbers(permuted)), spread(numbers(permuted))
    if null_mean is None or null_sd is None:
        raise UsageError("row_similarity", "expected at least two permuted pairs as the null")
    seen, centre = known(numbers(cosines)), mean(numbers(cosines))
    band = ReferenceLine(
        value=null_mean,
        label="permuted pairs: mean ± 2 standard deviations",
        low=null_mean - 2 * null_sd,
        high=null_mean + 2 * null_sd,
    )
    style = Style(tone="blue", marker="o")
    line = ReferenceLine(
        value=centre or 0.0, label=f"mean of shared tokens {brief(centre)}", role="threshold",
        style=Style(tone="orange"),
    )  # fmt: skip
    shared = f"shared tokens ({len(seen)})"
    panels = (
        Panel(
            title="All rows",
            marks=(
                binned(shared, cosines, edges, style),
                binned(f"permuted pairs ({len(known(numbers(permuted)))})", permuted, edges, NULL, "null"),
            ),
            x=Axis(label=measure),
            y=SHARE,
        ),
        Panel(
            title="By token",
            marks=(band, Scatter(name=shared, x=numbers(token_ids), y=numbers(cosines), style=style), line),
            x=Axis(label=f"token id in {names[0]}"),
            y=Axis(label=measure),
        ),
    )
    return Figure(
        title=f"Embedding rows of shared tokens: {names[0]} and {names[1]}",
        panels=panels,
        columns=2,
        note=(
            "Null: the same rows with tokens paired at random across the models. "
            "A cosine of rows does not see a rotation of the whole space."
        ),
    )


def ridges(
    kinds: Mapping[str, Mapping[str, Matrix]],
    *,
    every: int = 3,
    bins: int = 80,
    limits: tuple[float, float] | None = None,
    initial: float = 1.0,
    styles: Styles | None = None,
) -> Figure:
    """Draw the distribution of the values of a vector in every third layer, models over each other.

    Parameters
    ----------
    kinds
        Kind of vector, model, matrix of layers by dimensions.
    limits
        Range of values; by default all of them. Heights count values outside too.
    """
    chosen = complete(styles, [model for models in kinds.values() for model in models])
    panels = []
    for kind, models in kinds.items():
        edges = edges_of([array(matrix).ravel() for matrix in models.values()], bins, limits)
        depth = min(len(array(matrix)) for matrix in models.values())
        layers = range(0, depth, every)
        start = ReferenceLine(
            value=initial, label="before training", axis="x", role="expectation", style=EXPECTATION
        )
        marks = [
            _ridge(model, array(matrix), layers, np.array(edges, float), chosen)
            for model, matrix in models.items()
        ]
        panels.append(
            Panel(
                title=kind,
                marks=(start, *marks),
                x=Axis(label="value"),
                y=Axis(label="layer"),
                height=max(3.0, 0.24 * len(layers) + 0.8),
            )
        )
    return Figure(title="Values by layer", panels=tuple(panels), columns=2)


def _ridge(
    model: str, matrix: np.ndarray, layers: Sequence[int], edges: np.ndarray, styles: Styles
) -> Ridges:
    heights, outside = [], []
    for layer in layers:
        row = matrix[layer][np.isfinite(matrix[layer])]
        counts, _ = np.histogram(row, edges)
        outside.append(int(len(row) - counts.sum()))
        heights.append(numbers(counts / max(1, len(row)) / np.diff(edges)))
    return Ridges(
        name=model,
        rows=words(layers),
        edges=numbers(edges),
        heights=tuple(heights),
        outside=tuple(outside),
        style=styles[model],
    )
