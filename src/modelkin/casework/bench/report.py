"""A benchmark report: one table of methods, hits by relation, what was not obtained; files of a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from modelkin.document import (
    ENGLISH,
    Language,
    load_language,
    render_html,
    render_markdown,
    size_text,
    to_json,
)
from modelkin.document.blocks import Block, Bullets, Heading, Paragraph, Picture, Section, Table, table
from modelkin.document.codec import schemas
from modelkin.document.folder import write_files
from modelkin.figures import figure_to_json, renderings
from modelkin.message import Message
from modelkin.untrusted import csv_text

from .figures import bench_figures, figure_alts
from .rates import GroupHits, Hits, Proportion, Rates
from .record import BenchResult

schemas[BenchResult] = "modelkin.bench/1"

_MOST_METHODS = 6
"""Columns of a table of relations."""


def bench_blocks(
    result: BenchResult, language: Language = ENGLISH, *, pictures: bool = False
) -> tuple[Block, ...]:
    """Return a benchmark as blocks; with pictures for the documents of its folder."""
    return tuple(_blocks(result, language, pictures=pictures))


def _blocks(result: BenchResult, language: Language, *, pictures: bool) -> Iterator[Block]:
    def said(key: str, **values: str) -> str:
        return language.say(f"bench.{key}", **values)

    options = result.options
    yield Heading(said("title"), 1)
    yield Paragraph(
        said(
            "had",
            had=str(result.pairs - len(result.unavailable)),
            pairs=str(result.pairs),
            size=size_text(result.bytes_read),
            version=result.modelkin,
            seed=str(options.seed),
            depth=options.depth,
        )
    )
    if result.rates:
        rates = [_rates_row(item) for item in result.rates]
        levels = [_level_row(item, language) for item in result.rates]
        yield Section(
            title=said("methods"),
            key="methods",
            blocks=(
                table(_titles(language, _RATES), rates, numeric=range(1, 5)),
                table(_titles(language, _LEVELS), levels, numeric=range(1, 6)),
                Paragraph(said("about"), "note"),
            ),
        )
        yield Section(title=said("relations"), key="relations", blocks=tuple(_relations(result, language)))
    if pictures:
        alts = figure_alts(result, language)
        yield from (
            Picture(f"figures/{name}.png", alts[name], said(f"figure-{name}"))
            for name in bench_figures(result)
        )
    if reasons := _reasons(result, language):
        yield Section(title=said("reasons"), key="reasons", blocks=(Bullets(reasons),))
    if result.unavailable:
        rows = [
            (item.pair.candidate, item.pair.base, language.tell(item.reason)) for item in result.unavailable
        ]
        yield Section(
            title=said("unavailable"),
            key="unavailable",
            blocks=(table(_titles(language, ("candidate", "base", "why")), rows),),
        )


_RATES = ("method", "auc", "partial_auc", "hits_at_1_percent", "hits_at_0")
_LEVELS = ("method", "hits_at_level", "accused", "scored", "bytes", "seconds")


def _titles(language: Language, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(language.say(f"bench.{key}") for key in keys)


def _rates_row(rates: Rates) -> tuple[str, ...]:
    return (
        rates.method,
        _share(rates.auc),
        _share(rates.partial_auc),
        _hits(rates.hits_at_1_percent),
        _hits(rates.hits_at_0),
    )


def _level_row(rates: Rates, language: Language) -> tuple[str, ...]:
    scored, pairs = rates.scored_related + rates.scored_independent, rates.n_related + rates.n_independent
    return (
        rates.method,
        _hits(rates.hits_at_level),
        _hits(rates.accused),
        language.say("bench.of", n=str(scored), m=str(pairs)),
        "-" if rates.bytes_a_model is None else size_text(round(rates.bytes_a_model)),
        "-" if rates.seconds is None else f"{rates.seconds:.2f}",
    )


def _share(share: Proportion | None) -> str:
    return "-" if share is None else f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"


def _hits(found: Hits | None) -> str:
    if found is None or found.share is None:
        return "-"
    return f"{found.found}/{found.of} [{found.share.low:.0%}, {found.share.high:.0%}]"


def _relations(result: BenchResult, language: Language) -> Iterator[Block]:
    for first in range(0, len(result.rates), _MOST_METHODS):
        yield _relation_table(result.rates[first : first + _MOST_METHODS], language)
    yield Paragraph(language.say("bench.about_relations"), "note")


def _relation_table(chosen: Sequence[Rates], language: Language) -> Table:
    groups = dict.fromkeys((item.truth, item.group) for rates in chosen for item in rates.groups)
    rows = []
    for truth, group in sorted(groups, key=lambda key: (key[0] != "related", key)):
        found = [
            next((item for item in rates.groups if (item.truth, item.group) == (truth, group)), None)
            for rates in chosen
        ]
        known = language.word("bench", f"group-{group}")
        named = group if known == f"group-{group}" else known
        title = named if truth in ("related", group) else f"{named} ({language.say(f'bench.truth-{truth}')})"
        rows.append((title, *("-" if item is None else _group_text(item) for item in found)))
    names = [rates.method for rates in chosen]
    return table((language.say("bench.relation"), *names), rows, numeric=range(1, len(names) + 1))


def _group_text(item: GroupHits) -> str:
    level = "" if item.at_own_level is None else f" ({item.at_own_level})"
    above = str(item.above_strangers) if item.truth == "related" else "·"
    return f"{above}/{item.pairs}{level}"


def _reasons(result: BenchResult, language: Language) -> tuple[str, ...]:
    """Return for each method how many pairs have no score, by the kind of reason, with one as an example."""
    counted: dict[tuple[str, str], list[Message]] = {}
    for row in result.rows:
        if row.score is None and row.reason is not None:
            counted.setdefault((row.method, row.reason.code), []).append(row.reason)
    return tuple(
        language.say("bench.reason", method=method, n=str(len(found)), reason=language.tell(found[0]))
        for (method, _), found in counted.items()
    )


def write_bench(result: BenchResult, folder: Path, *, language: str = "en") -> tuple[Path, ...]:
    """Write ``bench.json``, ``methods.csv``, ``pairs.csv``, ``BENCH.md``, ``bench.html`` and figures."""
    texts = load_language(language)
    files: dict[str, str | bytes] = {
        "bench.json": to_json(result) + "\n",
        "methods.csv": _methods_csv(result),
        "pairs.csv": _csv(result),
    }
    images: dict[str, bytes] = {}
    for name, figure in bench_figures(result).items():
        files[f"figures/{name}.json"] = figure_to_json(figure) + "\n"
        for kind, content in renderings(figure, ("png", "svg"), language=texts).items():
            files[f"figures/{name}.{kind}"] = content
            if kind == "png":
                images[f"figures/{name}.png"] = content if isinstance(content, bytes) else content.encode()
    blocks = bench_blocks(result, texts, pictures=True)
    files["BENCH.md"] = render_markdown(blocks)
    files["bench.html"] = render_html(
        blocks,
        title=texts.say("bench.title"),
        language=texts,
        version=result.modelkin,
        images=images,
    )
    return write_files(folder, files)


_SHARES = ("auc", "partial_auc")
_COUNTS = ("hits_at_1_percent", "hits_at_0", "hits_at_level", "accused")


def _methods_csv(result: BenchResult) -> str:
    """Write everything in the tables of methods, one line per method; empty if there is no number."""
    shares = [f"{name}{end}" for name in _SHARES for end in ("", "_low", "_high")]
    counts = [f"{name}{end}" for name in _COUNTS for end in ("", "_of", "_low", "_high")]
    counted = ("n_related", "n_independent", "scored_related", "scored_independent")
    costs = ("bytes_a_model", "seconds")
    rows = []
    for rates in result.rates:
        cells: list[object] = [rates.method]
        for name in _SHARES:
            cells += _three(getattr(rates, name))
        for name in _COUNTS:
            found: Hits | None = getattr(rates, name)
            cells += ("", "") if found is None else (found.found, found.of)
            cells += _three(None if found is None else found.share)[1:]
        cells += [getattr(rates, name) for name in counted]
        cells += ["" if (value := getattr(rates, name)) is None else repr(value) for name in costs]
        rows.append(cells)
    return csv_text(("method", *shares, *counts, *counted, *costs), rows)


def _three(share: Proportion | None) -> tuple[str, str, str]:
    return ("", "", "") if share is None else (repr(share.value), repr(share.low), repr(share.high))


_CSV = (
    *("source", "candidate", "base", "label", "relation", "method", "version", "score", "says"),
    *("bytes_candidate", "bytes_base", "seconds", "reason"),
)


def _csv(result: BenchResult) -> str:
    rows = []
    for row in result.rows:
        pair = row.pair
        known = pair.source, pair.candidate, pair.base, pair.label, pair.relation
        score = "" if row.score is None else repr(row.score)
        told = "" if row.reason is None else str(row.reason)
        cost = *row.bytes_read, f"{row.seconds:.3f}"
        rows.append((*known, row.method, row.version, score, row.says or "", *cost, told))
    return csv_text(_CSV, rows)
