"""A matrix of measures: every number next to what chance gives. Nothing but means is computed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
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
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import runs_text, size_text
from modelkin.untrusted import visible

from .comparison import Detail
from .samples import ranged

_MOST_LINES = 64
"""Most pairs of layers listed one by one; for more, only the mean and the range are shown."""
_COLUMNS_AT_ONCE = 5
_MOST_REASONS = 20


def matrix_view(
    result: MatrixResult, language: Language = ENGLISH, *, detail: Detail = "whole"
) -> tuple[Block, ...]:
    """Return a matrix as blocks; unless it is `whole`, without what is looked up in its files."""
    if detail == "whole":
        return tuple(_whole(result, language))
    return tuple(_brief(result, language, verbose=detail == "verbose"))


def _whole(result: MatrixResult, language: Language) -> Iterator[Block]:
    say, tell = language.of("matrix"), language.tell
    yield Heading(say("title"), 1)
    yield Paragraph(Marked(say("follows")))
    yield Paragraph(Marked(say("follows_not")))
    yield Section(title=say("models"), blocks=(_models(result, say),), key="models")
    measures = [
        (Literally(measure.name), Marked(tell(measure.meaning)), Marked(tell(measure.cannot_say)))
        for measure in chosen_measures(result.options.measures)
    ]
    titles = [say(key) for key in ("measure", "what_it_is", "cannot_say")]
    yield Section(title=say("measures"), blocks=(table(titles, measures),), key="measures")
    note = Paragraph(Marked(f"{say('brackets')} {say('unrounded')}"))
    numbers: tuple[Block, ...] = (note, *_parts(result, language, strong=False))
    yield Section(title=say("numbers"), blocks=numbers, key="numbers")
    if result.baselines:
        told = ((language.word("baseline-name", item.baseline), tell(item.note)) for item in result.baselines)
        notes = sorted({f"{name}: {text}" for name, text in told if text})
        baselines = (_baselines(result, language, every=False), Bullets(tuple(notes)))
        yield Section(title=say("baselines"), blocks=baselines, key="baselines")
    yield Section(title=say("tensors"), blocks=(_tensors(result, say),), key="tensors")
    reasons = (*_missing(result, language), *map(tell, result.notes))
    if reasons:
        yield Section(title=say("not_measured"), blocks=(Bullets(reasons),), key="not-measured")
    read = result.read
    made = say(
        "made",
        version=result.modelkin,
        size=size_text(read.bytes_fetched),
        requests=str(read.requests),
    )
    yield Section(title=say("repeat"), blocks=(Code(_command(result)), Paragraph(made)), key="repeat")


def _brief(result: MatrixResult, language: Language, *, verbose: bool) -> Iterator[Block]:
    say = language.of("matrix")
    yield _models(result, say)
    yield from _parts(result, language, strong=True)
    yield Paragraph(say("brackets"), "note")
    if result.baselines:
        yield Section(title=say("baselines"), blocks=(_baselines(result, language, every=verbose),))
    reasons = [*_missing(result, language), *map(language.tell, result.notes)]
    if reasons:
        shown = reasons if verbose else reasons[:_MOST_REASONS]
        left = len(reasons) - len(shown)
        more = [say("and_more", n=str(left))] if left else []
        yield Section(title=say("not_measured"), blocks=(Bullets((*shown, *more)),))
    yield Paragraph(f"{say('follows')}\n{say('follows_not')}", lines=True)
    read = result.read
    end = say(
        "read",
        size=size_text(read.bytes_fetched),
        requests=str(read.requests),
        seed=str(result.options.seed),
        version=result.modelkin,
    )
    yield Paragraph(end, "note")


def _models(result: MatrixResult, say: Callable[..., str]) -> Table:
    rows = [
        (
            model.name,
            model.ref,
            model.revision or "-",
            model.family or say("unknown"),
            (runs_text(model.layers) or "-")
            + (f", MTP {runs_text(model.mtp_layers)}" if model.mtp_layers else ""),
            "-" if model.hidden_size is None else f"{model.hidden_size:,}",
        )
        for model in result.models
    ]
    return table([say(key) for key in ("name", "model", "commit", "family", "layers", "width")], rows)


# -- numbers -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoleTable:
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

    def note(self, language: Language) -> str:
        """Say how many values there are, and of which part."""
        say = language.of("matrix")
        measured = self.rows.where(reason=None)
        if not len(measured):
            return say("nothing_measured")
        counts = measured.column("n")
        low, high = f"{counts.min():,}", f"{counts.max():,}"
        each = low if low == high else say("reach", low=low, high=high)
        told = (language.tell(note) for note in ranged(measured.distinct("note")))
        return "; ".join([say("values_each", n=each), *(text for text in told if text)])


def _parts(result: MatrixResult, language: Language, *, strong: bool) -> Iterator[Section]:
    """Yield the table in parts that a person can read, as many measures at once as fit side by side."""
    names = [measure.name for measure in chosen_measures(result.options.measures)]
    groups = [tuple(names[at : at + _COLUMNS_AT_ONCE]) for at in range(0, len(names), _COLUMNS_AT_ONCE)]
    keys = ("role", "view", "model_a", "model_b")
    columns = [result.table.column(name).tolist() for name in keys]
    for role, view, model_a, model_b in dict.fromkeys(zip(*columns, strict=True)):
        rows = result.table.where(role=role, view=view, model_a=model_a, model_b=model_b)
        part = _RoleTable(role=role, view=view, model_a=model_a, model_b=model_b, rows=rows)
        tables = [_numbers(part, group, language, strong=strong) for group in groups]
        yield Section(title=part.title, blocks=(Paragraph(part.note(language), "note"), *tables))


def _numbers(part: _RoleTable, measures: tuple[str, ...], language: Language, *, strong: bool) -> Table:
    say = language.of("matrix")
    rows: list[tuple[Text, ...]] = []
    for is_mean, cells in _lines(part, measures, say):
        rows.append(tuple(Strong(cell) if strong and is_mean else cell for cell in cells))
    titles = (say("layer"), *(language.wording(MEASURES[name].title) for name in measures))
    return table(titles, rows, numeric=range(1, len(titles)))


def _lines(
    part: _RoleTable, measures: tuple[str, ...], say: Callable[..., str]
) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield whether it is the mean, a name of layers, and one cell per measure; the mean comes last."""
    of = {name: part.rows.where(measure=name) for name in measures}
    first = of[measures[0]]
    layers = list(zip(first.column("layer_a").tolist(), first.column("layer_b").tolist(), strict=True))
    if len(layers) <= _MOST_LINES:
        cells = [_cells(of[name], say) for name in measures]
        for at, pair in enumerate(layers):
            yield False, (_layers_text(*pair), *(column[at] for column in cells))
    if len(layers) > 1:
        counts = sorted({int(of[name].values.count()) for name in measures} - {0}) or [0]
        first_n, last_n = str(counts[0]), str(counts[-1])
        many = first_n if len(counts) == 1 else say("reach", low=first_n, high=last_n)
        yield True, (say("mean_of", n=many), *(_mean_cell(of[name], say) for name in measures))
    if len(layers) > _MOST_LINES:
        yield False, (say("from_to"), *(_range_cell(of[name]) for name in measures))


