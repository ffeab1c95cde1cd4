"""Two tokenizers for a person at a terminal: how they relate, and what separately trained ones show."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modelkin.tokenizer import Overlap, Setting, Spread, TokenizerComparison, TokenizerFacts
from modelkin.untrusted import visible

_MOST_SETTINGS = 12
_SHOWN = 34


def tokenizers_view(found: TokenizerComparison, *, verbose: bool = False) -> RenderableType:
    """Draw a comparison of tokenizers.

    Parameters
    ----------
    found
        What was found.
    verbose
        Also show the first ids side by side, the commonest shifts, and every setting.
    """
    parts: list[RenderableType] = [Text(str(found.reading[0]), style="bold"), Text()]
    parts.append(_indented(_sides(found.candidate, found.base)))
    parts += [_title("In common"), _indented(_common(found))]
    parts += [_title("By writing"), _indented(_classes(found))]
    if verbose:
        parts += [_title("First ids"), _indented(_first_ids(found))]
        shifts = ", ".join(f"{shift:+d} ({count:,})" for shift, count in found.ids.shifts)
        parts += [_title("Commonest shifts (tokens)"), Padding(Text(shifts or "-"), (0, 0, 0, 2))]
    settings = [item for item in found.settings if verbose or not item.equal]
    most = len(settings) if verbose else _MOST_SETTINGS
    if settings:
        parts += [
            _title("Settings" if verbose else "Settings that differ"),
            _indented(_settings(settings[:most])),
        ]
        if len(settings) > most:
            parts.append(Text(f"  and {len(settings) - _MOST_SETTINGS} more (-v)", style="dim"))
    parts.append(_title("How to read this"))
    parts += [Padding(Text(f"- {line}"), (0, 0, 0, 2)) for line in found.reading[1:]]
    return Group(*parts)


def _sides(candidate: TokenizerFacts, base: TokenizerFacts) -> Table:
    table = _table("", "candidate", "base")
    for name, left, right in (
        ("name", candidate.name, base.name),
        ("file", candidate.file, base.file),
        ("kind", _kind(candidate), _kind(base)),
        ("tokens", f"{candidate.tokens:,}", f"{base.tokens:,}"),
        ("added tokens", f"{candidate.added:,}", f"{base.added:,}"),
        ("merges", _count(candidate.merges), _count(base.merges)),
        ("sha256 of merges", _short(candidate.merges_sha256), _short(base.merges_sha256)),
    ):
        table.add_row(name, Text(visible(left)), Text(visible(right)))
    return table


def _common(found: TokenizerComparison) -> Table:
    table = _table("", "", "separately trained tokenizers", right=(1,))
    tokens, ids, level = found.tokens, found.ids, found.background
    run = ids.longest_run
    rows: list[tuple[str, str, str]] = [
        ("tokens in both", f"{tokens.shared:,}", ""),
        ("of the candidate's", _share(tokens.of_candidate), ""),
        ("of the base's", _share(tokens.of_base), ""),
        ("of the smaller", _share(tokens.of_smaller), _spread(level.of_smaller)),
        ("Jaccard", _share(tokens.jaccard), _spread(level.jaccard)),
        ("same id", f"{ids.same_id:,}", ""),
        ("commonest shift", f"{ids.shifts[0][0]:+,} ({ids.shifts[0][1]:,})" if ids.shifts else "-", ""),
        ("longest run in order", f"{run.length:,}" if run else "-", ""),
        ("  without single bytes", f"{run.words:,}" if run else "-", _spread(level.run_words, digits=0)),
        ("correlation of ids", _share(ids.spearman), _spread(level.spearman)),
        ("added tokens in both", _of(found.added.overlap), ""),
    ]
    if found.merges is not None:
        rows += [
            (
                "merges, of the fewer",
                _share(found.merges.overlap.of_smaller),
                _spread(level.merges_of_smaller),
            ),
            ("first 1000 merges equal", f"{found.merges.first_1000_equal:,}", ""),
        ]
    else:
        rows.append(("merges", "not compared", str(found.no_merges or "")))
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def _classes(found: TokenizerComparison) -> Table:
    table = _table("", "candidate", "base", "in both", "only candidate", "only base", right=(1, 2, 3, 4, 5))
    for item in found.classes:
        counts = (item.candidate, item.base, item.shared, item.only_candidate, item.only_base)
        table.add_row(item.name, *(f"{count:,}" for count in counts))
    if found.high_ids is not None:
        high = found.high_ids
        classes = ", ".join(f"{name} {count:,}" for name, count in high.classes.items())
        table.caption = f"{high.side}: {high.tokens:,} tokens from id {high.first_id:,} on: {classes}"
        table.caption_justify = "left"
    return table


def _first_ids(found: TokenizerComparison) -> Table:
    table = _table("id", "candidate", "base", "equal", right=(0,))
    for row in found.ids.first_rows:
        left, right = (Text("-" if text is None else repr(text)) for text in (row.candidate, row.base))
        table.add_row(str(row.id), left, right, "yes" if row.equal else "no")
    return table


def _settings(settings: Sequence[Setting]) -> Table:
    table = _table("field", "candidate", "base")
    for item in settings:
        cells = ("-" if text is None else text[:_SHOWN] for text in (item.candidate, item.base))
        table.add_row(Text(visible(item.name[:_SHOWN])), *(Text(visible(cell)) for cell in cells))
    return table


def _kind(facts: TokenizerFacts) -> str:
    return f"{facts.kind or 'unknown'}{' on bytes' if facts.byte_level else ''} ({facts.form})"


def _of(overlap: Overlap) -> str:
    return f"{overlap.shared:,} of {overlap.candidate:,} and {overlap.base:,}"


def _spread(spread: Spread, digits: int = 3) -> str:
    reach = f"{spread.low:.{digits}f} to {spread.high:.{digits}f}, median {spread.median:.{digits}f}"
    more = "" if spread.at_least is None else f"; {spread.at_least} of {spread.n_pairs} pairs have as much"
    return reach + more


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _short(digest: str | None) -> str:
    return "-" if digest is None else digest[:16]


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2))


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _table(*titles: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, title in enumerate(titles):
        table.add_column(title, justify="right" if number in right else "left", overflow="fold")
    return table
