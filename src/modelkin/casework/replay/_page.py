"""``replay.html``: the story as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from modelkin._version import __version__
from modelkin.document import blocks as made
from modelkin.document import load_language, render_html

from ._document import Block, Heading, Paragraph, Picture, appendix, story, title_of
from ._record import Replay
from ._texts import load_texts


def replay_html(
    replay: Replay,
    language: str = "en",
    *,
    pictures: Mapping[str, tuple[Picture, ...]] | None = None,
    images: Mapping[str, bytes] | None = None,
) -> str:
    """Write the page; the PNG images of its pictures are put into it."""
    texts = load_texts(language)
    title = title_of(replay, texts)
    blocks = chain(story(replay, texts, pictures or {}), appendix(replay, texts))
    return render_html(
        (made.Heading(title, 1), *map(_made, blocks)),
        title=title,
        language=load_language(language),
        version=__version__,
        images={f"{name}.png": data for name, data in (images or {}).items()},
        footer=(made.Marked(texts.say("text.made_by", {"version": __version__})),),
    )


def _made(block: Block) -> made.Block:
    if isinstance(block, Heading):
        return made.Heading(block.text, key=block.key)
    if isinstance(block, Paragraph):
        return made.Paragraph(made.Marked(block.text))
    if isinstance(block, Picture):
        return made.Picture(f"{block.name}.png", block.alt)
    numeric = [place for place, number in enumerate(block.numeric) if number]
    return made.table(block.columns, block.rows, numeric=numeric, title=block.title)
