"""Blocks for a person at a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text as Line

from modelkin.untrusted import visible

from .blocks import (
    Bar,
    Block,
    Bullets,
    Card,
    Chip,
    Code,
    Facts,
    FamilyMap,
    ForestPicture,
    Heading,
    HeatMaps,
    Inline,
    LayerFigures,
    Link,
    Literally,
    Marked,
    PageOnly,
    Paragraph,
    Picture,
    ScanForm,
    Section,
    Strong,
    Table,
    Text,
    cell_of,
    parts_of,
)
from .terminal_stacks import StacksArt

_COLOUR = {"shared": "magenta", "none": "cyan", "open": "yellow"}
_MARKS = re.compile(r"`([^`]+)`|\*([^*]+)\*")
_BAR_WIDTH = 8
_NARROW = 100
_ROOM_FOR_NUMBERS = 0.6
_LONG_TITLE = 24
_INDENT = (0, 0, 0, 2)


def render_terminal(blocks: Iterable[Block]) -> RenderableType:
    """Return blocks, one below the other, as something `rich` can print."""
    return Group(*_spaced(blocks))


def _spaced(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    """Yield what is drawn, with an empty line where a new part begins."""
    before: Block | None = None
    for block in _shown(blocks):
        if before is not None and _is_apart(before, block):
            yield Line()
        yield _drawn(block)
        before = block


def _shown(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield single blocks: the contents of sections, and what replaces pictures."""
    for block in blocks:
        match block:
            case Section(button=True):
                yield from _shown(block.blocks)
            case Section():
                yield Heading(block.title, 2)
                yield from _shown(block.blocks)
            case HeatMaps():
                yield from _shown(block.instead)
            case PageOnly() | LayerFigures() | ForestPicture() | FamilyMap() | ScanForm() | Picture():
                pass
            case _:
                yield block


def _is_apart(before: Block, block: Block) -> bool:
    match before, block:
        case Heading(), _:
            return before.level == 1
        case Paragraph(look="note"), Paragraph(look="note") | Table():
            return False
        case (_, Heading() | Card() | Code() | Paragraph()) | (Card() | Code() | Paragraph(), _):
            return True
        case _:
            return isinstance(before, Facts) or (isinstance(before, Table) and isinstance(block, Table))


def _drawn(block: Block) -> RenderableType:
    match block:
        case Heading():
            return _line(block.text, "bold")
        case Paragraph():
            return _paragraph(block)
        case Bullets():
            return _bullets(block)
        case Table():
            return _Fitting(block)
        case Facts():
            return Padding(_facts(block.rows), _INDENT, expand=False)
        case Card():
            return _card(block)
        case Link():
            return Line(visible(f"{block.text}: {block.file}"))
        case Code():
            return Padding(Line(visible(block.text, keep="\n"), style="cyan"), _INDENT, expand=False)
        case _:
            raise AssertionError(f"{type(block).__name__} is not drawn")


def _paragraph(block: Paragraph) -> RenderableType:
    look = {"strong": "bold", "note": "dim"}.get(block.look, "")
    return _line(block.text, look, keep="\n" if block.lines else "")


def _bullets(block: Bullets) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(width=3, justify="right")
    grid.add_column(overflow="fold")
    for item in block.items:
        grid.add_row("-", _line(item))
    return grid


def _facts(rows: Iterable[tuple[str, Text]]) -> Grid:
    grid = Grid(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Line(visible(name)), _line(value))
    return grid


_LONGEST_TITLE = 70
"""Of a box, for a terminal of 80 columns."""


