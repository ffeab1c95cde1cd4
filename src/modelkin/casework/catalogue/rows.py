"""Figures of tables with one row per layer: columns of a model, of a kind of vector, or of a pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from modelkin import figures as fig
from modelkin.message import phrase

from . import parts

Columns: TypeAlias = Mapping[str, fig.Series]
"""By name, as tables of studies call them; one is ``layer``."""


def _column(
    tables: Mapping[str, Columns], name: str, styles: fig.Styles | None, *levels: fig.Mark
) -> tuple[fig.Mark, ...]:
    """Draw one column of every table, over some levels."""
    chosen = fig.complete(styles, tables)
    lines = (parts.line(model, rows["layer"], rows[name], chosen[model]) for model, rows in tables.items())
    return (*levels, *lines)


def vector_statistics(
    models: Mapping[str, Columns], *, what: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Mean, standard deviation, least and largest value of vectors by layer, for each model."""
    columns = {"mean": "mean", "std": "std", "min": "minimum", "max": "maximum"}
    starts = {name: parts.level(0.0 if name == "std" else 1.0, parts.UNTRAINED) for name in columns}
    panels = tuple(
        parts.by_layer(
            phrase(f"catalogue.of-{name}"),
            _column(models, column, styles, starts[name]),
            phrase(f"catalogue.{name}"),
        )
        for name, column in columns.items()
    )
    title, note = phrase("catalogue.by-layer", what=what), phrase("catalogue.single-models")
    return fig.Figure(title=title, panels=panels, columns=2, note=note)


