"""The cards of methods for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from modelkin.comparison.methods import MethodCard


def methods_view(cards: Iterable[MethodCard]) -> RenderableType:
    """Draw the cards, one below the other."""
    parts: list[RenderableType] = []
    for card in cards:
        parts += [_headline(card), Padding(_facts(card), (0, 0, 1, 2))]
    return Group(*parts)


def _headline(card: MethodCard) -> Text:
    text = Text(card.name, style="bold cyan")
    return text.append(f"  version {card.version}", style="dim")


def _facts(card: MethodCard) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "says": card.claim,
        "looks at": f"{card.component}, along the axis {card.axis}, from depth {card.stage}",
        "null": str(card.null),
        "p-value": "exact under the null, no model of the weights" if card.exact else "not exact",
        "needs": card.needs,
        "defeated by": card.defeated_by,
        "reference": card.reference,
    }
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table
