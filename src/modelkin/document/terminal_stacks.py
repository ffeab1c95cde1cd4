"""Two models as stacks of blocks in a dozen lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text as Line

from modelkin.untrusted import visible

from .blocks import Floor, ModelStack, PartState, Stacks
from .numbers import runs_text

_LAYER_ROWS = 8
"""Rows for layers: with embedding, head and names about a dozen lines."""
_WIDEST, _NARROWEST = 30, 6
_LABEL, _BETWEEN = 10, 13
_LETTERS: dict[PartState, tuple[str, str]] = {
    "shared": ("█", "#"),
    "together": ("▓", "+"),
    "not_shared": ("░", "-"),
    "untested": ("·", "."),
}
_COLOUR: dict[PartState, str] = {
    "shared": "magenta",
    "together": "magenta",
    "not_shared": "cyan",
    "untested": "dim",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """Floors that are drawn in one line, with their positions in the stack."""

    label: str
    places: range
    parts: tuple[tuple[int, PartState], ...]
    """Size and state of each component."""


class StacksArt:
    """The stacks, as something `rich` can print; it uses the available width."""

    def __init__(self, block: Stacks) -> None:
        self.block = block

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(2 * (_LABEL + _NARROWEST) + _BETWEEN, 2 * (_LABEL + _WIDEST) + _BETWEEN)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = (options.max_width - _BETWEEN) // 2 - _LABEL
        width, plain = max(_NARROWEST, min(_WIDEST, free)), options.ascii_only
        layers = max(sum(floor.layer is not None for floor in stack.floors) for stack in self._stacks())
        together = max(1, -(-layers // _LAYER_ROWS))
        mine, theirs = ([*_rows(stack, together)] for stack in self._stacks())
        yield self._names(width)
        for place in range(max(len(mine), len(theirs)) - 1, -1, -1):
            left = mine[place] if place < len(mine) else None
            right = theirs[place] if place < len(theirs) else None
            line = Line(_fitted(left.label if left else "", _LABEL - 1, right=True) + " ")
            line.append_text(_blocks(left, width, plain=plain))
            line.append_text(self._between(left, right, plain=plain))
            line.append_text(_blocks(right, width, plain=plain))
            line.append(f" {right.label}" if right else "")
            line.rstrip()
            yield line
        yield self._legend(plain=plain)

    def _stacks(self) -> tuple[ModelStack, ModelStack]:
        return self.block.candidate, self.block.base

    def _names(self, width: int) -> Line:
        left, right = (_fitted(visible(stack.name), width + _LABEL - 1) for stack in self._stacks())
        return Line(
            " " * _LABEL + set_cell_size(left.rstrip(), width + _BETWEEN) + right.rstrip(), style="bold"
        )

    def _between(self, left: _Row | None, right: _Row | None, *, plain: bool) -> Line:
        """Draw a line to the row beside it, or name the layers it faces elsewhere."""
        found = [item for item in self.block.facing if left is not None and item[0] in left.places]
        if not found:
            return Line(" " * _BETWEEN)
        best = min((state for _, _, state in found), key=[*_LETTERS].index)
        beside = right is not None and all(there in right.places for _, there, _ in found)
        dash = "-" if plain else "─"
        if beside:
            return Line(f" {dash * (_BETWEEN - 2)} ", style=_COLOUR[best])
        faced = {there for _, there, _ in found}
        layers = sorted(
            floor.layer for place in faced if (floor := self.block.base.floors[place]).layer is not None
        )
        arrow = "->" if plain else "→"
        label = runs_text(layers) or self.block.base.floors[min(faced)].label
        words = f"{arrow} {label}"
        if layers and cell_len(words) > _BETWEEN - 2:
            words = f"{arrow} {layers[0]}..{layers[-1]}"
        return Line(_fitted(f" {words}", _BETWEEN), style=_COLOUR[best])

    def _legend(self, *, plain: bool) -> Line:
        line = Line(" " * _LABEL, style="dim")
        for number, (state, words) in enumerate(self.block.legend):
            line.append("   " if number else "")
            line.append(_LETTERS[state][plain], style=_COLOUR[state])
            line.append(f" {words}")
        return line


def _rows(stack: ModelStack, together: int) -> Iterator[_Row]:
    """Group layers into rows, from below; what is outside layers has its own row."""
    group: list[int] = []
    for place, floor in enumerate(stack.floors):
        if floor.layer is None:
            yield from _gathered(stack, group)
            group = []
            yield _Row(floor.label, range(place, place + 1), _parts([floor]))
            continue
        group.append(place)
        if len(group) == together:
            yield from _gathered(stack, group)
            group = []
    yield from _gathered(stack, group)


def _gathered(stack: ModelStack, group: Sequence[int]) -> Iterator[_Row]:
    if group:
        floors = [stack.floors[place] for place in group]
        layers = [floor.layer for floor in floors if floor.layer is not None]
        yield _Row(runs_text(layers), range(group[0], group[-1] + 1), _parts(floors))


def _parts(floors: Iterable[Floor]) -> tuple[tuple[int, PartState], ...]:
    """Sum up each component: shared in some of several layers is neither shared nor not."""
    sizes: dict[str, int] = {}
    states: dict[str, set[PartState]] = {}
    for floor in floors:
        for part in floor.parts:
            sizes[part.component] = sizes.get(part.component, 0) + part.size
            states.setdefault(part.component, set()).add(part.state)
    return tuple((sizes[name], _summed(found)) for name, found in states.items())


def _summed(states: set[PartState]) -> PartState:
    if len(states) == 1:
        return next(iter(states))
    return "together" if states & {"shared", "together"} else "not_shared"


def _blocks(row: _Row | None, width: int, *, plain: bool) -> Line:
    """Draw the parts of a row side by side, a gap between them."""
    if row is None:
        return Line(" " * width)
    line, total = Line(), max(1, sum(size for size, _ in row.parts))
    left = width - len(row.parts) + 1
    for number, (size, state) in enumerate(row.parts):
        most = left - (len(row.parts) - number - 1)
        last = number == len(row.parts) - 1
        length = most if last else max(1, min(most, round(size / total * width)))
        left -= length
        line.append(_LETTERS[state][plain] * length + ("" if last else " "), style=_COLOUR[state])
    return line


def _fitted(text: str, width: int, *, right: bool = False) -> str:
    """Cut or pad a text to this many columns."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    room = " " * (width - cell_len(text))
    return room + text if right else text + room