def scale_and_pattern(
    models: Mapping[str, Columns], *, what: str, number_format: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Length of gains by layer, how much of it is one scale, and what rounding destroys of the pattern."""
    chosen, key = fig.complete(styles, models), f"loss_{number_format.lower()}"
    widths = sorted({int(rows["n"][0] or 0) for rows in models.values()})
    start = [parts.level(math.sqrt(n), phrase("catalogue.untrained-values", count=n)) for n in widths]
    lost: list[fig.Mark] = []
    for name, rows in models.items():
        apart = fig.Style(tone=chosen[name].tone, dash="dotted")
        stored = phrase("catalogue.distance-stored", name=name)
        lost.append(parts.line(name, rows["layer"], rows[key], chosen[name]))
        lost.append(parts.line(stored, rows["layer"], rows[f"{key}_minus_one"], apart))
    lengths, rho = (
        _column(models, "norm", styles, *start),
        _column(models, "rho", styles, parts.level(1.0, parts.UNTRAINED)),
    )
    panels = (
        parts.by_layer(phrase("catalogue.length-of-gains"), lengths, phrase("catalogue.length")),
        parts.by_layer(phrase("catalogue.common-scale"), rho, "rho"),
        parts.by_layer(
            phrase("catalogue.rounding-share", format=number_format),
            lost,
            fig.Axis(label=phrase("catalogue.rounding-variance"), kind="log"),
            without_null=phrase("catalogue.rounding-no-chance"),
        ),
    )
    title = phrase("catalogue.scale-and-pattern", what=what)
    note = phrase("catalogue.scale-note", single=phrase("catalogue.single-models"))
    return fig.Figure(title=title, panels=panels, columns=3, note=note)


def shuffle_summary(kinds: Mapping[str, Columns], *, names: tuple[str, str], n: int) -> fig.Figure:
    """Cosines before and after reordering, and correlations, by layer, for each kind of vector."""
    panels, means = [], []
    for kind, rows in kinds.items():
        layers, sides = rows["layer"], ("cosine", "cosine_shuffled", "cosine_centered")
        shuffled = phrase("catalogue.after-shuffling")
        null = parts.line(shuffled, layers, rows["cosine_shuffled"], fig.EXPECTATION, "null")
        marks = (
            parts.banded(null, rows.get("shuffled_low", ()), rows.get("shuffled_high", ())),
            fig.pearson_chance(n).mark(()),
            parts.line(parts.COSINE, layers, rows["cosine"], parts.BLUE),
            parts.line(phrase("catalogue.centred"), layers, rows["cosine_centered"], parts.ORANGE),
        )
        panels.append(parts.by_layer(kind, marks, phrase("catalogue.similarity")))
        cosine, moved, centred = (fig.brief(fig.mean(fig.numbers(rows[side])), 4) for side in sides)
        told = {"cosine": cosine, "shuffled": moved, "centred": centred}
        means.append(phrase("catalogue.shuffle-means", name=kind, **told))
    return fig.Figure(
        title=phrase("catalogue.shuffle-summary", a=names[0], b=names[1]),
        panels=tuple(panels),
        columns=2,
        note=phrase("catalogue.shuffle-note", means=tuple(means), dependent=parts.DEPENDENT),
    )


def router_matches(rows: Columns, *, names: tuple[str, str], repeats: int, null_name: str = "") -> fig.Figure:
    """Mean cosines of best-matched router rows by layer, next to what the search finds in unrelated rows."""
    label = null_name or phrase("catalogue.same-search", runs=repeats)
    null = parts.line(label, rows["layer"], rows["null_mean"], fig.NULL, "null")
    chance = parts.banded(null, rows["null_low"], rows["null_high"])
    found = parts.line(phrase("catalogue.observed"), rows["layer"], rows["matched"], parts.BLUE)
    pairs = zip(found.y, chance.high, strict=True)
    above = sum(value is not None and top is not None and value > top for value, top in pairs)
    return fig.Figure(
        title=phrase("catalogue.matched-rows", a=names[0], b=names[1]),
        panels=(parts.by_layer("", (chance, found), phrase("catalogue.matched-cosine")),),
        note=phrase("catalogue.matched-note", above=above, layers=len(found.y)),
    )


def changed_values(rows: Columns, *, names: tuple[str, str], what: str) -> fig.Figure:
    """Shares and sizes of changes by layer, in steps of the number format.

    The mean difference is over all values; where it is 0, nothing is drawn on the log axis. Steps are over
    the values that differ. One step is that at the typical value of the layer: less cannot be stored.
    """
    x, step, mean = rows["layer"], phrase("catalogue.one-step"), phrase("catalogue.mean-difference")
    size = fig.numbers(rows["mean_absolute_difference"])
    zeros = sum(value == 0 for value in size)
    labels = fig.words([int(layer or 0) for layer in fig.numbers(x)])
    share = fig.Bars(
        labels=labels, series=(parts.bars(phrase("catalogue.changed"), rows["percent"]),), slim=True
    )
    difference = (
        parts.expected_line(step, x, rows["one_ulp"], fig.NULL),
        parts.line(mean, x, [value or None for value in size], parts.BLUE),
    )
    steps = (
        parts.expected_line(step, x, (1.0,) * len(x), fig.NULL),
        parts.line(phrase("catalogue.mean-change"), x, rows["mean_ulps"], parts.ORANGE),
    )
    panels = (
        parts.by_layer(
            phrase("catalogue.changed-values"),
            (parts.level(0.0, phrase("catalogue.equal-models")), share),
            phrase("catalogue.percent-of-values"),
        ),
        parts.by_layer(
            phrase("catalogue.of-mean-difference"),
            difference,
            fig.Axis(label=mean, kind="log"),
            note=phrase("catalogue.not-on-axis", layers=zeros) if zeros else "",
        ),
        parts.by_layer(
            phrase("catalogue.change-in-steps"), steps, fig.Axis(label=phrase("catalogue.ulps"), low=0.0)
        ),
    )
    title = phrase("catalogue.what-differs", what=what, a=names[0], b=names[1])
    return fig.Figure(title=title, panels=panels, columns=3, note=phrase("catalogue.large-steps"))
