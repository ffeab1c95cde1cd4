"""The cards of methods."""

from __future__ import annotations

from collections.abc import Iterable

from modelkin.comparison.methods import MethodCard
from modelkin.document.blocks import Block, Facts, Section


def methods_view(cards: Iterable[MethodCard]) -> tuple[Block, ...]:
    """Return the cards, one below the other."""
    return tuple(
        Section(title=f"{card.name}  version {card.version}", blocks=(_facts(card),)) for card in cards
    )


def _facts(card: MethodCard) -> Facts:
    rows = {
        "says": card.claim,
        "looks at": f"{card.component}, along the axis {card.axis}, from depth {card.stage}",
        "null": card.null,
        "p-value": "exact under the null, no model of the weights" if card.exact else "not exact",
        "needs": card.needs,
        "defeated by": card.defeated_by,
        "reference": card.reference,
    }
    return Facts(rows=tuple((name, str(value)) for name, value in rows.items()))