def _layers_text(mine: int, theirs: int) -> str:
    """Write a pair of layers; empty outside the layers."""
    if mine < 0 and theirs < 0:
        return "-"
    return str(mine) if mine == theirs else f"{mine} : {theirs}"


def _cells(rows: MeasureTable, say: Callable[..., str]) -> list[str]:
    columns = [rows.values, rows.expected, np.ma.masked_invalid(rows.column("expected_sd"))]
    return [
        _cell(*(None if v is np.ma.masked else float(v) for v in row), say=say)
        for row in zip(*columns, strict=True)
    ]


def _cell(value: float | None, expected: float | None, sd: float | None, *, say: Callable[..., str]) -> str:
    if value is None:
        return say("unmeasured")
    if expected is None or sd == 0.0:
        return number_text(value)
    spread = f" ± {number_text(sd)}" if sd is not None else ""
    return f"{number_text(value)} ({number_text(expected)}{spread})"


def _mean_cell(rows: MeasureTable, say: Callable[..., str]) -> str:
    values = rows.values
    if not values.count():
        return say("unmeasured")
    expected = np.ma.masked_where(np.ma.getmaskarray(values), rows.expected)
    null = float(expected.mean()) if expected.count() == values.count() else None
    # No reordering changes rho x rho: its expectation is itself.
    same = rows.column("measure")[0] == "mean-direction"
    return _cell(float(values.mean()), None if same else null, None, say=say)


