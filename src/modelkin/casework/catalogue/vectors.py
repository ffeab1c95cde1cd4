"""Vectors of models layer by layer: surfaces, paths through space, distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

from .parts import UNTRAINED, level


def surfaces(models: Mapping[str, fig.Matrix], *, what: str, dimensions: int = 100) -> fig.Figure:
    """Draw the first dimensions of a vector over the layers, one map per model, on one scale.

    Seen from above: a 3D surface hides what is behind it, and nobody can read heights off it.
    """
    shown = {model: fig.array(matrix)[:, :dimensions] for model, matrix in models.items()}
    every = np.concatenate([values.ravel() for values in shown.values()])
    value = phrase("catalogue.value")
    scale = fig.signed_scale(every, label=value, centre=1.0, chance_label=UNTRAINED)
    panels = [
        fig.Panel(
            title=model,
            marks=(
                fig.HeatMap(
                    values=fig.grid(values),
                    rows=fig.words(range(values.shape[0])),
                    columns=fig.words(range(values.shape[1])),
                    scale=scale,
                ),
            ),
            x=fig.Axis(label=phrase("catalogue.dimension")),
            y=fig.Axis(label=phrase("catalogue.layer")),
            height=2.8,
        )
        for model, values in shown.items()
    ]
    return fig.Figure(
        title=phrase("catalogue.surfaces", what=what, dimensions=dimensions),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.surfaces-note"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Rows of several models in their first three principal components."""

    points: Mapping[str, npt.NDArray[np.float64]]
    shares: tuple[float, float, float]
    """Share of the variance of each component."""
    mean_share: float
    """Share of the first component that is the mean of the rows: their squared correlation."""


def principal_components(models: Mapping[str, fig.Matrix], *, scaled: bool) -> Projection:
    """Project the layers of all models together, by a singular value decomposition.

    If `scaled`, each row's mean is subtracted first and the row divided by its standard deviation. Vectors of
    different lengths are refused: padding would invent values.
    """
    rows = {model: fig.array(matrix) for model, matrix in models.items()}
    if len({values.shape[1] for values in rows.values()}) > 1:
        raise UsageError("principal_components", say("problem.vectors-one-length"))
    stacked = np.concatenate(list(rows.values()))
    means = stacked.mean(axis=1)
    if scaled:
        deviations = stacked.std(axis=1, keepdims=True)
        stacked = (stacked - means[:, None]) / np.where(deviations > 0, deviations, 1.0)
    centred = stacked - stacked.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    scores = left[:, :3] * values[:3]
    if scores.shape[1] < 3:
        raise UsageError("principal_components", say("problem.three-layers"))
    power = values**2
    first, second, third = (float(part) for part in power[:3] / power.sum())
    ends = np.cumsum([len(matrix) for matrix in rows.values()])[:-1]
    linked = np.corrcoef(scores[:, 0], means)[0, 1] if means.std() > 0 and scores[:, 0].std() > 0 else 0.0
    return Projection(
        points=dict(zip(rows, np.split(scores, ends), strict=True)),
        shares=(first, second, third),
        mean_share=float(linked**2),
    )


def trajectories(
    models: Mapping[str, fig.Matrix], *, what: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Draw the path of each model's layers through the first principal components, as stored and scaled."""
    chosen = fig.complete(styles, models)
    panels = []
    told = []
    for scaled in (False, True):
        view = principal_components(models, scaled=scaled)
        marks = tuple(
            fig.Trajectory3D(
                name=model,
                points=tuple((float(a), float(b), float(c)) for a, b, c in points),
                style=chosen[model],
            )
            for model, points in view.points.items()
        )
        title = phrase("catalogue.each-scaled" if scaled else "catalogue.as-stored")
        told.append(phrase("catalogue.mean-of-pc1", view=title, share=view.mean_share))
        axes = [fig.Axis(label=f"PC{i + 1} ({share:.1%})") for i, share in enumerate(view.shares)]
        panels.append(
            fig.Panel(
                title=title,
                marks=marks,
                x=axes[0],
                y=axes[1],
                z=axes[2],
                without_null=phrase("catalogue.projection"),
                height=3.9,
            )
        )
    return fig.Figure(
        title=phrase("catalogue.trajectories", what=what),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.trajectories-note", views=tuple(told)),
    )


def ridges(
    kinds: Mapping[str, Mapping[str, fig.Matrix]],
    *,
    every: int = 3,
    bins: int = 80,
    limits: tuple[float, float] | None = None,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw the distribution of the values of a vector in every third layer, models overlaid.

    `kinds` has a matrix of layers by dimensions for each kind of vector and model. Within `limits` values are
    drawn; heights count values outside too.
    """
    chosen = fig.complete(styles, [model for models in kinds.values() for model in models])
    panels = []
    for kind, models in kinds.items():
        edges = fig.edges_of([fig.array(matrix).ravel() for matrix in models.values()], bins, limits)
        layers = range(0, min(len(fig.array(matrix)) for matrix in models.values()), every)
        marks = (_ridge(model, fig.array(matrix), layers, edges, chosen) for model, matrix in models.items())
        panels.append(
            fig.Panel(
                title=kind,
                marks=(level(1.0, UNTRAINED, "x"), *marks),
                x=fig.Axis(label=phrase("catalogue.value")),
                y=fig.Axis(label=phrase("catalogue.layer")),
                height=max(3.0, 0.24 * len(layers) + 0.8),
            )
        )
    return fig.Figure(title=phrase("catalogue.values-by-layer"), panels=tuple(panels), columns=2)


def _ridge(
    model: str,
    matrix: npt.NDArray[np.float64],
    layers: Sequence[int],
    edges: fig.Numbers,
    styles: fig.Styles,
) -> fig.Ridges:
    borders = np.array(edges, dtype=float)
    rows = [matrix[layer][np.isfinite(matrix[layer])] for layer in layers]
    counts = [np.histogram(row, borders)[0] for row in rows]
    pairs = list(zip(rows, counts, strict=True))
    return fig.Ridges(
        name=model,
        rows=fig.words(layers),
        edges=edges,
        heights=tuple(fig.numbers(count / max(1, len(row)) / np.diff(borders)) for row, count in pairs),
        outside=tuple(int(len(row) - count.sum()) for row, count in pairs),
        style=styles[model],
    )
