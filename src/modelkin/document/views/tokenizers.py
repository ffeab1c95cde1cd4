"""Two tokenizers: how they relate, the numbers, and what separately trained ones show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import digits_text
from modelkin.tokenizer import Overlap, Spread, TokenizerComparison, TokenizerFacts

_MOST_SETTINGS = 12
_SHOWN = 34


def tokenizers_view(
    found: TokenizerComparison, language: Language = ENGLISH, *, verbose: bool = False
) -> tuple[Block, ...]:
    """Return a comparison of tokenizers as blocks.

    If `verbose`, with the first ids side by side, the most common shifts, and every setting.
    """
    return tuple(_blocks(found, language, verbose=verbose))


def _blocks(found: TokenizerComparison, language: Language, *, verbose: bool) -> Iterator[Block]:
    say = language.of("tokenizers")
    yield Paragraph(language.tell(found.reading[0]), "strong")
    yield _sides(found.candidate, found.base, say)
    yield Section(title=say("common"), blocks=(_common(found, language),))
    yield Section(title=say("by_script"), blocks=tuple(_classes(found, language)))
    if verbose:
        yield Section(title=say("first_ids"), blocks=(_first_ids(found, say),))
        shifts = ", ".join(f"{shift:+d} ({count:,})" for shift, count in found.ids.shifts)
        yield Section(title=say("shifts"), blocks=(Paragraph(shifts or "-"),))
    settings = [item for item in found.settings if verbose or not item.equal]
    if settings:
        most = len(settings) if verbose else _MOST_SETTINGS
        rows = [
            tuple("-" if text is None else text[:_SHOWN] for text in (item.name, item.candidate, item.base))
            for item in settings[:most]
        ]
        shown = table([say(key) for key in ("field", "candidate", "base")], rows)
        left = len(settings) - most
        more = (Paragraph(say("and_more", n=str(left)), "note"),) if left > 0 else ()
        yield Section(title=say("settings" if verbose else "settings_differ"), blocks=(shown, *more))
    yield Section(title=say("how_to_read"), blocks=(Bullets(tuple(map(language.tell, found.reading[1:]))),))


def _sides(candidate: TokenizerFacts, base: TokenizerFacts, say: Callable[..., str]) -> Table:
    rows = (
        (say("name"), candidate.name, base.name),
        (say("file"), candidate.file, base.file),
        (say("kind"), _kind(candidate, say), _kind(base, say)),
        (say("tokens"), f"{candidate.tokens:,}", f"{base.tokens:,}"),
        (say("added"), f"{candidate.added:,}", f"{base.added:,}"),
        (say("merges"), digits_text(candidate.merges), digits_text(base.merges)),
        (say("digest"), _short(candidate.merges_sha256), _short(base.merges_sha256)),
    )
    return table([say(key) for key in ("", "candidate", "base")], rows)


def _common(found: TokenizerComparison, language: Language) -> Table:
    say = language.of("tokenizers")
    tokens, ids, level = found.tokens, found.ids, found.background
    run = ids.longest_run
    rows: list[tuple[str, str, str]] = [
        (say("in_both"), f"{tokens.shared:,}", ""),
        (say("of_candidate"), _share(tokens.of_candidate), ""),
        (say("of_base"), _share(tokens.of_base), ""),
        (say("of_smaller"), _share(tokens.of_smaller), _spread(level.of_smaller, say)),
        (say("jaccard"), _share(tokens.jaccard), _spread(level.jaccard, say)),
        (say("same_id"), f"{ids.same_id:,}", ""),
        (say("shift"), f"{ids.shifts[0][0]:+,} ({ids.shifts[0][1]:,})" if ids.shifts else "-", ""),
        (say("run"), f"{run.length:,}" if run else "-", ""),
        (
            "  " + say("run_words"),
            f"{run.words:,}" if run else "-",
            _spread(level.run_words, say, digits=0),
        ),
        (say("correlation"), _share(ids.spearman), _spread(level.spearman, say)),
        (say("added_in_both"), _of(found.added.overlap, say), ""),
    ]
    if found.merges is not None:
        rows += [
            (
                say("merges_of_fewer"),
                _share(found.merges.overlap.of_smaller),
                _spread(level.merges_of_smaller, say),
            ),
            (say("first_merges"), f"{found.merges.first_1000_equal:,}", ""),
        ]
    else:
        rows.append((say("merges"), say("not_compared"), language.told(found.no_merges)))
    return table(("", "", say("separate")), rows, numeric=(1,))


def _classes(found: TokenizerComparison, language: Language) -> Iterator[Block]:
    say = language.of("tokenizers")
    rows = []
    for item in found.classes:
        counts = (item.candidate, item.base, item.shared, item.only_candidate, item.only_base)
        rows.append((language.word("script", item.name), *(f"{count:,}" for count in counts)))
    keys = ("", "candidate", "base", "both", "only_candidate", "only_base")
    yield table([say(key) for key in keys], rows, numeric=range(1, 6))
    if found.high_ids is not None:
        high = found.high_ids
        classes = ", ".join(
            f"{language.word('script', name)} {count:,}" for name, count in high.classes.items()
        )
        values = {"tokens": f"{high.tokens:,}", "first": f"{high.first_id:,}", "classes": classes}
        yield Paragraph(say("high", side=language.word("side", high.side), **values), "note")


def _first_ids(found: TokenizerComparison, say: Callable[..., str]) -> Table:
    rows = [
        (
            str(row.id),
            *("-" if text is None else repr(text) for text in (row.candidate, row.base)),
            say("yes" if row.equal else "no"),
        )
        for row in found.ids.first_rows
    ]
    return table([say(key) for key in ("id", "candidate", "base", "equal")], rows, numeric=(0,))


def _kind(facts: TokenizerFacts, say: Callable[..., str]) -> str:
    kind = facts.kind or say("unknown")
    return f"{say('on_bytes', kind=kind) if facts.byte_level else kind} ({facts.form})"


def _of(overlap: Overlap, say: Callable[..., str]) -> str:
    counts = {"n": overlap.shared, "candidate": overlap.candidate, "base": overlap.base}
    return say("n_of_both", **{name: f"{count:,}" for name, count in counts.items()})


def _spread(spread: Spread, say: Callable[..., str], digits: int = 3) -> str:
    numbers = {"low": spread.low, "high": spread.high, "median": spread.median}
    reach = say("spread", **{name: f"{value:.{digits}f}" for name, value in numbers.items()})
    if spread.at_least is None:
        return reach
    return reach + say("as_much", n=str(spread.at_least), all=str(spread.n_pairs))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _short(digest: str | None) -> str:
    return "-" if digest is None else digest[:16]
