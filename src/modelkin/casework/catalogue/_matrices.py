"""Matrices: layers against layers, models against models. One honest colour scale, with chance marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, joined, phrase, say

from ._parts import COSINE, PEARSON, RAW, layers_against_layers, of_like_size

_WRITTEN = 10
"""Matrices with more rows than this have no numbers in their cells: they could not be read."""


def cosine_and_pearson(
    cosine: fig.Matrix,
    pearson: fig.Matrix,
    *,
    names: tuple[str, str],
    n: int,
    expected: fig.Matrix | None = None,
    layers: tuple[Sequence[int], Sequence[int]] | None = None,
    limit: float | None = None,
) -> fig.Figure:
    """Draw all layers against all layers: cosine, its expectation, and correlation.

    Chance is that of vectors of `n` values. `limit` is the largest correlation on the colour scale, by
    default the largest there is; values beyond are counted.
    """
    values = fig.array(cosine)
    scale = fig.sequential_scale(values.ravel(), label=COSINE, low=_fence(values))
    panels = [layers_against_layers(phrase("catalogue.of-cosine"), values, scale, names, layers, note=RAW)]
    if expected is not None:
        both = fig.array(expected)
        scale = fig.signed_scale(
            (values - both).ravel(),
            label=phrase("catalogue.minus-expectation", measure=COSINE),
            limit=-_fence(-np.abs(values - both)) or None,
            chance_label=phrase("catalogue.expected-short"),
        )
        excess = phrase("catalogue.cosine-minus-expectation")
        panels.append(layers_against_layers(excess, values - both, scale, names, layers))
    r = fig.array(pearson)
    scale = fig.signed_scale(r.ravel(), label=PEARSON, limit=limit)
    title = phrase("catalogue.correlation")
    panels.append(layers_against_layers(title, r, scale, names, layers, note=beyond_chance(r, n)))
    return fig.Figure(
        title=phrase("catalogue.all-layers", a=names[0], b=names[1]),
        panels=tuple(panels),
        columns=len(panels),
    )


def _fence(values: npt.NDArray[np.float64]) -> float:
    """Return where colours begin.

    The first layers of a model have cosines far below all others, and on a scale that reached down to them
    the others could not be told apart.
    """
    found = values[np.isfinite(values)]
    if not found.size:
        return 0.0
    low, high = np.quantile(found, (0.25, 0.75))
    return float(max(found.min(), low - 1.5 * (high - low)))


def beyond_chance(r: npt.NDArray[np.float64], n: int) -> str:
    """Say how many correlations exceed the range of shuffles, and how many would by chance."""
    reach = fig.WITHIN / math.sqrt(n - 1)
    found = r[np.isfinite(r)]
    beyond = int((np.abs(found) > reach).sum())
    return phrase("catalogue.beyond-chance", reach=reach, values=n, beyond=beyond, cells=found.size)


def pair_matrices(
    matrices: Mapping[str, fig.Matrix],
    *,
    measure: str = PEARSON,
    limits: Mapping[str, float] | None = None,
    signed: bool = True,
) -> fig.Figure:
    """Draw layer matrices of several pairs side by side, with the mean on and off the diagonal.

    A pair is written ``A | B``: rows are layers of A. Pairs without `limits` of their own share one scale if
    they are of similar size: on the scale of a pair of relatives all others would look alike. `signed` is
    False for measures whose sign is lost, such as an absolute correlation.
    """
    sizes = {pair: _largest(fig.array(matrix)) for pair, matrix in matrices.items()}
    groups = of_like_size({pair: size for pair, size in sizes.items() if pair not in (limits or {})})
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
        panels.append(layers_against_layers(title, values, scale, (first or "A", second or "B")))
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


def confusion(
    matrices: Mapping[str, fig.Matrix],
    names: Sequence[str],
    *,
    measure: str,
    where: str,
    signed: bool = True,
    chance: float | None = 0.0,
    expected: Mapping[str, fig.Matrix] | None = None,
    digits: int = 3,
    refused: Mapping[str, Message] | None = None,
) -> fig.Figure:
    """Draw small annotated matrices, one per tensor: models against models, or layers of one model.

    `where` says what is compared, such as ``layer 10`` or ``within GLM``. The scale of a measure that is not
    `signed`, a distance, starts at zero. `chance` is None if it depends on the vectors, as for a raw cosine;
    what is `expected` of each cell is written into it. `refused` are tensors for which the measure makes no
    sense, with the reason.
    """
    if not matrices:
        raise UsageError(where, say("problem.one-matrix"))
    panels, alone = [], False
    for tensor, matrix in matrices.items():
        values = fig.array(matrix).copy()
        trivial = (np.eye(*values.shape) > 0) & np.isclose(values, 1.0 if signed else 0.0, atol=1e-9)
        alone |= bool(trivial.any()) and len(names) > 1
        if len(names) > 1:
            values[trivial] = np.nan
        level = chance if signed and tensor not in (expected or {}) else None
        if level is not None:
            scale = fig.Scale(kind="signed", low=level - 1, high=level + 1, label=measure, chance=level)
        else:
            scale = fig.sequential_scale(values.ravel(), label=measure, low=None if signed else 0.0)
        heat = fig.HeatMap(
            values=fig.grid(values),
            rows=fig.words(names),
            columns=fig.words(names),
            scale=scale,
            digits=digits if len(names) <= _WRITTEN else None,
            expected=fig.grid(expected[tensor])
            if expected and tensor in expected and len(names) <= _WRITTEN
            else (),
        )
        without = RAW if signed else phrase("catalogue.distance")
        panels.append(
            fig.Panel(
                title=tensor,
                marks=(heat,),
                without_null="" if fig.shows_chance(heat) else without,
                height=2.6,
            )
        )
    told = [say("catalogue.with-itself")] if alone else []
    if refused:
        told.append(joined(say("catalogue.left-out", name=name, reason=why) for name, why in refused.items()))
    return fig.Figure(
        title=phrase("catalogue.measure-where", measure=measure, where=where),
        panels=tuple(panels),
        columns=min(4, len(panels)),
        note=phrase("sentences", said=tuple(told)) if told else "",
    )


def model_matrix(
    names: Sequence[str],
    values: fig.Matrix,
    *,
    measure: str,
    title: str,
    expected: fig.Matrix | None = None,
    groups: Sequence[str] | None = None,
    related: Sequence[tuple[str, str]] = (),
    digits: int = 2,
) -> fig.Figure:
    """Draw models against models; with `expected`, also what exceeds it.

    Models of one of the `groups` are adjacent, with lines between groups. Pairs known to be `related` are
    marked, so that nobody takes them for a baseline.
    """
    order = (
        sorted(range(len(names)), key=lambda i: list(groups).index(groups[i]))
        if groups
        else range(len(names))
    )
    kept = list(order)
    shown = [names[i] for i in kept]
    breaks: tuple[int, ...] = ()
    if groups:
        breaks = tuple(j for j in range(1, len(kept)) if groups[kept[j]] != groups[kept[j - 1]])
    place = {name: i for i, name in enumerate(shown)}
    path = tuple(cell for a, b in related for cell in ((place[a], place[b]), (place[b], place[a])))
    data = fig.array(values)[np.ix_(kept, kept)]
    chance = None if expected is None else fig.array(expected)[np.ix_(kept, kept)]
    few = len(names) <= _WRITTEN

    def panel(name: str, heat: fig.HeatMap) -> fig.Panel:
        return fig.Panel(
            title=name, marks=(heat,), without_null="" if fig.shows_chance(heat) else RAW, height=3.4
        )

    whole = fig.HeatMap(
        values=fig.grid(data),
        rows=tuple(shown),
        columns=tuple(shown),
        scale=fig.sequential_scale(data.ravel(), label=measure),
        digits=digits if few else None,
        expected=() if chance is None or not few else fig.grid(chance),
        path=path,
        path_name=phrase("catalogue.known-relatives"),
        separators=breaks,
    )
    panels = [panel(measure, whole)]
    if chance is not None:
        excess = np.where(np.eye(len(kept)) > 0, np.nan, data - chance)
        minus, expectation = (
            phrase("catalogue.minus-expectation", measure=measure),
            phrase("catalogue.expected-short"),
        )
        scale = fig.signed_scale(excess.ravel(), label=minus, chance_label=expectation)
        places = fig.digits_for(fig.numbers(excess.ravel())) if few else None
        rest = replace(whole, values=fig.grid(excess), scale=scale, expected=(), digits=places)
        panels.append(panel(minus, rest))
    kinds = tuple(dict.fromkeys(groups or ()))
    return fig.Figure(
        title=title,
        panels=tuple(panels),
        columns=len(panels),
        note=phrase("catalogue.groups-in-order", groups=kinds) if kinds else "",
    )
