"""Two models as stacks of blocks: the drawing on the first screen of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelkin.document.blocks import Floor, ModelStack, Stacks

from .head import palette
from .layer_map import legend
from .markup import Html, element

_WIDTH = 380.0
_MARGIN, _ACROSS = 82.0, 84.0
"""Room for labels beside a stack, and its width: a phone shows them unscaled."""
_TOP, _BOTTOM = 42.0, 6.0
_LEAST_HEIGHT, _MOST_HEIGHT = 250.0, 420.0
_A_LAYER = 5.5
_GAP = 1.0
_THINNEST, _NARROWEST = 3.0, 5.0
_SMALLEST = 0.4
"""Smallest height of a stack as a share of the larger one's."""
_LETTERS = 29


def stacks_figure(block: Stacks) -> Html:
    """Draw the stacks with their legend, for a page."""
    return element(
        "figure",
        _picture(block),
        legend(block.legend),
        element("figcaption", block.caption),
        class_="stacks",
    )


def stacks_svg(block: Stacks) -> str:
    """Draw the stacks as a separate file, light or dark to match the reader's screen."""
    return f'<?xml version="1.0" encoding="utf-8"?>\n{_picture(block, alone=True)}\n'


_STYLE = """
svg { background: var(--surface); font-family: system-ui, sans-serif; }
text { font-size: 13px; fill: var(--muted); }
.stack-name { fill: var(--ink); font-weight: 600; }
.cell.shared { fill: var(--shared); fill-opacity: .8; }
.cell.together { fill: var(--shared); fill-opacity: .18; stroke: var(--shared); stroke-opacity: .7; }
.cell.not_shared { fill: var(--none); fill-opacity: .32; }
.cell.untested { fill: none; stroke: var(--muted); stroke-opacity: .45; }
.face { stroke: var(--none); stroke-opacity: .45; fill: none; }
.face.shared, .face.together { stroke: var(--shared); stroke-opacity: .75; }
"""


def _picture(block: Stacks, *, alone: bool = False) -> Html:
    """Draw both stacks and the lines between them."""
    most = max(len(block.candidate.floors), len(block.base.floors))
    room = min(_MOST_HEIGHT, max(_LEAST_HEIGHT, _A_LAYER * most + 60))
    bottom = _TOP + room
    heights = _heights(block, room)
    sides = ((block.candidate, _MARGIN), (block.base, _WIDTH - _MARGIN - _ACROSS))
    placed = [_placed(own, bottom) for own in heights]
    height = bottom + _BOTTOM
    parts: list[Html] = [element("title", block.alt)]
    if alone:
        parts.append(element("style", Html(palette() + _STYLE)))
    parts += _lines(block, placed)
    for (stack, left), places in zip(sides, placed, strict=True):
        parts += _stack(stack, left, places, outside=left < _WIDTH / 2)
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg" if alone else None,
        width=_WIDTH if alone else None,
        height=height if alone else None,
        viewBox=f"0 0 {_WIDTH:g} {height:.0f}",
        class_="stacks-drawing",
        role="img",
        aria_label=block.alt,
    )


# -- sizes ---------------------------------------------------------------------------------------------


def allotted(sizes: Sequence[float], room: float, least: float) -> list[float]:
    """Divide room by size, with at least a minimum for each; equally if there is too little."""
    if not sizes or least * len(sizes) >= room or not sum(sizes):
        return [room / max(1, len(sizes))] * len(sizes)
    low, high = 0.0, room / max(sizes) * len(sizes)
    for _ in range(60):
        scale = (low + high) / 2
        taken = sum(max(least, scale * size) for size in sizes)
        low, high = (scale, high) if taken < room else (low, scale)
    return [max(least, low * size) for size in sizes]


def _heights(block: Stacks, room: float) -> list[list[float]]:
    """Return the heights of floors: one scale for both models, unless one would be too small to see."""
    stacks = (block.candidate, block.base)
    largest = max(max(stack.size for stack in stacks), 1)
    found = []
    for stack in stacks:
        share = 1.0 if block.own_scales else max(_SMALLEST, stack.size / largest)
        found.append(allotted([floor.size for floor in stack.floors], room * share, _THINNEST + _GAP))
    return found


def _placed(heights: Sequence[float], bottom: float) -> list[tuple[float, float]]:
    """Return top and height of each floor, from below."""
    places, y = [], bottom
    for height in heights:
        y -= height
        places.append((y, height))
    return places


# -- marks ---------------------------------------------------------------------------------------------


def _stack(
    stack: ModelStack, left: float, places: Sequence[tuple[float, float]], *, outside: bool
) -> Iterator[Html]:
    middle, top = left + _ACROSS / 2, min(y for y, _ in places)
    yield element("text", stack.side, x=middle, y=top - 22, text_anchor="middle")
    name = stack.name if len(stack.name) <= _LETTERS else f"{stack.name[:14]}…{stack.name[-14:]}"
    yield element("text", name, x=middle, y=top - 7, text_anchor="middle", class_="stack-name")
    last = float("inf")
    for floor, (y, height) in zip(stack.floors, places, strict=True):
        yield from _blocks(stack, floor, left, y, max(1.0, height - _GAP))
        if last - (y + height / 2) >= 13:
            last = y + height / 2
            x = left - 6 if outside else left + _ACROSS + 6
            yield element("text", floor.label, x=x, y=last + 4, text_anchor="end" if outside else "start")


def _blocks(stack: ModelStack, floor: Floor, left: float, y: float, height: float) -> Iterator[Html]:
    widths = allotted([part.size for part in floor.parts], _ACROSS, _NARROWEST + _GAP)
    where = floor.label if floor.layer is None else f"{floor.layer}"
    for part, width in zip(floor.parts, widths, strict=True):
        note = f"{stack.side} {where}: {part.name}, {part.size:,}"
        # A hollow block shows its edge, half of which is drawn outside it.
        inset = 0.5 if part.state in ("untested", "together") else 0.0
        yield element(
            "rect",
            element("title", note),
            x=left + inset,
            y=y + inset,
            width=width - _GAP - 2 * inset,
            height=max(0.5, height - 2 * inset),
            rx=min(2.0, height / 4),
            class_=f"cell {part.state}",
        )
        left += width


def _lines(block: Stacks, placed: Sequence[Sequence[tuple[float, float]]]) -> Iterator[Html]:
    mine, theirs = placed
    start, end = _MARGIN + _ACROSS + 1, _WIDTH - _MARGIN - _ACROSS - 2
    for one, other, state in block.facing:
        y, there = (places[at][0] + places[at][1] / 2 for places, at in ((mine, one), (theirs, other)))
        yield element(
            "path",
            d=f"M{start:g} {y:.1f}C{start + 22:g} {y:.1f} {end - 22:g} {there:.1f} {end:g} {there:.1f}",
            class_=f"face {state}",
        )
