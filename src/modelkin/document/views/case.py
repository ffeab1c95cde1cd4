"""The case file as blocks: its number, time and command, and the digests of the files it covers."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.document.blocks import Block, Facts, Heading, Literally, Named, Paragraph, Section, table
from modelkin.document.language import Language

_HOW = {
    "published": "text.digest_published",
    "computed": "text.digest_computed",
    "unknown": "text.digest_unknown",
}


def case_blocks(result: Comparison, language: Language) -> tuple[Block, ...]:
    """Return the section of the case, if the comparison belongs to one."""
    case, say = result.case, language.say
    if case is None:
        return ()
    versions = {"modelkin": result.environment.modelkin, "Python": case.python, **case.packages}
    facts = (
        (say("label.case_id"), case.id),
        (say("label.made_at"), case.made_at),
        (say("label.command"), Literally(case.command)),
        (say("label.versions"), ", ".join(f"{name} {known}" for name, known in versions.items())),
    )
    titles = ("", say("label.file"), say("label.sha256"), say("label.digest_how"))
    rows = [
        (language.word("side", item.model), item.file, item.sha256 or "-", say(_HOW[item.how]))
        for item in case.weights
    ]
    blocks = (Facts(rows=facts), table(titles, rows), Paragraph(say("text.verify"), "note"))
    return (Section(title=say("title.case"), key="case", blocks=blocks),)


def cover(result: Comparison, language: Language) -> Iterator[Block]:
    """Yield the first page of a print: the question, and the answer in plain words."""
    say, verdict, case = language.say, result.verdict, result.case
    names = (result.candidate.ref, result.base.ref)
    question = say("title.question", candidate=names[0], base=names[1])
    facts = [(say("side.candidate"), result.candidate.origin), (say("side.base"), result.base.origin)]
    if case is not None:
        facts = [(say("label.case_id"), case.id), (say("label.made_at"), case.made_at), *facts]
    yield Heading(Named(question, names), 1)
    blocks: tuple[Block, ...] = (
        Paragraph(language.tell(verdict.headline), "strong"),
        Paragraph(language.tell(verdict.summary)),
        Facts(rows=tuple(facts)),
        *(Paragraph(language.tell(item), "note") for item in verdict.limitations),
    )
    yield Section(title=say("title.verdict"), key="cover", blocks=blocks)


def annex(result: Comparison, language: Language) -> Section:
    """Return every range that was read, with its digest."""
    say = language.say
    rows = [
        (language.word("side", item.model), item.file, f"{item.start:,}-{item.stop:,}", item.sha256)
        for item in result.ledger.ranges
    ]
    titles = ("", say("label.file"), say("label.bytes"), say("label.sha256"))
    return Section(title=say("title.annex"), key="annex", blocks=(table(titles, rows),))
