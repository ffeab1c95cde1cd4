"""The replay on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ._document import Block, Heading, Paragraph, TableBlock, appendix, story, title_of
from ._record import Replay
from ._texts import load_texts

_INDENT = 2


def replay_view(replay: Replay, language: str = "en", *, verbose: bool = False) -> RenderableType:
    """Draw the story; with `verbose` also contradictions, checks and sources."""
    texts = load_texts(language)
    blocks: Iterable[Block] = story(replay, texts, {})
    wrong = tuple(check for check in replay.checks if not check.agrees)
    parts: list[RenderableType] = [Text(title_of(replay, texts), style="bold"), Text()]
    if verbose:
        blocks = chain(blocks, appendix(replay, texts))
    in_verdict = False
    for block in blocks:
        if isinstance(block, Heading):
            in_verdict = block.key == "verdict"
        parts += _drawn(block, boxed=in_verdict)
    if wrong:
        parts.append(Text(texts.say("text.disagree"), style="bold red"))
        parts += [Text(f"  {check.key}: {check.computed:.7g}, {check.published:.7g}") for check in wrong]
    return Group(*parts)


def _drawn(block: Block, *, boxed: bool) -> Iterable[RenderableType]:
    if isinstance(block, Heading):
        return [Text(block.text, style="bold cyan")]
    if isinstance(block, Paragraph):
        if boxed:
            return [Panel(Text(block.text), box=box.ROUNDED)]
        return [Padding(Text(block.text), (0, 0, 1, _INDENT))]
    if isinstance(block, TableBlock):
        return [Padding(_table(block), (0, 0, 1, 2 * _INDENT))]
    return []


def _table(block: TableBlock) -> Table:
    table = Table(
        title=block.title or None,
        title_justify="left",
        title_style="italic",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for name, numeric in zip(block.columns, block.numeric, strict=True):
        table.add_column(name, justify="right" if numeric else "left")
    for row in block.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
