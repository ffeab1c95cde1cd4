"""Words and cells that the screen and the document of a matrix share. Nothing is computed but means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import MEASURES, Table, chosen_measures

from .numbers import runs_text

MOST_LINES = 64
"""Pairs of layers that are listed one by one; of more, only the mean and the range are shown."""
COLUMNS_AT_ONCE = 5

FOLLOWS = (
    "What follows: where a number is what reordering gives (in brackets), the two tensors agree, place by "
    "place, no better than their values in any other order would. Where r or the rank correlation is far "
    "from it, they do."
)
FOLLOWS_NOT = (
    "What does not follow: no number here is a verdict. A cosine near rho x rho shows a common mean, not a "
    "common origin; layers of one model are correlated with each other; r near 0 is also what a copy with "
    "reordered or rotated units shows. For an answer with an error rate: modelkin compare CANDIDATE BASE."
)
BRACKETS = (
    "in brackets: mean over all reorderings of one tensor's values, ± standard deviation where it is exact"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The rows of one role, view and pair of models."""

    role: str
    view: str
    model_a: str
    model_b: str
    table: Table

    @property
    def note(self) -> str:
        """How many values, of which part."""
        measured = self.table.where(reason=None)
        sizes = sorted({int(n) for n in measured.column("n")}) if len(measured) else []
        counts = " or ".join(f"{n:,}" for n in sizes)
        notes = [note for note in measured.distinct("note") if note] if len(measured) else []
        return "; ".join([f"{counts} values each" if counts else "nothing measured", *notes])


def sections(result: MatrixResult) -> Iterator[Section]:
    """Yield the table in parts that a person can read."""
    keys = ("role", "view", "model_a", "model_b")
    columns = [result.table.column(name).tolist() for name in keys]
    for role, view, model_a, model_b in dict.fromkeys(zip(*columns, strict=True)):
        part = result.table.where(role=role, view=view, model_a=model_a, model_b=model_b)
        yield Section(role=role, view=view, model_a=model_a, model_b=model_b, table=part)


def measure_groups(result: MatrixResult) -> list[tuple[str, ...]]:
    """Return names of measures, as many at once as fit beside each other; the cosine keeps its companions."""
    names = [measure.name for measure in chosen_measures(result.options.measures)]
    return [tuple(names[at : at + COLUMNS_AT_ONCE]) for at in range(0, len(names), COLUMNS_AT_ONCE)]


def lines(section: Section, measures: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name of layers and a cell for each measure; then the mean."""
    parts = {name: section.table.where(measure=name) for name in measures}
    first = parts[measures[0]]
    layers = list(zip(first.column("layer_a").tolist(), first.column("layer_b").tolist(), strict=True))
    if len(layers) <= MOST_LINES:
        cells = [_cells(parts[name]) for name in measures]
        for at, pair in enumerate(layers):
            yield layers_text(*pair), *(column[at] for column in cells)
    if len(layers) > 1:
        yield f"mean of {len(layers)}", *(_mean_cell(parts[name]) for name in measures)
    if len(layers) > MOST_LINES:
        yield "from, to", *(_range_cell(parts[name]) for name in measures)


def layers_text(mine: int, theirs: int) -> str:
    """Write a pair of layers; outside the layers there is nothing to write."""
    if mine < 0 and theirs < 0:
        return "-"
    return str(mine) if mine == theirs else f"{mine} : {theirs}"


def number_text(value: float) -> str:
    """Write a number with as many digits as a person compares."""
    if value == 0.0:
        return "0"
    if abs(value) >= 10_000 or abs(value) < 1e-4:
        return f"{value:.2e}"
    if abs(value) > 1.0:
        return f"{value:.5g}"
    # 0.99996 must not be shown as 1, nor 0.00012 as 0.
    digits = next((n for n in (4, 5, 6, 7) if abs(round(value, n)) != 1.0), 4)
    return "1" if abs(value) == 1.0 and value > 0 else f"{value:.{digits}f}"


def baseline_lines(result: MatrixResult, *, every: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the baselines that could be had, as cells; less if not `every`.

    Left out then are single offsets of layers, and rho x rho, which no reordering changes.
    """
    for item in result.baselines:
        detail = item.measure == "mean-direction" or ", offset " in item.scope
        if item.null is None or (detail and not every):
            continue
        yield (
            item.baseline,
            item.role,
            MEASURES[item.measure].title,
            item.scope,
            "-" if item.observed is None else number_text(item.observed),
            number_text(item.null.mean),
            f"{number_text(item.null.q05)} to {number_text(item.null.q95)}",
            f"{item.null.n:,}",
        )


def missing_lines(result: MatrixResult) -> Iterator[str]:
    """Yield every reason why something was not measured, with how often and where."""
    columns = [result.table.column(name).tolist() for name in _MISSING]
    layers: dict[tuple[str, str], list[int]] = {}
    for reason, role, *both in zip(*columns, strict=True):
        if reason is not None:
            layers.setdefault((role, reason), []).extend(both)
    for (role, reason), found in layers.items():
        inside = sorted({layer for layer in found if layer >= 0})
        where = f", layers {runs_text(inside)}" if inside else ""
        yield f"{role}{where}: {reason} (numbers: {len(found) // 2})"
    absent: dict[tuple[str, str], list[str]] = {}
    for item in result.baselines:
        if item.null is None:
            absent.setdefault((item.baseline, item.reason or ""), []).append(item.role)
    for (name, why), roles in absent.items():
        yield f"baseline {name} of {', '.join(dict.fromkeys(roles))}: {why} (numbers: {len(roles)})"


_MISSING = ("reason", "role", "layer_a", "layer_b")


def _cells(part: Table) -> list[str]:
    columns = [part.values, part.expected, np.ma.masked_invalid(part.column("expected_sd"))]
    return [
        _cell(*(None if v is np.ma.masked else float(v) for v in row)) for row in zip(*columns, strict=True)
    ]


def _cell(value: float | None, expected: float | None, sd: float | None) -> str:
    if value is None:
        return "not measured"
    if expected is None or sd == 0.0:
        return number_text(value)
    spread = f" ± {number_text(sd)}" if sd is not None else ""
    return f"{number_text(value)} ({number_text(expected)}{spread})"


def _mean_cell(part: Table) -> str:
    values = part.values
    if not values.count():
        return "not measured"
    expected = np.ma.masked_where(np.ma.getmaskarray(values), part.expected)
    null = float(expected.mean()) if expected.count() == values.count() else None
    # No reordering changes rho x rho: its expectation is itself.
    same = part.column("measure")[0] == "mean-direction"
    return _cell(float(values.mean()), None if same else null, None)


def _range_cell(part: Table) -> str:
    values = part.values
    return (
        f"{number_text(float(values.min()))}, {number_text(float(values.max()))}" if values.count() else "-"
    )