def _card(card: Card) -> Panel:
    colour = _COLOUR[card.tone]
    # A title longer than a line would be cut off.
    headline = Line(visible(card.headline), style=f"bold {colour}")
    in_title = headline.cell_len <= _LONGEST_TITLE
    parts: list[RenderableType] = [] if in_title else [headline, Line()]
    parts += [_line(card.summary, "bold")]
    parts += [Line(), _line(card.meaning)] if card.meaning else []
    parts += [Line(), StacksArt(card.drawing)] if card.drawing else []
    facts = [(fact.name, fact.text) for fact in card.facts if fact.text]
    parts += [Line(), _facts(facts)] if facts else []
    return Panel(
        Group(*parts),
        title=headline if in_title else None,
        title_align="left",
        border_style=colour,
        padding=(1, 2),
    )


class _Fitting:
    """A table, a little to the right, with narrower gaps on a narrow terminal."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.table.title:
            yield _line(self.table.title, "bold")
        grid = Grid(box=None, pad_edge=False, header_style="dim")
        grid.collapse_padding = options.max_width < _NARROW
        whole = self._keeps_numbers(options.max_width)
        for place, title in enumerate(self.table.columns):
            number = place in self.table.numeric
            justify: JustifyMethod = "right" if number else "left"
            # Numbers stay whole. A long title over them is broken, or it would leave no room for the rest.
            breaks = len(title) > max(_LONG_TITLE, self._longest(place))
            least = self._longest(place) if number and whole and breaks else None
            if place == 0 and self._names_numbers:
                least = min(self._longest(place), options.max_width // 4)
            grid.add_column(
                Line(visible(title)),
                justify=justify,
                overflow="fold",
                no_wrap=number and whole and not breaks,
                min_width=least,
            )
        for row in self.table.rows:
            grid.add_row(*(_cell(cell_of(item).text) for item in row))
        yield Padding(grid, _INDENT, expand=False)

    def _keeps_numbers(self, width: int) -> bool:
        """Say whether there is room for words next to unbroken numbers."""
        places = self.table.numeric & set(range(len(self.table.columns)))
        return sum(map(self._longest, places)) < _ROOM_FOR_NUMBERS * width

    def _longest(self, place: int) -> int:
        """Return the letters of the longest cell of a column."""
        cells = (row[place] for row in self.table.rows if place < len(row))
        return max((len(_line(cell_of(cell).text)) for cell in cells), default=0)

    @property
    def _names_numbers(self) -> bool:
        """Whether the first column says what the numbers in all others are of."""
        others = set(range(1, len(self.table.columns)))
        return bool(others) and others <= self.table.numeric


def _cell(text: Text) -> RenderableType:
    return _Drawn(text) if isinstance(text, Bar) else _line(text)


class _Drawn:
    """An effect as a bar; negative effects are drawn hollow."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # In a narrow column the whole bar is drawn smaller: cut off, it would look full.
        width = min(_BAR_WIDTH, options.max_width)
        # Rounded down: only an identical part fills the bar.
        length = min(width, int(abs(self.bar.value) * width + 1e-6))
        full, hollow, rest = ("#", "o", ".") if options.ascii_only else ("█", "▒", "·")
        drawn = (full if self.bar.value > 0 else hollow) * length
        yield Segment(drawn + rest * (width - length))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_BAR_WIDTH, _BAR_WIDTH)


def _line(text: Text, style: str = "", *, keep: str = "") -> Line:
    line = Line(style=style)
    for part in parts_of(text):
        line.append_text(_inline(part, keep))
    return line


def _inline(part: Inline, keep: str) -> Line:
    match part:
        case str():
            return Line(visible(part, keep=keep))
        case Marked():
            return _marked(part.text)
        case Strong():
            return Line(visible(part.text), style="bold")
        case Literally():
            return Line(visible(part.text), style="cyan")
        case Chip():
            return Line(visible(part.text), style=_COLOUR[part.tone])
        case Bar():
            return Line()
        case _:
            return Line(visible(part.text))


def _marked(text: str) -> Line:
    line, at = Line(), 0
    for found in _MARKS.finditer(text):
        line.append(text[at : found.start()])
        line.append(found[1] or found[2], style="cyan" if found[1] else "italic")
        at = found.end()
    line.append(text[at:])
    return line
