"""A benchmark told: one table of methods, hits by relation, what could not be had; files of a folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from modelkin.document import load_language, render_html, render_markdown, size_text, to_json
from modelkin.document.blocks import Block, Bullets, Heading, Paragraph, Picture, Section, Table, table
from modelkin.document.codec import schemas
from modelkin.document.folder import write_files
from modelkin.figures import figure_to_json, renderings
from modelkin.untrusted import safe_cell

from .figures import bench_figures
from .rates import GroupHits, Hits, Proportion, Rates
from .record import BenchResult

schemas[BenchResult] = "modelkin.bench/1"

_ABOUT = (
    "modelkin's score is minus log10 p, and its own level is its decision rule; every other method has the "
    "level of its publication, or none. Hits at 0 and at 1 % take the threshold from the independent pairs "
    "of this very table, which nobody knows beforehand. A pair without a score counts as not found, and is "
    "left out of the areas. Intervals (95 %) take pairs for independent draws; pairs that share a model are "
    "not, so that the true intervals are wider."
)
_MOST_METHODS = 6
"""Columns of a table of relations."""


def bench_blocks(result: BenchResult, *, pictures: bool = False) -> tuple[Block, ...]:
    """Return a benchmark as blocks; with pictures for the documents of its folder."""
    return tuple(_blocks(result, pictures=pictures))


def _blocks(result: BenchResult, *, pictures: bool) -> Iterator[Block]:
    had = result.pairs - len(result.unavailable)
    yield Heading("Methods over labelled pairs", 1)
    yield Paragraph(
        f"{had} of {result.pairs} pairs could be had; {size_text(result.bytes_read)} were set aside for this "
        f"run; modelkin {result.modelkin}, seed {result.options.seed}, depth {result.options.depth}.",
    )
    if result.rates:
        yield Section(
            title="Methods",
            key="methods",
            blocks=(
                table(_RATES, [_rates_row(rates) for rates in result.rates], numeric=range(1, 5)),
                table(_LEVELS, [_level_row(rates) for rates in result.rates], numeric=range(1, 6)),
                Paragraph(_ABOUT, "note"),
            ),
        )
        yield Section(title="Hits by relation", key="relations", blocks=tuple(_relations(result)))
    if pictures:
        drawn = bench_figures(result)
        yield from (
            Picture(f"figures/{name}.png", figure.alt, figure.title) for name, figure in drawn.items()
        )
    if reasons := _reasons(result):
        yield Section(title="Pairs without a score", key="reasons", blocks=(Bullets(reasons),))
    if result.unavailable:
        rows = [(item.pair.candidate, item.pair.base, str(item.reason)) for item in result.unavailable]
        yield Section(
            title="Pairs that could not be had",
            key="unavailable",
            blocks=(table(("candidate", "base", "why"), rows),),
        )


_RATES = ("method", "AUC", "partial AUC", "hits at 1 %", "hits at 0")
_LEVELS = ("method", "hits at own level", "accused at own level", "scored", "bytes a model", "seconds")


def _rates_row(rates: Rates) -> tuple[str, ...]:
    return (
        rates.method,
        _share(rates.auc),
        _share(rates.partial_auc),
        _hits(rates.hits_at_1_percent),
        _hits(rates.hits_at_0),
    )


def _level_row(rates: Rates) -> tuple[str, ...]:
    scored, pairs = rates.scored_related + rates.scored_independent, rates.n_related + rates.n_independent
    return (
        rates.method,
        _hits(rates.hits_at_level),
        _hits(rates.accused),
        f"{scored} of {pairs}",
        "-" if rates.bytes_a_model is None else size_text(round(rates.bytes_a_model)),
        "-" if rates.seconds is None else f"{rates.seconds:.2f}",
    )


def _share(share: Proportion | None) -> str:
    return "-" if share is None else f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"


def _hits(found: Hits | None) -> str:
    if found is None or found.share is None:
        return "-"
    return f"{found.found}/{found.of} [{found.share.low:.0%}, {found.share.high:.0%}]"


def _relations(result: BenchResult) -> Iterator[Block]:
    for first in range(0, len(result.rates), _MOST_METHODS):
        yield _relation_table(result.rates[first : first + _MOST_METHODS])
    yield Paragraph(
        "Related pairs: how many are above every independent pair, and in brackets how many the method calls "
        "related at its own level. Other pairs: in brackets how many it calls related at that level.",
        "note",
    )


def _relation_table(chosen: Sequence[Rates]) -> Table:
    groups = dict.fromkeys((item.truth, item.group) for rates in chosen for item in rates.groups)
    rows = []
    for truth, group in sorted(groups, key=lambda key: (key[0] != "related", key)):
        found = [
            next((item for item in rates.groups if (item.truth, item.group) == (truth, group)), None)
            for rates in chosen
        ]
        title = group if truth in ("related", group) else f"{group} ({truth})"
        rows.append((title, *("-" if item is None else _group_text(item) for item in found)))
    names = [rates.method for rates in chosen]
    return table(("relation", *names), rows, numeric=range(1, len(names) + 1))


def _group_text(item: GroupHits) -> str:
    level = "" if item.at_own_level is None else f" ({item.at_own_level})"
    above = str(item.above_strangers) if item.truth == "related" else "·"
    return f"{above}/{item.pairs}{level}"


def _reasons(result: BenchResult) -> tuple[str, ...]:
    counted: dict[tuple[str, str], int] = {}
    for row in result.rows:
        if row.score is None:
            key = row.method, row.reason.code if row.reason else ""
            counted[key] = counted.get(key, 0) + 1
    told = {(row.method, row.reason.code if row.reason else ""): str(row.reason) for row in result.rows}
    return tuple(
        f"{method}: {n} pairs, for example: {told[method, code]}" for (method, code), n in counted.items()
    )


def write_bench(result: BenchResult, folder: Path) -> tuple[Path, ...]:
    """Write ``bench.json``, ``pairs.csv``, ``BENCH.md``, ``bench.html`` and figures; return their paths.

    Raises
    ------
    OutputError
        The folder cannot be made or written.
    """
    files: dict[str, str | bytes] = {"bench.json": to_json(result) + "\n", "pairs.csv": _csv(result)}
    images: dict[str, bytes] = {}
    for name, figure in bench_figures(result).items():
        files[f"figures/{name}.json"] = figure_to_json(figure) + "\n"
        for kind, content in renderings(figure, ("png", "svg")).items():
            files[f"figures/{name}.{kind}"] = content
            if kind == "png":
                images[f"figures/{name}.png"] = content if isinstance(content, bytes) else content.encode()
    blocks = bench_blocks(result, pictures=True)
    files["BENCH.md"] = render_markdown(blocks)
    files["bench.html"] = render_html(
        blocks,
        title="Methods over labelled pairs",
        language=load_language("en"),
        version=result.modelkin,
        images=images,
    )
    return write_files(folder, files)


_CSV = (
    *("source", "candidate", "base", "label", "relation", "method", "version", "score", "says"),
    *("bytes_candidate", "bytes_base", "seconds", "reason"),
)


def _csv(result: BenchResult) -> str:
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(_CSV)
    for row in result.rows:
        pair = row.pair
        known = pair.source, pair.candidate, pair.base, pair.label, pair.relation
        score = "" if row.score is None else repr(row.score)
        told = "" if row.reason is None else str(row.reason)
        cost = *row.bytes_read, f"{row.seconds:.3f}"
        cells = (*known, row.method, row.version, score, row.says or "", *cost, told)
        writer.writerow([safe_cell(cell) for cell in cells])
    return held.getvalue()
