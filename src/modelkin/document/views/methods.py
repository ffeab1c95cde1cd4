"""The cards of methods."""

from __future__ import annotations

from collections.abc import Iterable

from modelkin.comparison.methods import MethodCard
from modelkin.document.blocks import Block, Facts, Section
from modelkin.document.language import ENGLISH, Language


def methods_view(cards: Iterable[MethodCard], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the cards, one below the other."""
    say = language.of("card")
    return tuple(
        Section(title=say("title", name=card.name, version=card.version), blocks=(_facts(card, language),))
        for card in cards
    )


def _facts(card: MethodCard, language: Language) -> Facts:
    say = language.of("card")
    rows = {
        "says": language.tell(card.claim),
        "looks_at": say(
            "where",
            component=language.word("component", card.component),
            axis=card.axis,
            depth=card.stage,
        ),
        "null": language.tell(card.null),
        "p_value": say("exact" if card.exact else "not_exact"),
        "needs": language.tell(card.needs),
        "defeated_by": language.tell(card.defeated_by),
        "reference": card.reference,
    }
    return Facts(rows=tuple((say(name), value) for name, value in rows.items()))
