"""``REPLAY.md``: the story as a document."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from modelkin._version import __version__

from ._document import Block, Heading, Paragraph, Picture, TableBlock, appendix, story, title_of
from ._record import Replay
from ._texts import load_texts


def replay_markdown(
    replay: Replay, language: str = "en", *, pictures: Mapping[str, tuple[Picture, ...]] | None = None
) -> str:
    """Write the story with all tables; pictures are linked from ``figures/``."""
    texts = load_texts(language)
    parts = [f"# {_plain(title_of(replay, texts))}"]
    parts += [
        _written(block) for block in chain(story(replay, texts, pictures or {}), appendix(replay, texts))
    ]
    parts.append(texts.say("text.made_by", {"version": __version__}))
    return "\n\n".join(parts) + "\n"


def _written(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}"
    if isinstance(block, Paragraph):
        return _plain(block.text)
    if isinstance(block, Picture):
        return f"![{_plain(block.alt)}](figures/{block.name}.svg)"
    return _table(block)


def _table(block: TableBlock) -> str:
    lines = [f"*{_plain(block.title)}*", ""] if block.title else []
    lines.append(f"| {' | '.join(_plain(name) for name in block.columns)} |")
    lines.append(f"|{''.join(' ---: |' if numeric else ' --- |' for numeric in block.numeric)}")
    lines += [f"| {' | '.join(_plain(cell) for cell in row)} |" for row in block.rows]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Keep what Markdown would take for marks; `code` of ours stays code."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")
