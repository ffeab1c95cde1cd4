"""A scan: the ranking first, then each hit that was verified."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import (
    Block,
    Bullets,
    Heading,
    LayerFigures,
    Link,
    PageOnly,
    Paragraph,
    Section,
    Strong,
    Table,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import count_text, p_text
from modelkin.registry import ScanHit, ScanResult

from .comparison import verdict_card


def verified_folder(number: int) -> str:
    """Return the folder of the report on a hit, by its rank."""
    return f"verified/{number:02d}"


def scan_view(result: ScanResult, *, language: Language = ENGLISH, page: bool = False) -> tuple[Block, ...]:
    """Return a scan as blocks; for a folder, with the verdicts and layers of the verified hits."""
    return tuple(_blocks(result, language, page))


def _blocks(result: ScanResult, language: Language, page: bool) -> Iterator[Block]:
    if page:
        yield Heading(f"Which models is {result.query.ref} related to?", 1)
    yield Paragraph((Strong(_answer(result)),))
    if result.hits:
        yield _ranking(result)
    yield Paragraph(
        f"p is corrected for all blocks of a pair and for a registry of 10^{result.log10_size:.0f} models, "
        "whatever its size is now. A hit with p shows a common origin of some part, not who came first. "
        "A proposal has tokens that look alike up to a change of coordinates: no evidence by itself.",
        "note",
    )
    yield Paragraph(
        f"{result.n_models:,} models in {result.registry}; "
        f"the first pass let {result.n_tested:,} through to the exact test",
        "note",
    )
    if result.notes:
        yield Section(title="Remarks", blocks=(Bullets(tuple(str(note) for note in result.notes)),))
    if page:
        for number, hit in enumerate(result.hits, start=1):
            if hit.verified.comparison is not None:
                yield _verified(number, hit, language)


def _answer(result: ScanResult) -> str:
    found = f"{result.n_found:,} of {result.n_models:,} models show a common origin with {result.query.ref}"
    more = f"; {result.n_proposed:,} more are proposed for a closer look" if result.n_proposed else ""
    return found + more


def _ranking(result: ScanResult) -> Table:
    rows = []
    for number, hit in enumerate(result.hits, start=1):
        copies = f" (+{len(hit.copies)} with the same fingerprint)" if hit.copies else ""
        rows.append(
            (
                str(number),
                hit.ref + copies,
                hit.family or "?",
                "" if hit.parameters is None else count_text(hit.parameters),
                p_text(hit.log10_p) if hit.found else "proposed",
                _where(hit),
                "" if hit.best is None or not hit.found else f"{hit.best.effect:.2f}",
                "" if hit.token_gram is None else f"{hit.token_gram:.2f}",
                _told(hit),
            )
        )
    titles = ("", "model", "family", "size", "p", "strongest block", "cosine", "token Gram", "compared")
    return table(titles, rows, numeric=(0, 3, 6, 7))


def _where(hit: ScanHit) -> str:
    if hit.best is None or not hit.found:
        return ""
    if hit.best.layers is None:
        return hit.best.kind
    mine, theirs = hit.best.layers
    return f"{hit.best.kind}, layer {mine}" + ("" if mine == theirs else f" with {theirs}")


def _told(hit: ScanHit) -> str:
    verified = hit.verified
    if verified.conclusion is None:
        return "" if verified.depth is None else str(verified.reason or "")
    relation = "" if verified.relation in (None, "unknown") else f" ({verified.relation})"
    return f"{verified.conclusion}{relation}, {verified.depth}"


def _verified(number: int, hit: ScanHit, language: Language) -> Section:
    result = hit.verified.comparison
    assert result is not None
    return Section(
        title=f"{number}. {hit.ref}",
        key=f"hit-{number}",
        blocks=(
            verdict_card(result, language),
            PageOnly(blocks=(LayerFigures(result),)),
            Link(f"{verified_folder(number)}/report.html", f"the whole report on {hit.ref}"),
        ),
    )
