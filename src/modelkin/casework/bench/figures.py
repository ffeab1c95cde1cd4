"""Figures of a benchmark: ROC curves, and every score next to those of independent pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from modelkin import figures as fig
from modelkin.document import ENGLISH, Language
from modelkin.message import phrase

from .rates import Rates
from .record import BenchResult, BenchRow


def bench_figures(result: BenchResult) -> dict[str, fig.Figure]:
    """Return the figures by file name; none if no method has scores on both sides."""
    drawn = [rates for rates in result.rates if rates.roc]
    if not drawn:
        return {}
    return {"roc": _roc(drawn), "scores": _scores(result, drawn)}


def figure_alts(result: BenchResult, language: Language = ENGLISH) -> dict[str, str]:
    """Return what the figures show, in words, by file name."""
    drawn = [rates for rates in result.rates if rates.roc]
    areas = ", ".join(f"{item.method} {item.auc.value:.3f}" for item in drawn if item.auc is not None)
    return {
        "roc": language.say("bench.alt_roc", areas=areas),
        "scores": language.say("bench.alt_scores", ranges=" ".join(_ranges(result, drawn, language))),
    }


def _ranges(result: BenchResult, drawn: list[Rates], language: Language) -> Iterator[str]:
    for rates in drawn:
        sides = {
            truth: [
                row.score for row in _rows(result, rates) if row.pair.truth == truth and row.score is not None
            ]
            for truth in ("independent", "related")
        }
        told = {truth: f"{min(held):.3g} ... {max(held):.3g}" for truth, held in sides.items()}
        yield language.say("bench.alt_range", method=rates.method, **told)


def _rows(result: BenchResult, rates: Rates) -> list[BenchRow]:
    return [row for row in result.rows if row.method == rates.method and row.score is not None]


def _roc(drawn: list[Rates]) -> fig.Figure:
    marks: list[fig.Mark] = [
        fig.Lines(name=phrase("figure.chance"), x=(0.0, 1.0), y=(0.0, 1.0), role="null", style=fig.NULL)
    ]
    styles = fig.series_styles([rates.method for rates in drawn])
    for rates in drawn:
        area = "" if rates.auc is None else f" ({rates.auc.value:.3f})"
        marks.append(
            fig.Lines(
                name=f"{rates.method}{area}",
                x=tuple(x for x, _ in rates.roc),
                y=tuple(y for _, y in rates.roc),
                style=styles[rates.method],
            )
        )
    panel = fig.Panel(
        title="",
        marks=tuple(marks),
        x=fig.Axis(label=phrase("figure.roc_x"), low=0.0, high=1.0),
        y=fig.Axis(label=phrase("figure.roc_y"), low=0.0, high=1.0),
        height=4.6,
    )
    return fig.Figure(
        title=phrase("figure.roc"),
        panels=(panel,),
        note=phrase("figure.roc_note"),
    )


def _scores(result: BenchResult, drawn: list[Rates]) -> fig.Figure:
    panels = [_panel(rates.method, _rows(result, rates)) for rates in drawn]
    return fig.Figure(
        title=phrase("figure.pair_scores"),
        panels=tuple(panels),
        columns=min(3, len(panels)),
        note=phrase("figure.pair_scores_note"),
        alt=figure_alts(result)["scores"],
    )


def _panel(method: str, rows: list[BenchRow]) -> fig.Panel:
    shown = {"independent": ("null", fig.NULL, 0.0), "related": ("data", fig.Style(tone="orange"), 1.0)}
    marks: list[fig.Mark] = []
    # Cosines and shares stay far below this; counts and z of many rows need a logarithmic axis.
    large = max(abs(row.score or 0.0) for row in rows) > 100.0
    for truth, (role, style, height) in shown.items():
        values = [_axis(row.score or 0.0, large=large) for row in rows if row.pair.truth == truth]
        spots = np.random.default_rng(0).uniform(-0.3, 0.3, len(values))
        marks.append(
            fig.Scatter(
                name=phrase(f"figure.pair_{truth}"),
                x=fig.numbers(values),
                y=fig.numbers(height + spot for spot in spots),
                role=role,  # type: ignore[arg-type]
                style=style,
            )
        )
    return fig.Panel(
        title=method,
        marks=tuple(marks),
        x=fig.Axis(label=phrase("figure.pair_log_score" if large else "figure.pair_score")),
        y=fig.Axis(
            low=-0.5,
            high=1.5,
            ticks=tuple((height, phrase(f"figure.pair_{truth}")) for truth, (*_, height) in shown.items()),
        ),
        height=1.6,
    )


def _axis(score: float, *, large: bool) -> float:
    return math.copysign(math.log10(1.0 + abs(score)), score) if large else score
