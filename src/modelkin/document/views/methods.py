"""The cards of methods, and what published ones say about a pair: below the verdict, never part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from modelkin.comparison import Comparison, ReferenceScore
from modelkin.comparison.methods import MethodCard
from modelkin.document.blocks import Block, Cell, Facts, Paragraph, Section, Table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import size_text
from modelkin.reference import ReferenceCard, load_reference_cards

from .words import labels, reason_text


def methods_view(cards: Iterable[MethodCard], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the cards, one below the other."""
    say, tell = language.of("card"), language.tell
    return tuple(
        _card(
            card,
            say,
            says=tell(card.claim),
            looks_at=say(
                "where_no_axis" if card.axis == "none" else "where",
                component=language.word("component", card.component),
                axis=language.word("axis", card.axis),
                depth=card.stage,
            ),
            null=tell(card.null),
            p_value=say("exact" if card.exact else "not_exact"),
            needs=tell(card.needs),
            defeated_by=tell(card.defeated_by),
            reference=card.reference,
        )
        for card in cards
    )


def reference_cards_view(cards: tuple[ReferenceCard, ...], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the cards of published methods, one below the other."""
    say, tell = language.of("card"), language.tell
    return tuple(
        _card(
            card,
            say,
            measures=tell(card.measures),
            status=say("reference_only"),
            published_level=tell(card.level_from),
            survives=tell(card.survives),
            defeated_by=tell(card.defeated_by),
            needs=say("needs_weights" if card.needs == "weights" else "needs_running"),
            publication=language.texts.get(f"publication.{card.name}", card.publication),
            reference=card.reference,
        )
        for card in cards
    )


def _card(card: MethodCard | ReferenceCard, say: Callable[..., str], **facts: str) -> Section:
    rows = tuple((say(name), value) for name, value in facts.items())
    return Section(title=say("title", name=card.name, version=card.version), blocks=(Facts(rows=rows),))


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
