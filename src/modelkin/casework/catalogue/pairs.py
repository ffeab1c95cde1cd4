"""Several pairs of models: measures by layer, their distributions, and layers against layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, phrase, say

from . import parts

_ONE_SCALE = 4.0


def layer_range(pairs: parts.Curves, *, measure: str, highlight: str | None = None) -> fig.Figure:
    """Measures by layer of pairs that are not known relatives: their mean and spread, and each pair."""
    name, layers = parts.measure_name(measure), next(iter(pairs.values())).layers
    centre, low, high = parts.deviations(zip(*(item.values for item in pairs.values()), strict=True))
    marks: list[fig.Mark] = [
        replace(parts.line(pair, layers, item.values, fig.Style(tone="muted")), thin=True)
        for pair, item in pairs.items()
        if pair != highlight
    ]
    mean = phrase("catalogue.mean-of-pairs", pairs=len(pairs))
    marks.append(parts.banded(parts.line(mean, layers, centre, parts.BLUE), low, high))
    if highlight is not None:
        marks.append(parts.line(highlight, layers, pairs[highlight].values, parts.ORANGE))
    known = [fig.known(many) for many in zip(*(item.expected for item in pairs.values()), strict=True)]
    chance = [float(np.mean(many)) if many else None for many in known]
    marks.append(parts.expected_line(phrase("catalogue.expected-pairs"), layers, chance))
    return fig.Figure(
        title=phrase("catalogue.pairs-by-layer", measure=name, pairs=len(pairs)),
        panels=(parts.by_layer("", marks, name, height=3.2),),
        note=phrase("catalogue.thin"),
    )


def input_minus_post(
    means: parts.Curves,
    stds: parts.Curves,
    pearson: parts.Curves,
    *,
    n: int,
    styles: fig.Styles | None = None,
) -> fig.Figure:
    """Input norm minus post-attention norm: statistics of models and correlations of pairs, by layer."""
    start, every = parts.level(0.0, parts.UNTRAINED), fig.complete(styles, [*means, *pearson])
    groups = _of_like_size({pair: _largest(fig.array(item.values)) for pair, item in pearson.items()})
    mean: parts.Marks = (start, *parts.curves(means, styles))
    std: parts.Marks = (start, *parts.curves(stds, styles))
    between = phrase("catalogue.between-models")
    panels = (
        parts.by_layer(phrase("catalogue.of-mean"), mean, phrase("catalogue.mean")),
        parts.by_layer(phrase("catalogue.of-std"), std, phrase("catalogue.standard-deviation")),
        *(
            parts.correlations(between, {pair: pearson[pair] for pair in group}, every, n=n)
            for group in groups
        ),
    )
    return fig.Figure(
        title=phrase("catalogue.input-minus-post"),
        panels=panels,
        columns=3 if len(panels) == 3 else 2,
        note=parts.DEPENDENT
        if len(groups) == 1
        else phrase("catalogue.axes-differ", dependent=parts.DEPENDENT),
    )


def distribution_by_type(
    kinds: Mapping[str, parts.Curves],
    *,
    measure: str,
    reasons: Mapping[str, Message] | None = None,
    label: str = "",
) -> fig.Figure:
    """Measures of pairs over layers, a distribution for each role; an empty one says why it is empty."""
    chosen = fig.complete(None, [pair for pairs in kinds.values() for pair in pairs])
    name, panels = label or parts.measure_name(measure), []
    for kind, pairs in kinds.items():
        found = {pair: item for pair, item in pairs.items() if item.known}
        if not found:
            reason = (reasons or {}).get(kind, say("catalogue.no-one-shape"))
            empty = phrase("catalogue.not-measured", measure=name, reason=reason)
            panels.append(parts.told(kind, empty, height=2.3))
            continue
        null = _one_chance(next(iter(found.values())), measure).mark(())
        if not isinstance(null, fig.ReferenceLine):
            raise UsageError(kind, say("problem.chance-curve"))
        edges = fig.edges_of([*(item.values for item in found.values()), [null.value]], bins=30)
        marks = (fig.binned(pair, item.values, edges, chosen[pair]) for pair, item in found.items())
        panels.append(parts.shares(kind, (replace(null, axis="x"), *marks), name, height=2.3))
    return fig.Figure(title=phrase("catalogue.by-kind", measure=name), panels=tuple(panels), columns=3)


def _one_chance(item: parts.Curve, measure: str) -> fig.Chance:
    if item.chance or parts.is_correlation(measure):
        return item.chance or fig.pearson_chance(item.n)
    expected = item.mean_expected
    value = float("nan") if expected is None else expected
    return fig.Chance(label=phrase("catalogue.expected-first"), value=value)


def pair_matrices(
    matrices: Mapping[str, fig.Matrix],
    *,
    measure: str = parts.PEARSON,
    limits: Mapping[str, float] | None = None,
    signed: bool = True,
) -> fig.Figure:
    """All layers against all layers for several pairs, with the mean on and off the diagonal.

    A pair is written ``A | B``: rows are layers of A. Pairs without `limits` of their own share one scale if
    they are of similar size: on the scale of a pair of relatives all others would look alike. `signed` is
    False for measures whose sign is lost, such as an absolute correlation.
    """
    sizes = {pair: _largest(fig.array(matrix)) for pair, matrix in matrices.items()}
    groups = _of_like_size({pair: size for pair, size in sizes.items() if pair not in (limits or {})})
    reach = {pair: max(sizes[name] for name in group) for group in groups for pair in group}
    panels = []
    for pair, matrix in matrices.items():
        values = fig.array(matrix)
        limit = (limits or {}).get(pair) or reach[pair]
        if signed:
            scale = fig.signed_scale(values.ravel(), label=measure, limit=limit)
        else:
            scale = fig.sequential_scale(
                values.ravel(), label=measure, low=0.0, high=limit or 1.0, chance=0.0
            )
        same, other = _diagonal_means(values)
        first, _, second = pair.partition(" | ")
        title = phrase("catalogue.same-and-others", pair=pair, same=fig.brief(same), others=fig.brief(other))
        if not np.isfinite(values).all():
            known = int(np.isfinite(values).sum())
            title = phrase("catalogue.where-known", told=title, known=known, cells=values.size)
        panels.append(parts.layers_against_layers(title, values, scale, (first or "A", second or "B")))
    return fig.Figure(
        title=phrase("catalogue.all-against-all", measure=measure),
        panels=tuple(panels),
        columns=3 if len(matrices) > 2 else len(matrices),
        note="" if len(groups) == 1 and not limits else phrase("catalogue.scales-differ"),
    )


def _largest(values: npt.NDArray[np.float64]) -> float:
    found = np.abs(values[np.isfinite(values)])
    return float(found.max()) if found.size else 0.0


def _diagonal_means(values: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    on = np.eye(*values.shape) > 0
    sides = [part[np.isfinite(part)] for part in (values[on], values[~on])]
    same, other = (float(part.mean()) if part.size else None for part in sides)
    return same, other


def _of_like_size(sizes: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Group what can share one scale: the largest is at most four times the smallest.

    A pair of relatives correlates by 1 and strangers by 0.02: on one scale the strangers would be blank.
    """
    groups: list[list[str]] = []
    for name in sorted(sizes, key=lambda name: sizes[name]):
        if groups and sizes[name] <= _ONE_SCALE * sizes[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    order = list(sizes)
    return sorted(
        (tuple(sorted(group, key=order.index)) for group in groups), key=lambda group: order.index(group[0])
    )
