"""Figures of the norm experiment, drawn from its records alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from modelkin import figures as fig
from modelkin.message import phrase

from .norms import (
    ALPHA,
    RELATIONS,
    GainInit,
    NormsResult,
    PairRelation,
    PairResult,
    TestResult,
    relation_words,
)

_EXPECTED: Final = fig.Style(tone="ink", dash="dashed", marker="X")
_LOOKS: Final[dict[PairRelation, fig.Style]] = {
    "unrelated, same data": fig.Style(tone="blue", marker="o"),
    "unrelated, other data": fig.Style(tone="cyan", marker="s"),
    "same start": fig.Style(tone="purple", marker="^"),
    "fine-tuned": fig.Style(tone="orange", marker="D"),
}
_TICKS: Final[dict[PairRelation, str]] = {
    "unrelated, same data": "norms.tick-same-data",
    "unrelated, other data": "norms.tick-other-data",
    "same start": "norms.tick-same-start",
    "fine-tuned": "norms.tick-fine-tuned",
}
_TONES: Final[dict[str, fig.Tone]] = {"base": "blue", "same start": "purple", "fine-tuned": "orange"}
_TURNS: Final = {
    "base": "norms.from-scratch",
    "same start": "norms.same-start",
    "fine-tuned": "norms.fine-tuned",
}
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
    half = fig.ReferenceLine(value=-math.log10(0.5), label=phrase("norms.half"), role="expectation")
    needed = fig.ReferenceLine(
        value=-result.needed_log10_p,
        label=phrase("norms.needed"),
        role="threshold",
        style=fig.Style(tone="ink", dash="dotted"),
    )
    zero = fig.ReferenceLine(value=0.0, label=phrase("norms.unrelated-expected"), role="expectation")
    kinds: tuple[tuple[str, str, Value, tuple[fig.Mark, ...]], ...] = (
        (phrase("norms.cosine"), phrase("norms.mean-cosine"), lambda pair: pair.cosine, ()),
        (phrase("norms.pearson"), phrase("norms.mean-pearson"), lambda pair: pair.pearson, (zero,)),
        (phrase("norms.test-gains"), _P, lambda pair: _strength(pair.norm_test), (half, needed)),
        (phrase("norms.test-units"), _P, lambda pair: _strength(pair.unit_test), (half, needed)),
    )
    return fig.Figure(
        title=phrase("norms.pairs-figure"),
        panels=tuple(
            _panel(result, init, phrase("norms.panel", init=init, what=name), label, value, levels)
            for name, label, value, levels in kinds
            for init in result.options.inits
        ),
        columns=len(result.options.inits),
        note=phrase("norms.pairs-note", pairs=len(result.pairs), alpha=ALPHA),
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
            name = phrase("catalogue.expected")
            marks.append(fig.Scatter(name=name, x=x, y=chance, style=_EXPECTED, role="expectation"))
        words, y = relation_words(relation), tuple(map(value, pairs))
        marks.append(fig.Scatter(name=words, x=x, y=y, style=_LOOKS[relation]))
    ticks = tuple((float(place), phrase(_TICKS[relation])) for place, relation in enumerate(relations))
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
            fig.Lines(name=phrase("norms.means-alone"), x=ends, y=ends, style=style, role="expectation")
        ]
        for relation, norms in groups.items():
            x, y = tuple(norm.expected for norm in norms), tuple(norm.cosine for norm in norms)
            marks.append(fig.Scatter(name=relation_words(relation), x=x, y=y, style=_LOOKS[relation]))
        across = fig.Axis(label=phrase("norms.mean-directions"))
        up = fig.Axis(label=phrase("norms.cosine-of-norm"))
        panels.append(fig.Panel(title=init, marks=tuple(marks), x=across, y=up, height=3.0))
    return fig.Figure(
        title=phrase("norms.cosine-figure"),
        panels=tuple(panels),
        columns=len(panels),
        note=phrase("norms.cosine-note"),
    )


def _curves(result: NormsResult) -> fig.Figure:
    """Draw the losses of all models that were trained from scratch, and of the children."""
    panels = []
    for init in result.options.inits:
        marks: list[fig.Mark] = [
            fig.ReferenceLine(value=loss, label=phrase("norms.letters", corpus=corpus), role="expectation")
            for corpus, loss in result.chance_losses
        ]
        for run in result.models:
            if run.init == init:
                name = phrase(_TURNS[run.relation])
                x = tuple(run.steps * (i + 0.5) / len(run.losses) for i in range(len(run.losses)))
                marks.append(
                    fig.Lines(name=name, x=x, y=run.losses, style=fig.Style(tone=_TONES[run.relation]))
                )
        across, up = fig.Axis(label=phrase("norms.step")), fig.Axis(label=phrase("norms.loss"))
        panels.append(fig.Panel(title=init, marks=tuple(marks), x=across, y=up, height=2.6))
    return fig.Figure(
        title=phrase("norms.training-figure"),
        panels=tuple(panels),
        columns=len(panels),
        note=phrase("norms.training-note", minutes=result.cpu_minutes, models=len(result.models)),
    )
