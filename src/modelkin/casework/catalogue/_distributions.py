"""How values are distributed: similarities, rows of embeddings, gains by layer, ids of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, phrase, say

from ._parts import BLUE, UNTRAINED, bars, expected_line, level, shares, told

_MOST = 20_000
"""More points than this are thinned for drawing; the note says so."""


def distribution_by_type(
    values: Mapping[str, Mapping[str, fig.Series]],
    *,
    measure: str,
    chance: Mapping[str, fig.Chance],
    reasons: Mapping[str, Message] | None = None,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Draw a histogram per kind of tensor, one colour per pair; an empty kind says why it is empty.

    `values` are by kind of tensor and pair of models, over the layers; the chance of a kind is one value.
    """
    chosen = fig.complete(styles, [pair for pairs in values.values() for pair in pairs])
    panels = []
    for kind, pairs in values.items():
        found = {pair: sample for pair, sample in pairs.items() if fig.known(fig.numbers(sample))}
        if not found:
            reason = (reasons or {}).get(kind, say("catalogue.no-one-shape"))
            empty = phrase("catalogue.not-measured", measure=measure, reason=reason)
            panels.append(told(kind, empty, height=2.3))
            continue
        null = chance[kind].mark(())
        if not isinstance(null, fig.ReferenceLine):
            raise UsageError(kind, say("problem.chance-curve"))
        edges = fig.edges_of([*found.values(), [null.value]], bins=30)
        marks = (fig.binned(pair, sample, edges, chosen[pair]) for pair, sample in found.items())
        panels.append(shares(kind, (replace(null, axis="x"), *marks), measure, height=2.3))
    return fig.Figure(title=phrase("catalogue.by-kind", measure=measure), panels=tuple(panels), columns=3)


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


def ridges(
    kinds: Mapping[str, Mapping[str, fig.Matrix]],
    *,
    every: int = 3,
    bins: int = 80,
    limits: tuple[float, float] | None = None,
    initial: float = 1.0,
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
                marks=(level(initial, UNTRAINED, "x"), *marks),
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
