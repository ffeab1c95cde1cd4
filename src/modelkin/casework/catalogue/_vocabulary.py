"""How two vocabularies number the tokens they share, and what kinds of tokens one has alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import binned, edges_of
from modelkin.figures._marks import Bars, BarSeries, Lines, Scatter, Text
from modelkin.figures._style import EXPECTATION, NULL, Style
from modelkin.figures._values import Series, array, numbers

_MOST = 20_000
"""More points than this are thinned for drawing; the note says so."""


def vocabulary_mapping(
    ids: tuple[Series, Series],
    *,
    names: tuple[str, str],
    own: Mapping[str, int],
    high: Mapping[str, int],
    background: Mapping[str, float] | None = None,
    overlap: float | None = None,
    seed: int = 0,
) -> Figure:
    """Draw token ids of shared tokens against each other, their shifts, and the classes of other tokens.

    Parameters
    ----------
    ids
        Ids of the shared tokens in both vocabularies, in one order.
    own, high
        Tokens by class: those of the first vocabulary alone, and those with high ids.
    background
        Overlap of vocabularies that are known to be unrelated, by pair.
    overlap
        Overlap of these two.
    """
    first, second = array(ids[0]), array(ids[1])
    if first.shape != second.shape:
        raise UsageError("vocabulary_mapping", "expected as many ids of one model as of the other")
    rng = np.random.default_rng(seed)
    shift = second - first
    shuffled = rng.permutation(second) - first
    keep = (
        np.sort(rng.choice(first.size, _MOST, replace=False)) if first.size > _MOST else np.arange(first.size)
    )
    top = float(max(first.max(initial=1.0), second.max(initial=1.0)))
    edges = edges_of([shift, shuffled], bins=60)
    same = int((shift == 0).sum())
    panels = (
        Panel(
            title=f"Ids of {first.size} shared tokens",
            marks=(
                Lines(name="equal ids", x=(0.0, top), y=(0.0, top), style=EXPECTATION, role="expectation"),
                Scatter(
                    name="shared token",
                    x=numbers(first[keep]),
                    y=numbers(second[keep]),
                    style=Style(marker="o"),
                ),
            ),
            x=Axis(label=f"id in {names[0]}"),
            y=Axis(label=f"id in {names[1]}"),
            note="" if keep.size == first.size else f"{keep.size} of {first.size} points, drawn at random",
        ),
        Panel(
            title=f"Shift of ids ({same} equal)",
            marks=(
                binned("shared tokens", shift, edges, Style(tone="blue")),
                binned("ids paired at random", shuffled, edges, NULL, "null"),
            ),
            x=Axis(label=f"id in {names[1]} minus id in {names[0]}"),
            y=Axis(label="share of tokens"),
        ),
        _classes(f"Tokens of {names[0]} alone", own),
        _classes("Tokens with high ids", high),
    )
    return Figure(
        title=f"Vocabularies of {names[0]} and {names[1]}",
        panels=panels,
        columns=2,
        note=_overlap_note(background or {}, overlap),
    )


def _classes(title: str, counts: Mapping[str, int]) -> Panel:
    if not counts:
        return Panel(title=title, marks=(Text(text="There are none, or they were not counted."),))
    ordered = dict(sorted(counts.items(), key=lambda item: -item[1]))
    series = BarSeries(name="tokens", values=numbers(ordered.values()), style=Style(tone="green"))
    return Panel(
        title=title,
        marks=(Bars(labels=tuple(ordered), series=(series,), horizontal=True, digits=0),),
        x=Axis(label="tokens"),
        without_null="a count of tokens, not a test",
    )


def _overlap_note(background: Mapping[str, float], overlap: float | None) -> str:
    here = "" if overlap is None else f"Overlap of these two {overlap:.2f}. "
    if not background:
        return f"{here}Overlap of unrelated vocabularies: not measured, so the overlap cannot be judged."
    told = ", ".join(f"{pair} {value:.2f}" for pair, value in background.items())
    return f"{here}Overlap of unrelated vocabularies: {told}."
