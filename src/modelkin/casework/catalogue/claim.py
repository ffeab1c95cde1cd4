"""An argument from cosines, and the same cosines next to what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

from . import parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One bar of an argument: a cosine, what shuffling would give, and what it served as."""

    label: str
    cosine: float
    expected: float
    served: Literal["baseline", "evidence", "beside"]
    """``beside``: not part of the argument, such as a fairer baseline or a control."""
    pearson: float | None = None


_SIDE_BY_SIDE = 4
"""More bars than this have no room for their labels in a third of the width."""
_ROOM = 1.6
"""Height of a panel in its tallest bar. Where bars are narrow, their numbers stand upright and take a fifth
of it, and the words in the corner an eighth."""
_SERVED: Mapping[str, fig.Tone] = {"baseline": "muted", "evidence": "rose", "beside": "green"}


def claimed_evidence(
    claims: Sequence[Claim], *, difference: float, expected_difference: float, sigmas: float | None = None
) -> fig.Figure:
    """Draw a claim that rests on cosines, and its refutation: the same bars with their expectation.

    `difference` is evidence minus baseline as the claim computes it, which need not be over all bars;
    `sigmas` is what the claim derives from it, shown as a claim.
    """
    if not {"baseline", "evidence"} <= {item.served for item in claims}:
        raise UsageError("claimed_evidence", say("problem.one-baseline"))

    def called(served: str, tone: fig.Tone) -> fig.BarSeries:
        values = tuple(item.cosine if item.served == served else None for item in claims)
        return fig.BarSeries(
            name=phrase(f"catalogue.called-{served}"), values=values, style=fig.Style(tone=tone), missing=""
        )

    labels = tuple(item.label for item in claims)
    claimed = (
        phrase("catalogue.difference-sigmas", difference=difference, sigmas=sigmas)
        if sigmas
        else phrase("catalogue.difference", difference=difference)
    )
    whole = fig.Axis(label=parts.COSINE, low=0.0, high=_ROOM)
    as_claimed = tuple(
        called(served, tone)
        for served, tone in _SERVED.items()
        if any(item.served == served for item in claims)
    )
    beside = (
        parts.bars(parts.COSINE, [item.cosine for item in claims]),
        parts.expected_bars(parts.EXPECTED, [item.expected for item in claims]),
    )
    left = [
        parts.bars(
            phrase("catalogue.minus-expectation", measure=parts.COSINE),
            [item.cosine - item.expected for item in claims],
        )
    ]
    if any(item.pearson is not None for item in claims):
        left.append(
            parts.bars(phrase("catalogue.correlation-pearson"), [item.pearson for item in claims], "orange")
        )
    reach = _ROOM * max(
        [0.05, *(abs(value) for series in left for value in series.values if value is not None)]
    )
    panels = (
        fig.Panel(
            title=phrase("catalogue.the-claim"),
            marks=(
                fig.Bars(labels=labels, digits=3, overlaid=True, series=as_claimed),
                fig.TextMark(text=claimed),
            ),
            y=whole,
            without_null=phrase("catalogue.claim-null"),
        ),
        fig.Panel(
            title=phrase("catalogue.same-cosines"),
            marks=(
                fig.Bars(labels=labels, digits=3, series=beside),
                fig.TextMark(text=phrase("catalogue.expected-difference", difference=expected_difference)),
            ),
            y=whole,
        ),
        fig.Panel(
            title=phrase("catalogue.left-to-explain"),
            marks=(
                parts.level(0.0, parts.IN_COMMON),
                fig.Bars(labels=labels, series=tuple(left), digits=3),
            ),
            y=fig.Axis(label=phrase("catalogue.excess"), low=-reach, high=reach),
        ),
    )
    return fig.Figure(
        title=phrase("catalogue.claimed-evidence"),
        panels=panels,
        columns=3 if len(claims) <= _SIDE_BY_SIDE else 1,
        note=phrase("catalogue.claimed-note"),
    )
