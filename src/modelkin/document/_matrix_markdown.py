"""``MATRIX.md``: a matrix as a document, and the folder it is written to with its data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import MEASURES, chosen_measures, table_to_csv
from modelkin.untrusted import visible

from ._folder import _write
from ._markdown import _list, _table, _text
from ._matrix_json import matrix_json
from ._matrix_words import (
    BRACKETS,
    FOLLOWS,
    FOLLOWS_NOT,
    baseline_lines,
    lines,
    measure_groups,
    missing_lines,
    number_text,
    sections,
)
from .numbers import runs_text, size_text


def write_matrix(result: MatrixResult, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write ``matrix.json``, ``matrix.csv`` and ``MATRIX.md``; return their paths.

    Raises
    ------
    UsageError
        The folder cannot be made or written.
    """
    return _write(
        Path(folder),
        {
            "matrix.json": matrix_json(result) + "\n",
            "matrix.csv": table_to_csv(result.table),
            "MATRIX.md": matrix_markdown(result),
        },
    )


def matrix_markdown(result: MatrixResult) -> str:
    """Write the document, from what follows to how to repeat it."""
    parts = [
        ["# Measures over layers", FOLLOWS, FOLLOWS_NOT],
        _models(result),
        _measures(result),
        _sections(result),
        _baselines(result),
        _tensors(result),
        _missing(result),
        _repeat(result),
    ]
    return "\n\n".join(block for part in parts for block in part if block) + "\n"


def _models(result: MatrixResult) -> Iterator[str]:
    yield "## Models"
    rows = [
        (
            _text(model.name),
            _text(model.ref),
            _text(model.revision or "-"),
            _text(model.family or "unknown"),
            (runs_text(model.layers) or "-")
            + (f", MTP {runs_text(model.mtp_layers)}" if model.mtp_layers else ""),
            "-" if model.hidden_size is None else f"{model.hidden_size:,}",
        )
        for model in result.models
    ]
    yield _table(("name", "model", "commit", "family", "layers", "width"), rows)


def _measures(result: MatrixResult) -> Iterator[str]:
    yield "## Measures"
    rows = [(f"`{m.name}`", m.meaning, m.cannot_say) for m in chosen_measures(result.options.measures)]
    yield _table(("measure", "what it is", "what it cannot say"), rows)


def _sections(result: MatrixResult) -> Iterator[str]:
    yield "## Numbers"
    yield f"{BRACKETS[:1].upper()}{BRACKETS[1:]}. All of them, unrounded, are in `matrix.csv`."
    for section in sections(result):
        same = section.model_a == section.model_b
        where = section.model_a if same else f"{section.model_a} x {section.model_b}"
        view = "" if section.view == "whole" else f", {section.view}"
        yield f"### {_text(section.role)}{view}: {_text(where)}"
        yield _text(section.note)
        for names in measure_groups(result):
            yield _table(
                ("layer", *(MEASURES[name].title.replace("|", "\\|") for name in names)),
                lines(section, names),
            )


def _baselines(result: MatrixResult) -> Iterator[str]:
    if not result.baselines:
        return
    yield "## Baselines"
    titles = ("baseline", "role", "measure", "of", "observed", "mean", "5 % to 95 %", "n")
    yield _table(titles, (tuple(map(_text, cells)) for cells in baseline_lines(result)))
    yield _list(sorted({f"{item.baseline}: {item.note}" for item in result.baselines if item.note}))


def _tensors(result: MatrixResult) -> Iterator[str]:
    yield "## Tensors"
    rows = []
    for item in result.tensors:
        numbers = (item.mean, item.std, item.minimum, item.maximum, item.norm, item.rho)
        rows.append(
            (
                _text(item.model),
                _text(item.role),
                "-" if item.layer is None else str(item.layer),
                f"{item.n:,}",
                *("-" if value is None else number_text(value) for value in numbers),
            )
        )
    yield _table(("model", "role", "layer", "n", "mean", "std", "min", "max", "norm", "rho"), rows)


def _missing(result: MatrixResult) -> Iterator[str]:
    reasons = [*missing_lines(result), *result.notes]
    if reasons:
        yield "## Not measured, and remarks"
        yield _list(reasons)


def _repeat(result: MatrixResult) -> Iterator[str]:
    options = result.options
    yield "## How to repeat it"
    words = ["modelkin", "matrix", *(_given(model.name, model.ref) for model in result.models)]
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
    words += ["--sample", str(options.sample), "--draws", str(options.draws), "--tokens", str(options.tokens)]
    words += ["--seed", str(options.seed)]
    yield f"```console\n$ {visible(shlex.join(words))}\n```"
    read = result.read
    yield (
        f"modelkin {_text(result.modelkin)}; "
        f"{size_text(read.bytes_fetched)} read in {read.requests} requests. "
        "The same seed reads the same bytes and gives the same numbers."
    )


def _given(name: str, ref: str) -> str:
    return ref if name == ref else f"{name}={ref}"
