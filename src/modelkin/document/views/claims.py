"""Every claim of a model card next to what the weights say about it."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Strong, table
from modelkin.document.language import ENGLISH, Language
from modelkin.document.numbers import p_text
from modelkin.lineage.cards import CardCheck

from .words import labels


def claims_view(result: CardCheck, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the claims as blocks: contradicted ones first."""
    return tuple(_blocks(result, language))


def _blocks(result: CardCheck, language: Language) -> Iterator[Block]:
    say = language.say
    counts = {status: sum(item.status == status for item in result.claims) for status in _ORDER}
    told = ", ".join(f"{count} {language.word('claim_status', status)}" for status, count in counts.items())
    yield Paragraph((Strong(result.model.ref), f": {told if result.claims else say('text.no_claims')}"))
    if result.claims:
        ordered = sorted(result.claims, key=lambda item: _ORDER.index(item.status))
        rows = [
            (
                Strong(language.word("claim_status", item.status)),
                language.tell(item.claim),
                item.source,
                language.tell(item.reason),
                p_text(item.log10_p) if item.log10_p is not None else "-",
            )
            for item in ordered
        ]
        yield table(labels(language, "claim_status", "claim", "said_by", "reason", "p_at_most"), rows)
    if result.ancestors:
        items = tuple(f"{child} → {parent}" for child, parent in result.ancestors)
        yield Section(title=say("title.ancestors"), blocks=(Bullets(items),))
    if result.notes:
        notes = Bullets(tuple(language.tell(note) for note in result.notes))
        yield Section(title=say("title.notes"), blocks=(notes,))
    yield Paragraph(say("text.about_claims"), "note")


_ORDER = ("contradicted", "supported", "untestable")
