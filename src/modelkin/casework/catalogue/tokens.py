"""Tokens that two models share: their embedding rows, and their ids."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import phrase, say

from .parts import BLUE, bars, expected_line, shares, told

_MOST = 20_000
"""More points than this are thinned for drawing; the note says so."""


def row_similarity(
    token_ids: fig.Series,
    cosines: fig.Series,
    permuted: fig.Series,
    *,
    names: tuple[str, str],
) -> fig.Figure:
    """Draw similarities of embedding rows of shared tokens, and those of the same rows wrongly paired."""
    edges, measure = fig.edges_of([cosines, permuted]), phrase("catalogue.cosine-of-rows")
    null_mean, null_sd = fig.mean(fig.numbers(permuted)), fig.spread(fig.numbers(permuted))
    if null_mean is None or null_sd is None:
        raise UsageError("row_similarity", say("problem.two-permuted"))
    seen, centre = fig.known(fig.numbers(cosines)), fig.mean(fig.numbers(cosines))
    shared = phrase("catalogue.shared-tokens-count", count=len(seen))
    wrong = phrase("catalogue.permuted-count", count=len(fig.known(fig.numbers(permuted))))
    rows = (fig.binned(shared, cosines, edges, BLUE), fig.binned(wrong, permuted, edges, fig.NULL, "null"))
    tokens = (
        fig.ReferenceLine(
            value=null_mean,
            label=phrase("catalogue.permuted-range"),
            low=null_mean - 2 * null_sd,
            high=null_mean + 2 * null_sd,
        ),
        fig.Scatter(name=shared, x=fig.numbers(token_ids), y=fig.numbers(cosines), style=BLUE),
        fig.ReferenceLine(
            value=centre or 0.0,
            label=phrase("catalogue.shared-mean", mean=fig.brief(centre)),
            role="threshold",
            style=fig.Style(tone="orange"),
        ),
    )
    x, y = fig.Axis(label=phrase("catalogue.token-id", name=names[0])), fig.Axis(label=measure)
    return fig.Figure(
        title=phrase("catalogue.embedding-rows", a=names[0], b=names[1]),
        panels=(
            shares(phrase("catalogue.all-rows"), rows, measure),
            fig.Panel(title=phrase("catalogue.by-token"), marks=tokens, x=x, y=y),
        ),
        columns=2,
        note=phrase("catalogue.rows-note"),
    )


def vocabulary_mapping(
    ids: tuple[fig.Series, fig.Series],
    *,
    names: tuple[str, str],
    own: Mapping[str, int],
    high: Mapping[str, int],
    background: Mapping[str, float] | None = None,
    overlap: float | None = None,
    seed: int = 0,
) -> fig.Figure:
    """Draw token ids of shared tokens against each other, their shifts, and the classes of other tokens.

    `own` counts the tokens only in the first vocabulary by class, `high` those with high ids. `background` is
    the overlap of vocabularies that are known to be unrelated, `overlap` that of these two.
    """
    first, second = fig.array(ids[0]), fig.array(ids[1])
    if first.shape != second.shape:
        raise UsageError("vocabulary_mapping", say("problem.as-many-ids"))
    rng = np.random.default_rng(seed)
    shift, shuffled = second - first, rng.permutation(second) - first
    many = first.size > _MOST
    keep = np.sort(rng.choice(first.size, _MOST, replace=False)) if many else np.arange(first.size)
    top = float(max(first.max(initial=1.0), second.max(initial=1.0)))
    edges = fig.edges_of([shift, shuffled], bins=60)
    points = fig.Scatter(
        name=phrase("catalogue.shared-token"),
        x=fig.numbers(first[keep]),
        y=fig.numbers(second[keep]),
        style=fig.Style(marker="o"),
    )
    shifts = (
        fig.binned(phrase("catalogue.shared-tokens"), shift, edges, fig.Style(tone="blue")),
        fig.binned(phrase("catalogue.random-ids"), shuffled, edges, fig.NULL, "null"),
    )
    moved = phrase("catalogue.moved", a=names[0], b=names[1])
    equal = phrase("catalogue.shift", equal=int((shift == 0).sum()))
    return fig.Figure(
        title=phrase("catalogue.vocabularies", a=names[0], b=names[1]),
        panels=(
            fig.Panel(
                title=phrase("catalogue.ids-of-shared", count=first.size),
                marks=(expected_line(phrase("catalogue.equal-ids"), (0.0, top), (0.0, top)), points),
                x=fig.Axis(label=phrase("catalogue.id-in", name=names[0])),
                y=fig.Axis(label=phrase("catalogue.id-in", name=names[1])),
                note=phrase("catalogue.some-points", shown=keep.size, all=first.size) if many else "",
            ),
            shares(equal, shifts, moved, tokens=True),
            _classes(phrase("catalogue.tokens-alone", name=names[0]), own),
            _classes(phrase("catalogue.high-ids"), high),
        ),
        columns=2,
        note=_overlap_note(background or {}, overlap),
    )


def _classes(title: str, counts: Mapping[str, int]) -> fig.Panel:
    if not counts:
        return told(title, phrase("catalogue.none-counted"))
    ordered = dict(sorted(counts.items(), key=lambda item: -item[1]))
    series = bars(phrase("catalogue.tokens"), [*ordered.values()], "green")
    return fig.Panel(
        title=title,
        marks=(fig.Bars(labels=tuple(ordered), series=(series,), horizontal=True, digits=0),),
        x=fig.Axis(label=phrase("catalogue.tokens")),
        without_null=phrase("catalogue.count-not-test"),
    )


def _overlap_note(background: Mapping[str, float], overlap: float | None) -> str:
    pairs = tuple(say("catalogue.overlap-of", name=name, value=value) for name, value in background.items())
    unrelated = phrase("catalogue.overlaps", pairs=pairs) if pairs else phrase("catalogue.overlaps-unknown")
    if overlap is None:
        return unrelated
    return phrase("sentences", said=(say("catalogue.overlap", overlap=overlap), unrelated))
