"""A matrix of measures: every number beside what chance makes of it. Nothing is computed but means."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import MEASURES, MeasureTable, chosen_measures
from modelkin.document.blocks import (
    Block,
    Bullets,
    Code,
    Heading,
    Literally,
    Marked,
    Paragraph,
    Section,
    Strong,
    Table,
    Text,
    table,
)
from modelkin.document.numbers import runs_text, size_text
from modelkin.untrusted import visible

from .comparison import Detail

_MOST_LINES = 64
"""Pairs of layers that are listed one by one; of more, only the mean and the range are shown."""
_COLUMNS_AT_ONCE = 5
_MOST_REASONS = 20
_FOLLOWS = (
    "What follows: where a number is what reordering gives (in brackets), the two tensors agree, place by "
    "place, no better than their values in any other order would. Where r or the rank correlation is far "
    "from it, they do."
)
_FOLLOWS_NOT = (
    "What does not follow: no number here is a verdict. A cosine near rho x rho shows a common mean, not a "
    "common origin; layers of one model are correlated with each other; r near 0 is also what a copy with "
    "reordered or rotated units shows. For an answer with an error rate: modelkin compare CANDIDATE BASE."
)
_BRACKETS = (
    "In brackets: mean over all reorderings of one tensor's values, ± standard deviation where it is exact."
)


def matrix_view(result: MatrixResult, *, detail: Detail = "whole") -> tuple[Block, ...]:
    """Return a matrix as blocks; unless it is `whole`, without what is looked up in its files."""
    return tuple(_whole(result) if detail == "whole" else _brief(result, verbose=detail == "verbose"))


def _whole(result: MatrixResult) -> Iterator[Block]:
    yield Heading("Measures over layers", 1)
    yield Paragraph(Marked(_FOLLOWS))
    yield Paragraph(Marked(_FOLLOWS_NOT))
    yield Section(title="Models", blocks=(_models(result),))
    measures = [
        (Literally(measure.name), Marked(str(measure.meaning)), Marked(str(measure.cannot_say)))
        for measure in chosen_measures(result.options.measures)
    ]
    titles = ("measure", "what it is", "what it cannot say")
    yield Section(title="Measures", blocks=(table(titles, measures),))
    note = Paragraph(Marked(f"{_BRACKETS} All of them, unrounded, are in `matrix.csv`."))
    yield Section(title="Numbers", blocks=(note, *_parts(result, strong=False)))
    if result.baselines:
        notes = sorted({f"{item.baseline}: {item.note}" for item in result.baselines if str(item.note)})
        baselines = _baselines(result, every=False)
        yield Section(title="Baselines", blocks=(baselines, Bullets(tuple(notes))))
    yield Section(title="Tensors", blocks=(_tensors(result),))
    reasons = (*_missing(result), *map(str, result.notes))
    if reasons:
        yield Section(title="Not measured, and remarks", blocks=(Bullets(reasons),))
    read = result.read
    made = (
        f"modelkin {result.modelkin}; {size_text(read.bytes_fetched)} read in {read.requests} requests. "
        "The same seed reads the same bytes and gives the same numbers."
    )
    yield Section(title="How to repeat it", blocks=(Code(_command(result)), Paragraph(made)))


def _brief(result: MatrixResult, *, verbose: bool) -> Iterator[Block]:
    yield _models(result)
    yield from _parts(result, strong=True)
    yield Paragraph(_BRACKETS, "note")
    if result.baselines:
        yield Section(title="Baselines", blocks=(_baselines(result, every=verbose),))
    reasons = [*_missing(result), *map(str, result.notes)]
    if reasons:
        shown = reasons if verbose else reasons[:_MOST_REASONS]
        more = [f"and {len(reasons) - len(shown)} more (-v)"] if len(shown) < len(reasons) else []
        yield Section(title="Not measured, and remarks", blocks=(Bullets((*shown, *more)),))
    yield Paragraph(f"{_FOLLOWS}\n{_FOLLOWS_NOT}", lines=True)
    read = result.read
    yield Paragraph(
        f"read {size_text(read.bytes_fetched)} in {read.requests} requests; "
        f"seed {result.options.seed}, modelkin {result.modelkin}",
        "note",
    )


def _models(result: MatrixResult) -> Table:
    rows = [
        (
            model.name,
            model.ref,
            model.revision or "-",
            model.family or "unknown",
            (runs_text(model.layers) or "-")
            + (f", MTP {runs_text(model.mtp_layers)}" if model.mtp_layers else ""),
            "-" if model.hidden_size is None else f"{model.hidden_size:,}",
        )
        for model in result.models
    ]
    return table(("name", "model", "commit", "family", "layers", "width"), rows)


# -- numbers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The rows of one role, view and pair of models."""

    role: str
    view: str
    model_a: str
    model_b: str
    rows: MeasureTable

    @property
    def title(self) -> str:
        where = self.model_a if self.model_a == self.model_b else f"{self.model_a} x {self.model_b}"
        return f"{self.role}{'' if self.view == 'whole' else f', {self.view}'}: {where}"

    @property
    def note(self) -> str:
        """How many values, of which part."""
        measured = self.rows.where(reason=None)
        sizes = sorted({int(n) for n in measured.column("n")}) if len(measured) else []
        counts = " or ".join(f"{n:,}" for n in sizes)
        notes = [text for note in measured.distinct("note") if (text := str(note))] if len(measured) else []
        return "; ".join([f"{counts} values each" if counts else "nothing measured", *notes])


