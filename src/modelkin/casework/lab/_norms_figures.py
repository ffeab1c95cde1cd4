"""Figures of the norm experiment, drawn from its records alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from modelkin.figures import Axis, Figure, Lines, Panel, ReferenceLine, Scatter, Style

from ._norms import ALPHA, RELATIONS, GainInit, NormsResult, PairRelation, PairResult

_EXPECTED: Final = Style(tone="ink", dash="dashed", marker="X")
_LOOKS: Final[dict[PairRelation, Style]] = {
    "unrelated, same data": Style(tone="blue", marker="o"),
    "unrelated, other data": Style(tone="cyan", marker="s"),
    "same start": Style(tone="purple", marker="^"),
    "fine-tuned": Style(tone="orange", marker="D"),
}
_TICKS: Final[dict[PairRelation, str]] = {
    "unrelated, same data": "unrelated\nsame data",
    "unrelated, other data": "unrelated\nother data",
    "same start": "same\nstart",
    "fine-tuned": "fine-\ntuned",
}
_MEDIAN: Final = -math.log10(0.5)

_P: Final = "\N{MINUS SIGN}log10 p"

Value = Callable[[PairResult], float | None]


def norms_figures(result: NormsResult) -> dict[str, Figure]:
    """Return the figures of an experiment by file name."""
    return {
        "norms_pairs": _pairs(result),
        "norms_cosine": _explained(result),
        "norms_training": _curves(result),
    }


def _pairs(result: NormsResult) -> Figure:
    """Draw every pair: a row of panels for each number, a column for each arm."""
    needed = -result.needed_log10_p
    panels = [
        *(
            _panel(result, init, f"{init}: cosine", "mean cosine of gains", _cosine)
            for init in result.options.inits
        ),
        *(
            _panel(result, init, f"{init}: correlation", "mean Pearson r", _pearson)
            for init in result.options.inits
        ),
        *(
            _panel(result, init, f"{init}: exact test of gains", _P, _norm_p, needed)
            for init in result.options.inits
        ),
        *(
            _panel(result, init, f"{init}: exact test of MLP units", _P, _unit_p, needed)
            for init in result.options.inits
        ),
    ]
    return Figure(
        title="Tiny models with known relations, by how their gains begin",
        panels=tuple(panels),
        columns=len(result.options.inits),
        note=(
            "Every point is a pair of models. Crosses: the product of both mean directions, which is the "
            "mean of the cosine over all shuffles. Dotted: p at which false alarms among all "
            f"{len(result.pairs)} pairs are rarer than {ALPHA:.0%}. The axes of the arms differ."
        ),
    )


def _panel(
    result: NormsResult, init: GainInit, title: str, label: str, value: Value, needed: float | None = None
) -> Panel:
    marks: list[Scatter | ReferenceLine] = []
    if needed is not None:
        marks.append(
            ReferenceLine(
                value=_MEDIAN, label="at most half of unrelated pairs are above", role="expectation"
            )
        )
        marks.append(
            ReferenceLine(
                value=needed, label="needed", role="threshold", style=Style(tone="ink", dash="dotted")
            )
        )
    elif value is _pearson:
        marks.append(ReferenceLine(value=0.0, label="expected of unrelated models", role="expectation"))
    relations = [relation for relation in RELATIONS if any(p.relation == relation for p in result.pairs)]
    for place, relation in enumerate(relations):
        pairs = result.group(init, relation)
        x = tuple(place + 0.3 * ((i * 0.618034) % 1.0 - 0.5) for i in range(len(pairs)))
        if value is _cosine:
            expected = tuple(pair.expected for pair in pairs)
            marks.append(
                Scatter(name="expected if shuffled", x=x, y=expected, style=_EXPECTED, role="expectation")
            )
        marks.append(
            Scatter(name=relation, x=x, y=tuple(value(pair) for pair in pairs), style=_LOOKS[relation])
        )
    ticks = tuple((float(place), _TICKS[relation]) for place, relation in enumerate(relations))
    return Panel(
        title=title,
        marks=tuple(marks),
        x=Axis(ticks=ticks, low=-0.5, high=len(relations) - 0.5),
        y=Axis(label=label),
        height=2.3,
    )


def _cosine(pair: PairResult) -> float | None:
    return pair.cosine


def _pearson(pair: PairResult) -> float | None:
    return pair.pearson


def _norm_p(pair: PairResult) -> float | None:
    return None if pair.norm_test.log10_p is None else -pair.norm_test.log10_p


def _unit_p(pair: PairResult) -> float | None:
    return None if pair.unit_test.log10_p is None else -pair.unit_test.log10_p


def _explained(result: NormsResult) -> Figure:
    """Draw each norm of each pair: its cosine over what the means alone make."""
    panels = []
    for init in result.options.inits:
        ends = [
            f(
                value
                for pair in result.pairs
                if pair.init == init
                for n in pair.norms
                for value in (n.expected, n.cosine)
            )
            for f in (min, max)
        ]
        marks: list[Lines | Scatter] = [
            Lines(
                name="means alone",
                x=tuple(ends),
                y=tuple(ends),
                style=Style(tone="ink", dash="dashed"),
                role="expectation",
            )
        ]
        for relation in RELATIONS:
            norms = [norm for pair in result.group(init, relation) for norm in pair.norms]
            marks.append(
                Scatter(
                    name=relation,
                    x=tuple(norm.expected for norm in norms),
                    y=tuple(norm.cosine for norm in norms),
                    style=_LOOKS[relation],
                )
            )
        panels.append(
            Panel(
                title=init,
                marks=tuple(marks),
                x=Axis(label="product of both mean directions"),
                y=Axis(label="cosine of one norm"),
                height=3.0,
            )
        )
    return Figure(
        title="Cosines of gains, norm by norm, and what means alone make of them",
        panels=tuple(panels),
        columns=len(panels),
        note="On the dashed line the cosine says nothing beyond the means. The axes of the panels differ.",
    )


def _curves(result: NormsResult) -> Figure:
    """Draw the losses of all models that were trained from scratch, and of the children."""
    panels = []
    for init in result.options.inits:
        marks: list[Lines | ReferenceLine] = [
            ReferenceLine(value=loss, label=f"letters by frequency alone, {corpus}", role="expectation")
            for corpus, loss in result.chance_losses
        ]
        looks = {"base": "blue", "same start": "purple", "fine-tuned": "orange"}
        for run in result.models:
            if run.init == init:
                n = len(run.losses)
                marks.append(
                    Lines(
                        name={"base": "from scratch"}.get(run.relation, run.relation),
                        x=tuple(run.steps * (i + 0.5) / n for i in range(n)),
                        y=run.losses,
                        style=Style(tone=looks[run.relation]),  # type: ignore[arg-type]  # a table of tones
                    )
                )
        panels.append(
            Panel(title=init, marks=tuple(marks), x=Axis(label="step"), y=Axis(label="loss"), height=2.6)
        )
    return Figure(
        title="Training",
        panels=tuple(panels),
        columns=len(panels),
        note=f"{result.cpu_minutes:.1f} CPU minutes for {len(result.models)} models. Loss in nats a letter.",
    )
