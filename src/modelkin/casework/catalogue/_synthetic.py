"""Cosines of random vectors with a mean: high without any relation, and known in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from modelkin import figures as fig
from modelkin.errors import UsageError

from ._parts import BLUE, ORANGE, banded, expected_line, line

_STYLES = (BLUE, ORANGE, fig.Style(tone="green", marker="^"))


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


def expected_cosine_of_normals(mean_1: float, mean_2: float, sigma: float) -> float:
    """Cosine that long independent normal vectors approach; it does not depend on any relation."""
    return mean_1 * mean_2 / (math.hypot(mean_1, sigma) * math.hypot(mean_2, sigma))


def synthetic_cosines(cells: Sequence[CosineCell]) -> fig.Figure:
    """Draw cosine and shares of positive values against sigma, the closed form dashed."""
    if not cells:
        raise UsageError("synthetic_cosines", "expected at least one cell")
    panels = []
    for dimension in sorted({cell.dimension for cell in cells}):
        row = [cell for cell in cells if cell.dimension == dimension]
        panels += [
            _panel(f"Cosine, {dimension} dimensions", row, "cosine"),
            _panel("Positive values, first vector", row, "positive_1"),
            _panel("Positive values, second vector", row, "positive_2"),
        ]
    return fig.Figure(
        title="Independent random vectors: the closer to their mean, the higher the cosine",
        panels=tuple(panels),
        columns=3,
        note=(
            "Dashed: closed form m1 m2 / (sqrt(m1² + s²) sqrt(m2² + s²)), and the normal share above zero. "
            "Bands: standard deviation over pairs."
        ),
    )


def _panel(title: str, cells: Sequence[CosineCell], field: str) -> fig.Panel:
    marks: list[fig.Lines] = []
    kinds = sorted({(cell.mean_1, cell.mean_2) for cell in cells})
    for i, (mean_1, mean_2) in enumerate(kinds):
        group = sorted((c for c in cells if (c.mean_1, c.mean_2) == (mean_1, mean_2)), key=lambda c: c.sigma)
        x = [cell.sigma for cell in group]
        marks.append(expected_line("closed form", x, [_closed_form(cell, field) for cell in group]))
        name, y = f"means {mean_1:g} and {mean_2:g}", [getattr(cell, field) for cell in group]
        drawn = line(name, x, y, _STYLES[i % len(_STYLES)])
        if field == "cosine":
            low, high = ([c.cosine + side * c.spread for c in group] for side in (-1, 1))
            drawn = banded(drawn, low, high)
        marks.append(drawn)
    return fig.Panel(
        title=title,
        marks=tuple(marks),
        x=fig.Axis(label="sigma", reverse=True),
        y=fig.Axis(label="cosine" if field == "cosine" else "share", low=0.0, high=1.1),
        height=2.3,
    )


def _closed_form(cell: CosineCell, field: str) -> float:
    if field == "cosine":
        return expected_cosine_of_normals(cell.mean_1, cell.mean_2, cell.sigma)
    mean = cell.mean_1 if field == "positive_1" else cell.mean_2
    return 0.5 * math.erfc(-mean / cell.sigma / math.sqrt(2))
