"""Blocks as Markdown."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from modelkin.untrusted import visible

from .blocks import (
    Bar,
    Block,
    Bullets,
    Card,
    Chip,
    Code,
    Facts,
    Heading,
    HeatMaps,
    Inline,
    Link,
    Linked,
    Literally,
    Marked,
    Paragraph,
    Picture,
    Section,
    Strong,
    Table,
    Text,
    cell_of,
    is_drawn,
    parts_of,
)

_SPECIAL = re.compile(r"([\\`*\[\]<>|#~&!$])|(?<![A-Za-z0-9])(_)|(_)(?![A-Za-z0-9])")
_BLOCK_MARK = re.compile(r"^(\d{1,9}(?=[.)])|(?=[-+=]))")
"""What begins a list, or turns the line above into a heading."""
_FENCE = re.compile(r"`{3,}")


def render_markdown(blocks: Iterable[Block], *, up: str = "", align: bool = False) -> str:
    """Write a document.

    `up` is the way from it to the folder that files are relative to, such as ``../``. With `align`, numbers
    are aligned to the right.
    """
    writer = _MarkdownWriter(up, align)
    return "\n\n".join(text for block in blocks for text in writer.written(block, 2) if text) + "\n"


def shown(text: str) -> str:
    """Show text as it is: nothing in it is markup, or ends a cell or a line."""
    return _SPECIAL.sub(r"\\\g<0>", visible(text))


class _MarkdownWriter:
    def __init__(self, up: str, align: bool) -> None:
        self.up = up
        self.align = align

    def written(self, block: Block, level: int) -> Iterator[str]:
        """Yield the pieces of a block; sections in it are of `level`."""
        match block:
            case Section(button=True):
                yield from self._all(block.blocks, level)
            case Section():
                yield f"{'#' * level} {_line(block.title)}"
                yield from self._all(block.blocks, level + 1)
            case HeatMaps():
                yield from self._all(block.instead, level)
            case Card():
                yield f"**{shown(block.headline)}.** {_line(block.summary)}"
                yield shown(block.meaning)
                if block.drawing is not None:
                    yield f"![{shown(block.drawing.alt)}]({posixpath.join(self.up, block.drawing.file)})"
                    yield shown(block.drawing.caption)
                rows = tuple((fact.name, fact.text) for fact in block.facts if fact.text)
                yield _facts(Facts(rows=rows)) if rows else ""
            case Table():
                yield f"**{_line(block.title)}**" if block.title else ""
                yield self._table(block)
            case Picture():
                yield f"![{shown(block.alt)}]({posixpath.join(self.up, block.file)})"
                yield _line(block.caption)
            case _:
                yield self._piece(block)

    def _all(self, blocks: Iterable[Block], level: int) -> Iterator[str]:
        for block in blocks:
            yield from self.written(block, level)

    def _piece(self, block: Block) -> str:
        """Write a block that is one piece; nothing for one that is not shown here."""
        match block:
            case Heading():
                return f"{'#' * block.level} {_line(block.text)}"
            case Paragraph():
                return _paragraph(block)
            case Bullets():
                return "\n".join("- " + _unmarked(_line(item)) for item in block.items)
            case Facts():
                return _facts(block)
            case Link():
                return f"[{shown(block.text)}]({posixpath.join(self.up, block.file)})"
            case Code():
                return _code(block.text)
            case _:
                return ""

    def _table(self, table: Table) -> str:
        kept = [place for place in range(len(table.columns)) if not is_drawn(table, place)]
        rows = [[_cell(cell_of(row[place]).text) for place in kept] for row in table.rows]
        right = [self.align and place in table.numeric for place in kept]
        return _grid([shown(table.columns[place]) for place in kept], rows, right)


def _grid(titles: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    marks = [" ---: |" if place < len(right) and right[place] else " --- |" for place in range(len(titles))]
    lines = [f"| {' | '.join(titles)} |", f"|{''.join(marks)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _facts(block: Facts) -> str:
    strong = not any(block.columns)
    rows = [(f"**{shown(name)}**" if strong else shown(name), _cell(value)) for name, value in block.rows]
    return _grid([shown(title) for title in block.columns], rows)


def _paragraph(block: Paragraph) -> str:
    if isinstance(block.text, str) and block.lines:
        text = "\n".join(_unmarked(shown(line.strip(" "))) for line in block.text.split("\n"))
    else:
        text = _line(block.text)
    return f"**{text}**" if block.look == "strong" else text


def _unmarked(line: str) -> str:
    """Escape what would begin a block of its own."""
    return _BLOCK_MARK.sub(r"\1\\", line, count=1)


def _code(text: str) -> str:
    lines = [visible(line) for line in text.split("\n")]
    fence = "`" * max(3, *(len(run) + 1 for run in _FENCE.findall(text)), 3)
    return "\n".join([f"{fence}console", *(f"$ {line}" for line in lines), fence])


def _line(text: Text) -> str:
    return "".join(_inline(part) for part in parts_of(text))


def _cell(text: Text) -> str:
    """Write a line that does not end its cell."""
    return "".join(
        part.text.replace("|", "\\|") if isinstance(part, Marked) else _inline(part)
        for part in parts_of(text)
    )


def _inline(part: Inline) -> str:
    match part:
        case str():
            return shown(part)
        case Marked():
            return part.text
        case Strong():
            return f"**{shown(part.text)}**"
        case Literally():
            # Nothing is escaped between backticks, and a backtick in a name would end them.
            return (
                f"`{visible(part.text)}`"
                if "`" not in part.text and "|" not in part.text
                else shown(part.text)
            )
        case Linked():
            return f"[{shown(part.text)}]({part.file})"
        case Chip():
            return shown(part.text)
        case Bar():
            return ""
        case _:
            return shown(part.text)