def _parts(result: MatrixResult, *, strong: bool) -> Iterator[Section]:
    """Yield the table in parts that a person can read, as many measures at once as fit side by side."""
    names = [measure.name for measure in chosen_measures(result.options.measures)]
    groups = [tuple(names[at : at + _COLUMNS_AT_ONCE]) for at in range(0, len(names), _COLUMNS_AT_ONCE)]
    keys = ("role", "view", "model_a", "model_b")
    columns = [result.table.column(name).tolist() for name in keys]
    for role, view, model_a, model_b in dict.fromkeys(zip(*columns, strict=True)):
        rows = result.table.where(role=role, view=view, model_a=model_a, model_b=model_b)
        part = _Part(role=role, view=view, model_a=model_a, model_b=model_b, rows=rows)
        tables = [_numbers(part, group, strong=strong) for group in groups]
        yield Section(title=part.title, blocks=(Paragraph(part.note, "note"), *tables))


def _numbers(part: _Part, measures: tuple[str, ...], *, strong: bool) -> Table:
    rows: list[tuple[Text, ...]] = []
    for name, *cells in _lines(part, measures):
        mean = strong and name.startswith("mean")
        rows.append(tuple(Strong(cell) if mean else cell for cell in (name, *cells)))
    titles = ("layer", *(MEASURES[name].title for name in measures))
    return table(titles, rows, numeric=range(1, len(titles)))


