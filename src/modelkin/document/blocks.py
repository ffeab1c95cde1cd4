"""What a document is made of. Views turn results into blocks; each renderer writes any of them.

A plain `str` is untrusted text: every renderer shows it as it is, and nothing in it is markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from modelkin.atlas import AtlasIndex
    from modelkin.comparison import Comparison
    from modelkin.lineage import FamilyForest

Tone = Literal["shared", "none", "open"]
"""Colour of a conclusion. Neither red nor green: a common origin is not a crime, no evidence not an
acquittal."""


# -- inside a line -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marked:
    """Our own text: ``*emphasis*`` and ```code``` in it are markup. Never holds untrusted text."""

    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """A sentence with untrusted names, isolated from the direction of the text around them."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strong:
    """Emphasised text."""

    text: str


@dataclass(frozen=True, slots=True)
class Literally:
    """A command, a digest, a name: in a monospaced font."""

    text: str


@dataclass(frozen=True, slots=True)
class Linked:
    """A name that links to another page of the folder. The address is ours, the name untrusted."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class Runs:
    """Layers in their grammar (``0-10,20``), broken between runs only."""

    text: str


@dataclass(frozen=True, slots=True)
class Chip:
    """A conclusion in one coloured word."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An effect between chance (0) and identity (1), drawn. Left out if nothing can be drawn."""

    value: float
    low: float
    high: float
    start: float
    """Where the axis begins; below 0 there is room for effects below chance."""
    limit: float | None = None
    """The smallest effect that would have been found."""
    label: str


Inline = str | Marked | Named | Strong | Literally | Linked | Runs | Chip | Bar
Text = Inline | tuple[Inline, ...]


# -- blocks --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title of the document. With a `key`, a page links to it."""

    text: Text
    level: int = 2
    key: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph.

    `strong` ones are answers, a `note` explains what is above it, a `lead` opens a section.
    """

    text: Text
    look: Literal["plain", "strong", "note", "lead"] = "plain"
    lines: bool = False
    """Whether line breaks of a plain text are kept. Otherwise a line break came with a value, and is shown as
    an escape, so that it cannot begin a heading or a list of its own."""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Text, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell that is more than its text."""

    text: Text
    sort: float | None = None
    """What a page sorts it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. A column of bars has no title, and is left out if nothing can be drawn."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text | Cell, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Indices of numeric columns."""
    title: Text = ""
    kind: str = ""
    """What it is about; a page styles some kinds differently."""
    sortable: bool = False
    muted: frozenset[int] = frozenset()
    """Indices of de-emphasised rows: what was not done, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names with values."""

    rows: tuple[tuple[str, Text], ...]
    columns: tuple[str, str] = ("", "")
    """Titles, if a document needs them; without them the names are strong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number that a page shows large."""

    label: str
    value: str
    rest: str = ""
    """Such as its interval, in smaller type."""
    note: str
    bar: Bar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A line of a card."""

    name: str
    text: Text
    """Empty if there is only a tile."""
    tile: Tile | None = None
    """What a page shows in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A verdict at a glance: in plain words first, then its numbers."""

    headline: str
    tone: Tone
    summary: Text
    meaning: str = ""
    facts: tuple[Fact, ...] = ()
    drawing: Stacks | None = None
    """What a reader sees next to the words."""


# -- two models, drawn ---------------------------------------------------------------------------------

PartState = Literal["shared", "together", "not_shared", "untested"]
"""What is known about a part: shared; shared in some that were tested together; no evidence; not tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPart:
    """A part of a layer, sized by its parameters."""

    component: str
    name: str
    size: int
    state: PartState


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """A layer, or what is below or above all layers."""

    label: str
    parts: tuple[StackPart, ...]
    layer: int | None = None

    @property
    def size(self) -> int:
        """Parameters of all its parts."""
        return sum(part.size for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStack:
    """One model: its floors from below."""

    side: str
    name: str
    floors: tuple[Floor, ...]

    @property
    def size(self) -> int:
        """Parameters of all its floors."""
        return sum(floor.size for floor in self.floors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Two models side by side: which parts are shared, and which layers face each other."""

    candidate: ModelStack
    base: ModelStack
    facing: tuple[tuple[int, int, PartState], ...]
    """Indices of floors that face each other, and the best that is known there."""
    alt: str
    caption: str
    legend: tuple[tuple[PartState, str], ...]
    own_scales: bool = False
    """Whether each stack has its own scale, since one is much larger."""
    file: str = "figures/stacks.svg"
    """Where a document finds the drawing."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure: its file in the folder of the document, what it shows, and what to say about it."""

    file: str
    alt: str
    caption: Text = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A reference to another file of the folder."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """A command."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under a title; a page links to those with a `key` and opens `closed` ones on demand."""

    title: Text
    blocks: tuple[Block, ...]
    key: str = ""
    closed: bool = False
    button: bool = False
    """Whether the title is only a button that opens it. Left out if everything is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOnly:
    """What only a page has room for. The JSON has it too."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The figures of layers, which a page draws itself and makes interactive."""

    result: Comparison


@dataclass(frozen=True, slots=True)
class HeatMaps:
    """All layers against all layers, as `LayerFigures`; others show what is in them as tables."""

    result: Comparison
    instead: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ForestPicture:
    """A forest, which a page draws itself; other renderers show the edges as tables."""

    result: FamilyForest


@dataclass(frozen=True, slots=True)
class FamilyMap:
    """All models of an atlas on one canvas, with a search; others show families as tables."""

    index: AtlasIndex


@dataclass(frozen=True, slots=True)
class ScanForm:
    """Where readers of a served atlas name a model and watch the scan."""

    needs_token: bool


Block = (
    Heading
    | Paragraph
    | Bullets
    | Table
    | Facts
    | Card
    | Picture
    | Link
    | Code
    | Section
    | PageOnly
    | LayerFigures
    | HeatMaps
    | ForestPicture
    | FamilyMap
    | ScanForm
)


def parts_of(text: Text) -> tuple[Inline, ...]:
    """Return the parts of a text, one or several."""
    return text if isinstance(text, tuple) else (text,)


def cell_of(item: Text | Cell) -> Cell:
    """Return a cell, whatever was given for it."""
    return item if isinstance(item, Cell) else Cell(text=item)


def is_drawn(table: Table, place: int) -> bool:
    """Say whether a column holds bars and nothing else that can be read."""
    return not table.columns[place] and any(isinstance(row[place], Bar) for row in table.rows)


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[Text | Cell]],
    *,
    numeric: Iterable[int] = (),
    title: Text = "",
) -> Table:
    """Return a table from any iterables."""
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
        numeric=frozenset(numeric),
        title=title,
    )
