"""Cosines of random vectors with a mean: high without any relation, and known in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say
from modelkin.stats import limit_cosine, positive_share

from .parts import BLUE, COSINE, ORANGE, banded, expected_line, line

CLOSED_FORM = phrase("catalogue.closed-form")
STYLES = (BLUE, ORANGE, fig.Style(tone="green", marker="^"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineCell:
    """Cosines of many pairs of independent normal vectors of one kind."""

    mean_1: float
    mean_2: float
    sigma: float
    dimension: int
    cosine: float
    """Mean over the pairs."""
    spread: float
    """Standard deviation over the pairs."""
    positive_1: float
    """Share of positive values of the first vectors."""
    positive_2: float


def synthetic_cosines(cells: Sequence[CosineCell]) -> fig.Figure:
    """Draw cosines by sigma for each dimension, and shares of positive values; the closed form is dashed."""
    if not cells:
        raise UsageError("synthetic_cosines", say("problem.one-cell"))
    dimensions = sorted({cell.dimension for cell in cells})
    panels = [
        _cosines(
            phrase("catalogue.cosine-dimensions", dimensions=dimension),
            [cell for cell in cells if cell.dimension == dimension],
        )
        for dimension in dimensions
    ]
    panels.append(_positive([cell for cell in cells if cell.dimension == dimensions[-1]]))
    return fig.Figure(
        title=phrase("catalogue.synthetic"),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.synthetic-note"),
    )


def _cosines(title: str, cells: Sequence[CosineCell]) -> fig.Panel:
    marks: list[fig.Lines] = []
    kinds = sorted({(cell.mean_1, cell.mean_2) for cell in cells})
    for i, (mean_1, mean_2) in enumerate(kinds):
        group = sorted((c for c in cells if (c.mean_1, c.mean_2) == (mean_1, mean_2)), key=lambda c: c.sigma)
        expected = [limit_cosine(means=(mean_1, mean_2), sigmas=(cell.sigma, cell.sigma)) for cell in group]
        drawn = [(cell.sigma, cell.cosine, cell.spread) for cell in group]
        name = phrase("catalogue.means", first=mean_1, second=mean_2)
        marks += over_sigma(name, drawn, expected, STYLES[i % len(STYLES)])
    return fig.Panel(
        title=title,
        marks=tuple(marks),
        x=fig.Axis(label=phrase("catalogue.sigma")),
        y=fig.Axis(label=COSINE, low=0.0, high=1.1),
        height=2.3,
    )


def over_sigma(
    name: str, drawn: Sequence[tuple[float, float, float]], expected: fig.Series, style: fig.Style
) -> tuple[fig.Lines, fig.Lines]:
    """Draw the closed form and drawn cosines: each has its sigma, its mean and its deviation over pairs."""
    x, cosines, spreads = (np.array(column) for column in zip(*drawn, strict=True))
    curve = line(name, x, cosines, style)
    return expected_line(CLOSED_FORM, x, expected), banded(curve, cosines - spreads, cosines + spreads)


def _positive(cells: Sequence[CosineCell]) -> fig.Panel:
    """Draw how many values of a vector are positive, for each mean once."""
    shares: dict[float, dict[float, float]] = {}
    for cell in cells:
        shares.setdefault(cell.mean_1, {})[cell.sigma] = cell.positive_1
        shares.setdefault(cell.mean_2, {})[cell.sigma] = cell.positive_2
    names = {mean: phrase("catalogue.one-mean", mean=mean) for mean in sorted(shares)}
    styles = fig.series_styles(names.values())
    marks: list[fig.Lines] = []
    for mean in sorted(shares):
        x = sorted(shares[mean])
        marks.append(expected_line(CLOSED_FORM, x, [positive_share(mean, sigma) for sigma in x]))
        drawn = [shares[mean][sigma] for sigma in x]
        marks.append(line(names[mean], x, drawn, styles[names[mean]]))
    return fig.Panel(
        title=phrase("catalogue.positive"),
        marks=tuple(marks),
        x=fig.Axis(label=phrase("catalogue.sigma")),
        y=fig.Axis(label=phrase("catalogue.share"), low=0.4, high=1.05),
        height=2.3,
    )
