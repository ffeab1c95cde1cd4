"""A scan: the ranking first, then each hit that was verified."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Heading,
    LayerFigures,
    Link,
    Named,
    PageOnly,
    Paragraph,
    Section,
    Table,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import count_text, p_text
from modelkin.registry import ScanHit, ScanResult

from .comparison import verdict_card


def verified_folder(number: int) -> str:
    """Return the report folder of a hit, by its rank."""
    return f"verified/{number:02d}"


def scan_view(result: ScanResult, *, language: Language = ENGLISH, page: bool = False) -> tuple[Block, ...]:
    """Return a scan as blocks; for a folder, with the verdicts and layers of the verified hits."""
    return tuple(_blocks(result, language, page))


def _blocks(result: ScanResult, language: Language, page: bool) -> Iterator[Block]:
    if page:
        question = language.say("scan.question", model=result.query.ref)
        yield Heading(Named(question, (result.query.ref,)), 1)
    say = language.of("scan")
    yield Card(
        headline=say("headline", n=f"{result.n_found:,}") if result.n_found else say("nothing"),
        tone="shared" if result.n_found else "none",
        summary=Named(_answer(result, language), (result.query.ref,)),
    )
    if result.hits:
        yield Section(title=say("ranking"), key="ranking", blocks=(_ranking(result, language),))
    yield Paragraph(say("about_p", size=f"10^{result.log10_size:.0f}"), "note")
    passed = say("passed", n=f"{result.n_models:,}", registry=result.registry, tested=f"{result.n_tested:,}")
    yield Paragraph(passed, "note")
    if result.notes:
        yield Section(title=say("remarks"), blocks=(Bullets(tuple(map(language.tell, result.notes))),))
    if page:
        for number, hit in enumerate(result.hits, start=1):
            if hit.verified.comparison is not None:
                yield _verified(number, hit, language)


def _answer(result: ScanResult, language: Language) -> str:
    say = language.of("scan")
    found = say("found", n=f"{result.n_found:,}", all=f"{result.n_models:,}", model=result.query.ref)
    more = say("more", n=f"{result.n_proposed:,}") if result.n_proposed else ""
    return found + more


def _ranking(result: ScanResult, language: Language) -> Table:
    say = language.of("scan")
    rows = []
    for number, hit in enumerate(result.hits, start=1):
        copies = f" ({say('copies', n=str(len(hit.copies)))})" if hit.copies else ""
        rows.append(
            (
                str(number),
                hit.ref + copies,
                hit.family or "?",
                "" if hit.parameters is None else count_text(hit.parameters),
                p_text(hit.log10_p) if hit.found else say("proposed"),
                _where(hit, language),
                "" if hit.best is None or not hit.found else f"{hit.best.effect:.2f}",
                "" if hit.token_gram is None else f"{hit.token_gram:.2f}",
                _told(hit, language),
            )
        )
    keys = ("", "model", "family", "size", "p", "strongest", "cosine", "token_gram", "compared")
    return table([say(key) for key in keys], rows, numeric=(0, 3, 6, 7))


def _where(hit: ScanHit, language: Language) -> str:
    if hit.best is None or not hit.found:
        return ""
    kind = language.word("block", hit.best.kind)
    if hit.best.layers is None:
        return kind
    mine, theirs = hit.best.layers
    key = "scan.in_layer" if mine == theirs else "scan.in_layers"
    return language.say(key, kind=kind, layer=str(mine), other=str(theirs))


def _told(hit: ScanHit, language: Language) -> str:
    verified = hit.verified
    if verified.conclusion is None:
        return "" if verified.depth is None else language.told(verified.reason)
    known = verified.relation if verified.relation != "unknown" else None
    relation = "" if known is None else f" ({language.word('relation', known)})"
    return f"{language.word('short', verified.conclusion)}{relation}, {verified.depth}"


def _verified(number: int, hit: ScanHit, language: Language) -> Section:
    result = hit.verified.comparison
    assert result is not None
    return Section(
        title=f"{number}. {hit.ref}",
        key=f"hit-{number}",
        blocks=(
            verdict_card(result, language),
            PageOnly(blocks=(LayerFigures(result),)),
            Link(f"{verified_folder(number)}/report.html", language.say("scan.whole_report", model=hit.ref)),
        ),
    )
