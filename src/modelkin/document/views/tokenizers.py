"""Two tokenizers: how they relate, the numbers, and what separately trained ones show."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.tokenizer import Overlap, Spread, TokenizerComparison, TokenizerFacts

_MOST_SETTINGS = 12
_SHOWN = 34


def tokenizers_view(found: TokenizerComparison, *, verbose: bool = False) -> tuple[Block, ...]:
    """Return a comparison of tokenizers as blocks.

    Parameters
    ----------
    found
        What was found.
    verbose
        Also show the first ids side by side, the commonest shifts, and every setting.
    """
    return tuple(_blocks(found, verbose=verbose))


def _blocks(found: TokenizerComparison, *, verbose: bool) -> Iterator[Block]:
    yield Paragraph(str(found.reading[0]), "strong")
    yield _sides(found.candidate, found.base)
    yield Section(title="In common", blocks=(_common(found),))
    yield Section(title="By script", blocks=tuple(_classes(found)))
    if verbose:
        yield Section(title="First ids", blocks=(_first_ids(found),))
        shifts = ", ".join(f"{shift:+d} ({count:,})" for shift, count in found.ids.shifts)
        yield Section(title="Commonest shifts (tokens)", blocks=(Paragraph(shifts or "-"),))
    settings = [item for item in found.settings if verbose or not item.equal]
    if settings:
        most = len(settings) if verbose else _MOST_SETTINGS
        rows = [
            tuple("-" if text is None else text[:_SHOWN] for text in (item.name, item.candidate, item.base))
            for item in settings[:most]
        ]
        shown = table(("field", "candidate", "base"), rows)
        more = (Paragraph(f"and {len(settings) - most} more (-v)", "note"),) if len(settings) > most else ()
        yield Section(title="Settings" if verbose else "Settings that differ", blocks=(shown, *more))
    yield Section(title="How to read this", blocks=(Bullets(tuple(map(str, found.reading[1:]))),))


def _sides(candidate: TokenizerFacts, base: TokenizerFacts) -> Table:
    rows = (
        ("name", candidate.name, base.name),
        ("file", candidate.file, base.file),
        ("kind", _kind(candidate), _kind(base)),
        ("tokens", f"{candidate.tokens:,}", f"{base.tokens:,}"),
        ("added tokens", f"{candidate.added:,}", f"{base.added:,}"),
        ("merges", _count(candidate.merges), _count(base.merges)),
        ("sha256 of merges", _short(candidate.merges_sha256), _short(base.merges_sha256)),
    )
    return table(("", "candidate", "base"), rows)


def _common(found: TokenizerComparison) -> Table:
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
    return table(("", "", "separately trained tokenizers"), rows, numeric=(1,))


def _classes(found: TokenizerComparison) -> Iterator[Block]:
    rows = []
    for item in found.classes:
        counts = (item.candidate, item.base, item.shared, item.only_candidate, item.only_base)
        rows.append((item.name, *(f"{count:,}" for count in counts)))
    titles = ("", "candidate", "base", "in both", "only candidate", "only base")
    yield table(titles, rows, numeric=range(1, 6))
    if found.high_ids is not None:
        high = found.high_ids
        classes = ", ".join(f"{name} {count:,}" for name, count in high.classes.items())
        yield Paragraph(
            f"{high.side}: {high.tokens:,} tokens from id {high.first_id:,} on: {classes}", "note"
        )


def _first_ids(found: TokenizerComparison) -> Table:
    rows = [
        (
            str(row.id),
            *("-" if text is None else repr(text) for text in (row.candidate, row.base)),
            "yes" if row.equal else "no",
        )
        for row in found.ids.first_rows
    ]
    return table(("id", "candidate", "base", "equal"), rows, numeric=(0,))


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
