"""The text of a card as sentences: what is code, a quotation or a table is not a statement of its author."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+")
_END = re.compile(r"(?<=[.!?。])(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bal\.)\s+")
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,500}\)")
_MARKUP = re.compile(r"[*`]|(?<!\w)_+|_+(?!\w)|</?[A-Za-z][^<>]{0,200}>")
_LONGEST = 1_000
"""Characters of a sentence: nobody reads a longer one, and patterns stay quick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of a card."""

    text: str
    """With its links and emphasis."""
    heading: str
    """Of the section that it stands in; empty below the title."""
    before: str
    """The sentence before it in the same paragraph; empty for the first."""


def sentences(text: str) -> Iterator[Sentence]:
    """Return the sentences of Markdown, headings among them; no code, quotations, tables or comments."""
    heading = ""
    for paragraph, level in _paragraphs(_COMMENT.sub(" ", text)):
        if level:
            heading = paragraph if level > 1 else ""
        before = ""
        for one in _END.split(paragraph):
            if one and len(one) <= _LONGEST:
                yield Sentence(text=one, heading=heading, before=before)
            before = one


def plain(text: str) -> str:
    """Return a sentence without emphasis and tags, and links as their words."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def title(text: str) -> str:
    """Return the first heading of the highest level; empty if there is none."""
    return next((plain(words) for words, level in _paragraphs(text) if level == 1), "")


def words_of(text: str) -> frozenset[str]:
    """Return a set of words that is written as they are read."""
    return frozenset(text.split())


def _paragraphs(text: str) -> Iterator[tuple[str, int]]:
    """Return each paragraph, item of a list or heading as one line, and the level of a heading, else 0."""
    held: list[str] = []
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        own = fenced or not line.strip() or line.lstrip()[0] in "|>`~"
        heading = None if fenced else _HEADING.match(line)
        item = _ITEM.match(line)
        if (own or heading or item) and held:
            yield " ".join(held), 0
            held = []
        if heading:
            yield heading[2].strip(), len(heading[1])
        elif not own:
            held.append(line[item.end() :].strip() if item else line.strip())
    if held:
        yield " ".join(held), 0
