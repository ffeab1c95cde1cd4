"""Figures of the norm experiment, drawn from its records alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from modelkin import figures as fig

from .norms import ALPHA, RELATIONS, GainInit, NormsResult, PairRelation, PairResult, TestResult

_EXPECTED: Final = fig.Style(tone="ink", dash="dashed", marker="X")
_LOOKS: Final[dict[PairRelation, fig.Style]] = {
    "unrelated, same data": fig.Style(tone="blue", marker="o"),
    "unrelated, other data": fig.Style(tone="cyan", marker="s"),
    "same start": fig.Style(tone="purple", marker="^"),
    "fine-tuned": fig.Style(tone="orange", marker="D"),
}
_TICKS: Final[dict[PairRelation, str]] = {
    "unrelated, same data": "unrelated\nsame data",
    "unrelated, other data": "unrelated\nother data",
    "same start": "same\nstart",
    "fine-tuned": "fine-\ntuned",
}
_TONES: Final[dict[str, fig.Tone]] = {"base": "blue", "same start": "purple", "fine-tuned": "orange"}
_P: Final = "\N{MINUS SIGN}log10 p"

Value = Callable[[PairResult], float | None]


def norms_figures(result: NormsResult) -> dict[str, fig.Figure]:
    """Return the figures of an experiment by file name."""
    return {
        "norms_pairs": _pairs(result),
        "norms_cosine": _explained(result),
        "norms_training": _curves(result),
    }


def _pairs(result: NormsResult) -> fig.Figure:
    """Draw every pair: one row of panels per number, one column per arm."""
    half = fig.ReferenceLine(
        value=-math.log10(0.5), label="at most half of unrelated pairs are above", role="expectation"
    )
    needed = fig.ReferenceLine(
        value=-result.needed_log10_p,
        label="needed",
        role="threshold",
        style=fig.Style(tone="ink", dash="dotted"),
    )
    zero = fig.ReferenceLine(value=0.0, label="expected of unrelated models", role="expectation")
    kinds: tuple[tuple[str, str, Value, tuple[fig.Mark, ...]], ...] = (
        ("cosine", "mean cosine of gains", lambda pair: pair.cosine, ()),
        ("correlation", "mean Pearson r", lambda pair: pair.pearson, (zero,)),
        ("exact test of gains", _P, lambda pair: _strength(pair.norm_test), (half, needed)),
        ("exact test of MLP units", _P, lambda pair: _strength(pair.unit_test), (half, needed)),
    )
    return fig.Figure(
        title="Tiny models with known relations, by how their gains begin",
        panels=tuple(
            _panel(result, init, f"{init}: {name}", label, value, levels)
            for name, label, value, levels in kinds
            for init in result.options.inits
        ),
        columns=len(result.options.inits),
        note=(
            "Every point is a pair of models. Crosses: the product of both mean directions, which is the "
            "mean of the cosine over all shuffles. Dotted: p at which false alarms among all "
            f"{len(result.pairs)} pairs are rarer than {ALPHA:.0%}. The axes of the arms differ."
        ),
    )


def _strength(test: TestResult) -> float | None:
    return None if test.log10_p is None else -test.log10_p


def _panel(
    result: NormsResult, init: GainInit, title: str, label: str, value: Value, levels: tuple[fig.Mark, ...]
) -> fig.Panel:
    marks = list(levels)
    relations = [relation for relation in RELATIONS if any(p.relation == relation for p in result.pairs)]
    for place, relation in enumerate(relations):
        pairs = result.group(init, relation)
        x = tuple(place + 0.3 * ((i * 0.618034) % 1.0 - 0.5) for i in range(len(pairs)))
        if not levels:  # a cosine has its own expectation in every pair
            chance = tuple(pair.expected for pair in pairs)
            name = "expected if shuffled"
            marks.append(fig.Scatter(name=name, x=x, y=chance, style=_EXPECTED, role="expectation"))
        marks.append(fig.Scatter(name=relation, x=x, y=tuple(map(value, pairs)), style=_LOOKS[relation]))
    ticks = tuple((float(place), _TICKS[relation]) for place, relation in enumerate(relations))
    places = fig.Axis(ticks=ticks, low=-0.5, high=len(relations) - 0.5)
    return fig.Panel(title=title, marks=tuple(marks), x=places, y=fig.Axis(label=label), height=2.3)


def _explained(result: NormsResult) -> fig.Figure:
    """Draw each norm of each pair: its cosine over what the means alone give."""
    panels = []
    for init in result.options.inits:
        groups = {
            relation: [norm for pair in result.group(init, relation) for norm in pair.norms]
            for relation in RELATIONS
        }
        values = [
            value for norms in groups.values() for norm in norms for value in (norm.expected, norm.cosine)
        ]
        ends, style = (min(values), max(values)), fig.Style(tone="ink", dash="dashed")
        marks: list[fig.Mark] = [
            fig.Lines(name="means alone", x=ends, y=ends, style=style, role="expectation")
        ]
        for relation, norms in groups.items():
            x, y = tuple(norm.expected for norm in norms), tuple(norm.cosine for norm in norms)
            marks.append(fig.Scatter(name=relation, x=x, y=y, style=_LOOKS[relation]))
        across, up = fig.Axis(label="product of both mean directions"), fig.Axis(label="cosine of one norm")
        panels.append(fig.Panel(title=init, marks=tuple(marks), x=across, y=up, height=3.0))
    return fig.Figure(
        title="Cosines of gains, norm by norm, and what means alone make of them",
        panels=tuple(panels),
        columns=len(panels),
        note="On the dashed line the cosine says nothing beyond the means. The axes of the panels differ.",
    )


def _curves(result: NormsResult) -> fig.Figure:
    """Draw the losses of all models that were trained from scratch, and of the children."""
    panels = []
    for init in result.options.inits:
        marks: list[fig.Mark] = [
            fig.ReferenceLine(value=loss, label=f"letters by frequency alone, {corpus}", role="expectation")
            for corpus, loss in result.chance_losses
        ]
        for run in result.models:
            if run.init == init:
                name = "from scratch" if run.relation == "base" else run.relation
                x = tuple(run.steps * (i + 0.5) / len(run.losses) for i in range(len(run.losses)))
                marks.append(
                    fig.Lines(name=name, x=x, y=run.losses, style=fig.Style(tone=_TONES[run.relation]))
                )
        across, up = fig.Axis(label="step"), fig.Axis(label="loss")
        panels.append(fig.Panel(title=init, marks=tuple(marks), x=across, y=up, height=2.6))
    return fig.Figure(
        title="Training",
        panels=tuple(panels),
        columns=len(panels),
        note=f"{result.cpu_minutes:.1f} CPU minutes for {len(result.models)} models. Loss in nats a letter.",
    )