def _range_cell(rows: MeasureTable) -> str:
    values = rows.values
    return (
        f"{number_text(float(values.min()))}, {number_text(float(values.max()))}" if values.count() else "-"
    )


def number_text(value: float) -> str:
    """Write a number with as many digits as a person compares."""
    if value == 0.0:
        return "0"
    if abs(value) >= 10_000 or abs(value) < 1e-4:  # beyond five characters powers of ten are shorter
        return f"{value:.2e}"
    if abs(value) > 1.0:
        return f"{value:.5g}"
    # 0.99996 must not be shown as 1, nor 0.00012 as 0.
    digits = next((n for n in (4, 5, 6, 7) if abs(round(value, n)) != 1.0), 4)
    return "1" if abs(value) == 1.0 and value > 0 else f"{value:.{digits}f}"


# -- baselines, tensors, what is missing ---------------------------------------------------------------


def _baselines(result: MatrixResult, language: Language, *, every: bool) -> Table:
    """Show the baselines; fewer if not `every`.

    Then single offsets of layers and rho x rho, which no reordering changes, are left out.
    """
    say = language.of("matrix")
    rows = []
    for item in result.baselines:
        detail = item.measure == "mean-direction" or item.scope.code == "scope.offset"
        if item.null is None or (detail and not every):
            continue
        rows.append(
            (
                language.word("baseline-name", item.baseline),
                item.role,
                language.wording(MEASURES[item.measure].title),
                language.tell(item.scope),
                "-" if item.observed is None else number_text(item.observed),
                number_text(item.null.mean),
                say("reach", low=number_text(item.null.q05), high=number_text(item.null.q95)),
                f"{item.null.n:,}",
            )
        )
    keys = ("baseline", "role", "measure", "of", "observed", "mean", "quantiles", "n")
    return table([say(key) for key in keys], rows, numeric=(4, 5, 7))


def _tensors(result: MatrixResult, say: Callable[..., str]) -> Table:
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
    keys = ("model", "role", "layer", "n", "mean", "std", "min", "max", "norm", "rho")
    return table([say(key) for key in keys], rows, numeric=range(2, 10))


def _missing(result: MatrixResult, language: Language) -> Iterator[str]:
    """Yield every reason why something was not measured, with how often and where."""
    say = language.of("matrix")
    columns = [result.table.column(name).tolist() for name in ("reason", "role", "layer_a", "layer_b")]
    layers: dict[tuple[str, str], list[int]] = {}
    for reason, role, *both in zip(*columns, strict=True):
        if reason is not None:
            layers.setdefault((role, language.tell(reason)), []).extend(both)
    for (role, reason), found in layers.items():
        inside = sorted({layer for layer in found if layer >= 0})
        where = ", " + say("in_layers", layers=runs_text(inside)) if inside else ""
        yield say("missing", what=f"{role}{where}", reason=reason, n=str(len(found) // 2))
    absent: dict[tuple[str, str], list[str]] = {}
    for item in result.baselines:
        if item.null is None:
            absent.setdefault((item.baseline, language.told(item.reason)), []).append(item.role)
    for (name, why), roles in absent.items():
        what = say(
            "baseline_of", name=language.word("baseline-name", name), roles=", ".join(dict.fromkeys(roles))
        )
        yield say("missing", what=what, reason=why, n=str(len(roles)))


# -- how to repeat it ----------------------------------------------------------------------------------


def _command(result: MatrixResult) -> str:
    options = result.options
    names = (model.ref if model.name == model.ref else f"{model.name}={model.ref}" for model in result.models)
    words = ["modelkin", "matrix", *names]
    pieces = {
        "--measure": options.measures,
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
