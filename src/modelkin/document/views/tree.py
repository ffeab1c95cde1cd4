"""A collection as a forest: families, edges with their evidence, directions with their facts."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Code,
    ForestPicture,
    Heading,
    PageOnly,
    Paragraph,
    Section,
    Table,
    table,
)
from modelkin.document.language import ENGLISH, Language
from modelkin.lineage import FamilyForest
from modelkin.lineage.tree_result import Family, TreeEdge

_ABOUT_DIRECTIONS = ("tree-own-branch",)
"""Notes on why no direction is named: they belong to the edges, not to the tree of distances."""


def tree_view(
    found: FamilyForest, language: Language = ENGLISH, *, every_pair: bool = False
) -> tuple[Block, ...]:
    """Return a forest as blocks; `every_pair` adds the verdict on each pair."""
    return tuple(_blocks(found, language, every_pair=every_pair))


def _blocks(found: FamilyForest, language: Language, *, every_pair: bool) -> Iterator[Block]:
    said = language.of("tree")
    yield Heading(said("question"), 1)
    families = str(len(found.families))
    yield Card(
        headline=said("headline", n=families) if found.families else said("none"),
        tone="shared" if found.families else "none",
        summary=language.tell(found.summary),
    )
    if found.families:
        yield PageOnly(blocks=(ForestPicture(found),))
    for number, family in enumerate(found.families):
        title = said("family", middle=family.middle, n=str(len(family.members)))
        yield Section(title=title, blocks=tuple(_family(found, family, language)), key=f"family-{number}")
    if found.alone:
        yield Section(title=said("alone"), blocks=(Paragraph(", ".join(found.alone)),), key="alone")
    if every_pair:
        yield Section(title=said("pairs"), blocks=(_pairs(found, language),), key="pairs", closed=True)
    limits = Bullets(tuple(map(language.tell, found.limitations)))
    yield Section(title=said("limits"), blocks=(limits,), key="limits")
    yield Paragraph(
        said("read", pairs=str(len(found.pairs)), depth=found.depth, seed=str(found.seed)), "note"
    )


def _family(found: FamilyForest, family: Family, language: Language) -> Iterator[Block]:
    inside = [edge for edge in found.edges if edge.first in family.members]
    yield _edges(inside, language)
    for note in family.notes:
        if note.code in _ABOUT_DIRECTIONS:
            yield Paragraph(language.tell(note), "note")
    facts = [fact for edge in inside for fact in edge.facts]
    if facts:
        titles = [language.say(f"tree.{key}") for key in ("parent", "child", "why")]
        rows = [(fact.parent, fact.child, language.tell(fact.reason)) for fact in dict.fromkeys(facts)]
        yield Section(title=language.say("tree.facts"), blocks=(table(titles, rows),), closed=True)
    if family.newick is not None:
        parts: list[Block] = [Code(family.newick)]
        if family.four_point is not None:
            parts.append(Paragraph(f"{language.say('tree.four_point')}: {family.four_point:.3f}"))
        about_tree = (note for note in family.notes if note.code not in _ABOUT_DIRECTIONS)
        parts += [Paragraph(language.tell(note), "note") for note in about_tree]
        yield Section(title=language.say("tree.tree"), blocks=tuple(parts), closed=True)


def _edges(edges: list[TreeEdge], language: Language) -> Table:
    keys = ("model", "on", "kind", "done", "direction", "distance", "inheritance", "support", "why")
    titles = [language.say(f"tree.{key}") for key in keys]
    rows = [
        (
            edge.first,
            edge.second,
            language.say(f"tree.kind-{edge.kind}"),
            done_text(edge, language),
            direction_text(edge, language),
            number_text(edge.distance, 3),
            number_text(edge.inheritance, 2),
            number_text(edge.support, 2),
            language.tell(edge.reason),
        )
        for edge in edges
    ]
    return table(titles, rows, numeric=(5, 6, 7))


def direction_text(edge: TreeEdge, language: Language) -> str:
    """Say which of both came first, or that it is not identified."""
    if edge.parent is None:
        return language.say("tree.unknown")
    return f"{edge.parent} → {edge.first if edge.parent == edge.second else edge.second}"


def done_text(edge: TreeEdge, language: Language) -> str:
    """Say what was done along an edge, or that it could not be told."""
    if edge.kind == "merge":
        return language.say("tree.kind-merge")
    if edge.relation in (None, "unknown"):
        return language.say("tree.not-told")
    return language.word("relation", str(edge.relation))


def number_text(value: float | None, digits: int) -> str:
    """Write a number that may not have been measured."""
    return "-" if value is None else f"{value:.{digits}f}"


def _pairs(found: FamilyForest, language: Language) -> Table:
    rows = [
        (pair.first, pair.second, language.word("short", pair.conclusion), number_text(pair.effect, 3))
        for pair in found.pairs
    ]
    names = (language.say("tree.model"), language.say("tree.model"), language.say("label.conclusion"))
    return table((*names, language.say("label.effect")), rows, numeric=(3,))