def _lines(part: _Part, measures: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a name of layers and a cell for each measure; then the mean."""
    of = {name: part.rows.where(measure=name) for name in measures}
    first = of[measures[0]]
    layers = list(zip(first.column("layer_a").tolist(), first.column("layer_b").tolist(), strict=True))
    if len(layers) <= _MOST_LINES:
        cells = [_cells(of[name]) for name in measures]
        for at, pair in enumerate(layers):
            yield _layers_text(*pair), *(column[at] for column in cells)
    if len(layers) > 1:
        counts = sorted({int(of[name].values.count()) for name in measures} - {0}) or [0]
        of_how_many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        yield f"mean of {of_how_many}", *(_mean_cell(of[name]) for name in measures)
    if len(layers) > _MOST_LINES:
        yield "from, to", *(_range_cell(of[name]) for name in measures)


def _layers_text(mine: int, theirs: int) -> str:
    """Write a pair of layers; outside the layers there is nothing to write."""
    if mine < 0 and theirs < 0:
        return "-"
    return str(mine) if mine == theirs else f"{mine} : {theirs}"


def _cells(rows: MeasureTable) -> list[str]:
    columns = [rows.values, rows.expected, np.ma.masked_invalid(rows.column("expected_sd"))]
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


def _mean_cell(rows: MeasureTable) -> str:
    values = rows.values
    if not values.count():
        return "not measured"
    expected = np.ma.masked_where(np.ma.getmaskarray(values), rows.expected)
    null = float(expected.mean()) if expected.count() == values.count() else None
    # No reordering changes rho x rho: its expectation is itself.
    same = rows.column("measure")[0] == "mean-direction"
    return _cell(float(values.mean()), None if same else null, None)


def _range_cell(rows: MeasureTable) -> str:
    values = rows.values
    return (
        f"{number_text(float(values.min()))}, {number_text(float(values.max()))}" if values.count() else "-"
    )


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


# -- baselines, tensors, what is missing ---------------------------------------------------------------


def _baselines(result: MatrixResult, *, every: bool) -> Table:
    """Show the baselines that were made; less if not `every`.

    Left out then are single offsets of layers, and rho x rho, which no reordering changes.
    """
    rows = []
    for item in result.baselines:
        detail = item.measure == "mean-direction" or item.scope.code == "scope.offset"
        if item.null is None or (detail and not every):
            continue
        rows.append(
            (
                item.baseline,
                item.role,
                MEASURES[item.measure].title,
                str(item.scope),
                "-" if item.observed is None else number_text(item.observed),
                number_text(item.null.mean),
                f"{number_text(item.null.q05)} to {number_text(item.null.q95)}",
                f"{item.null.n:,}",
            )
        )
    titles = ("baseline", "role", "measure", "of", "observed", "mean", "5 % to 95 %", "n")
    return table(titles, rows, numeric=(4, 5, 7))


def _tensors(result: MatrixResult) -> Table:
    rows = []
    for item in result.tensors:
        numbers = (item.mean, item.std, item.minimum, item.maximum, item.norm, item.rho)
        rows.append(
            (
                item.model,
                item.role,
                "-" if item.layer is None else str(item.layer),
                f"{item.n:,}",
                *("-" if value is None else number_text(value) for value in numbers),
            )
        )
    titles = ("model", "role", "layer", "n", "mean", "std", "min", "max", "norm", "rho")
    return table(titles, rows, numeric=range(2, 10))


def _missing(result: MatrixResult) -> Iterator[str]:
    """Yield every reason why something was not measured, with how often and where."""
    columns = [result.table.column(name).tolist() for name in ("reason", "role", "layer_a", "layer_b")]
    layers: dict[tuple[str, str], list[int]] = {}
    for reason, role, *both in zip(*columns, strict=True):
        if reason is not None:
            layers.setdefault((role, str(reason)), []).extend(both)
    for (role, reason), found in layers.items():
        inside = sorted({layer for layer in found if layer >= 0})
        where = f", layers {runs_text(inside)}" if inside else ""
        yield f"{role}{where}: {reason} (numbers: {len(found) // 2})"
    absent: dict[tuple[str, str], list[str]] = {}
    for item in result.baselines:
        if item.null is None:
            absent.setdefault((item.baseline, str(item.reason or "")), []).append(item.role)
    for (name, why), roles in absent.items():
        yield f"baseline {name} of {', '.join(dict.fromkeys(roles))}: {why} (numbers: {len(roles)})"


# -- how to repeat it ----------------------------------------------------------------------------------


def _command(result: MatrixResult) -> str:
    options = result.options
    names = (model.ref if model.name == model.ref else f"{model.name}={model.ref}" for model in result.models)
    words = ["modelkin", "matrix", *names]
    pieces = {
        "--metric": options.measures,
        "--role": options.roles,
        "--layers": (
            *([options.layers] if options.layers else ()),
            *(f"{n}={t}" for n, t in options.layers_of.items()),
        ),
        "--pairs": options.pairs,
        "--baseline": options.baselines,
        "--group": tuple(f"{name}={','.join(members)}" for name, members in options.groups.items()),
        "--known": tuple(f"{item.relation}={item.model_a},{item.model_b}" for item in options.known),
    }
    for name, values in pieces.items():
        for value in values:
            words += [name, value]
    words += [*(["--truncation"] if options.truncation else []), *(["--mtp"] if options.mtp else [])]
    words += ["--windows", str(options.windows)] if options.windows else []
    words += ["--sample", str(options.sample), "--draws", str(options.draws), "--tokens", str(options.tokens)]
    words += ["--seed", str(options.seed)]
    return visible(shlex.join(words))
