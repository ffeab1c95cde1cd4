"""The folder of a replay: numbers, document, page, figures."""

from __future__ import annotations

import os
from pathlib import Path

from modelkin.errors import UsageError
from modelkin.figures import draw

from ._document import Picture
from ._figures import CHAPTERS, replay_figures
from ._markdown import replay_markdown
from ._page import replay_html
from ._record import Replay


def write_replay(
    replay: Replay, folder: str | os.PathLike[str], language: str = "en", *, dpi: int = 150
) -> tuple[Path, ...]:
    """Write ``replay.json``, ``REPLAY.md``, ``replay.html`` and ``figures/``; return the paths.

    Raises
    ------
    UsageError
        The folder cannot be written, or the language is not known.
    """
    place = Path(folder)
    figures = replay_figures()
    pictures = {
        chapter: tuple(Picture(name=name, alt=figures[name].alt) for name in names)
        for chapter, names in CHAPTERS.items()
    }
    markdown = replay_markdown(replay, language, pictures=pictures)
    paths: list[Path] = []
    for name, figure in figures.items():
        paths += draw(figure, place / "figures", name, dpi=dpi)
    images = {path.stem: path.read_bytes() for path in paths if path.suffix == ".png"}
    page = replay_html(replay, language, pictures=pictures, images=images)
    texts = {"replay.json": replay.to_json() + "\n", "REPLAY.md": markdown, "replay.html": page}
    for name, text in texts.items():
        try:
            (place / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(str(place / name), f"cannot be written: {error.strerror or error}") from error
        paths.append(place / name)
    return tuple(paths)
