"""What published methods say about a pair: below the verdict, with a note on what it is not."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison, ReferenceScore
from modelkin.document.blocks import Block, Cell, Facts, Paragraph, Section, Table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import size_text
from modelkin.reference import ReferenceCard, load_reference_cards

from .words import labels, reason_text

_TITLES = ("published_method", "score", "published_level", "would_say", "bytes", "seconds_taken", "measured")


def reference_blocks(result: Comparison, language: Language) -> Iterator[Block]:
    """Return the scores of all methods that were asked, and why some have none."""
    yield Paragraph(language.say("text.about_reference"), "note")
    rows = tuple(_row(score, language) for score in result.reference)
    muted = frozenset(place for place, item in enumerate(result.reference) if item.score is None)
    yield Table(
        columns=tuple(labels(language, *_TITLES)),
        rows=rows,
        numeric=frozenset((1, 2, 4, 5)),
        muted=muted,
    )


def _row(item: ReferenceScore, language: Language) -> tuple[str | Cell, ...]:
    card = load_reference_cards().get(item.method)
    if item.score is None:
        told = reason_text(item.reason, language)
    else:
        told = "" if card is None else language.tell(card.measures)
    return (
        item.method,
        "-" if item.score is None else Cell(text=f"{item.score:.4g}", sort=item.score),
        "-" if item.level is None else f"{item.level:.4g}",
        _answer(item, language),
        size_text(max(item.bytes_read)),
        f"{item.seconds:.2f}",
        told,
    )


def _answer(item: ReferenceScore, language: Language) -> str:
    if item.says is not None:
        return language.word("says", item.says)
    return language.say("word.no_score" if item.score is None else "word.no_level")


def reference_cards_view(cards: tuple[ReferenceCard, ...], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the cards of published methods, one below the other."""
    say = language.of("card")
    return tuple(
        Section(title=say("title", name=card.name, version=card.version), blocks=(_facts(card, language),))
        for card in cards
    )


def _facts(card: ReferenceCard, language: Language) -> Facts:
    say = language.of("card")
    rows = {
        "measures": language.tell(card.measures),
        "status": say("reference_only"),
        "published_level": language.tell(card.level_from),
        "survives": language.tell(card.survives),
        "defeated_by": language.tell(card.defeated_by),
        "needs": say("needs_weights" if card.needs == "weights" else "needs_running"),
        "publication": card.publication,
        "reference": card.reference,
    }
    return Facts(rows=tuple((say(name), value) for name, value in rows.items()))
