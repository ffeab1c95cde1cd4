"""The replay as blocks, the verdict first, and as terminal, Markdown, page and folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from modelkin._version import __version__
from modelkin.document import LANGUAGES, Language, load_language, read_texts, render_html, render_markdown
from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Heading,
    Inline,
    Literally,
    Paragraph,
    Picture,
    Section,
    Table,
    table,
)
from modelkin.document.views.words import tone
from modelkin.errors import UsageError, not_written
from modelkin.figures import Format, alt_of, draw
from modelkin.message import Value, say

from .figures import CHAPTERS, replay_figures
from .record import Cell, Chapter, FactTable, Replay

_NO_PICTURES: Mapping[str, str] = {}


def replay_view(replay: Replay, language: str = "en", *, verbose: bool = False) -> tuple[Block, ...]:
    """Return the story for a terminal; with `verbose` also contradictions, checks and sources."""
    teller = _ReplayView(replay, language)
    return (*teller.story(), *(teller.appendix() if verbose else ()))


def replay_markdown(replay: Replay, language: str = "en", *, alts: Mapping[str, str] = _NO_PICTURES) -> str:
    """Write the story with all tables as Markdown; figures with an alt text are linked from ``figures/``."""
    teller = _ReplayView(replay, language)
    blocks = (
        *teller.story(alts),
        *teller.appendix(),
        Paragraph(teller.line("text.made_by", version=__version__)),
    )
    return render_markdown(blocks, align=True)


def replay_html(
    replay: Replay,
    language: str = "en",
    *,
    alts: Mapping[str, str] = _NO_PICTURES,
    images: Mapping[str, bytes] | None = None,
) -> str:
    """Write the story as one page that loads nothing; the drawings of its figures are put into it."""
    teller = _ReplayView(replay, language)
    return render_html(
        (*teller.story(alts), *teller.appendix()),
        title=teller.say("title.story", candidate=replay.candidate, base=replay.base),
        language=load_language(language),
        version=__version__,
        images=images,
        footer=(teller.line("text.made_by", version=__version__),),
    )


def write_replay(
    replay: Replay,
    folder: str | os.PathLike[str],
    language: str = "en",
    *,
    figures: bool = False,
    dpi: int = 150,
) -> tuple[Path, ...]:
    """Write ``replay.json``, ``REPLAY.md``, ``replay.html`` and ``figures/``; return the paths.

    With `figures`, also as PNG; the page and the document show the SVG.
    """
    place = Path(folder)
    described, texts = replay_figures(), load_language(language)
    alts = {name: alt_of(figure, texts) for name, figure in described.items()}
    markdown = replay_markdown(replay, language, alts=alts)
    formats: tuple[Format, ...] = ("png", "svg") if figures else ("svg",)
    paths = [
        path
        for name, figure in described.items()
        for path in draw(figure, place / "figures", name, dpi=dpi, formats=formats, language=texts)
    ]
    images = {f"figures/{path.name}": path.read_bytes() for path in paths if path.suffix == ".svg"}
    page = replay_html(replay, language, alts=alts, images=images)
    files = {"replay.json": replay.to_json() + "\n", "REPLAY.md": markdown, "replay.html": page}
    for name, text in files.items():
        try:
            (place / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise not_written(str(place / name), "", error) from error
        paths.append(place / name)
    return tuple(paths)


@cache
def replay_language(code: str) -> Language:
    """Read the texts of the replay in a language; `UsageError` if there are none."""
    if code not in LANGUAGES:
        raise UsageError(code, say("problem.replay-language", known=", ".join(LANGUAGES)))
    return Language(code=code, texts=read_texts("modelkin.casework.replay", "texts", f"{code}.toml"))


class _ReplayView:
    """Makes the blocks of a replay in one language."""

    def __init__(self, replay: Replay, language: str) -> None:
        self.replay = replay
        self.language = replay_language(language)

    def say(self, key: str, **values: Value) -> str:
        """Return a text with its placeholders filled."""
        return self.language.tell(say(key, **values)).strip()

    def line(self, key: str, **values: Value) -> tuple[Inline, ...]:
        """Return a text in which backticks mark code."""
        return _with_code(self.say(key, **values))

    def story(self, alts: Mapping[str, str] = _NO_PICTURES) -> Iterator[Block]:
        """Yield the title, the verdict, how it came about chapter by chapter, and the cases.

        Figures without an alt text in `alts` are not shown.
        """
        replay = self.replay
        *chapters, verdict = replay.chapters
        yield Heading(self.say("title.story", candidate=replay.candidate, base=replay.base), 1)
        yield from self.verdict(verdict)
        wrong = [check for check in replay.checks if not check.agrees]
        if wrong:
            yield Paragraph(self.say("text.disagree"), "strong")
            yield Bullets(tuple(f"{item.key}: {item.computed:.7g}, {item.published:.7g}" for item in wrong))
        yield Paragraph(self.line("text.intro", **_counts(replay)))
        for chapter in chapters:
            yield from self.chapter(chapter, alts)
        yield Heading(self.say("title.cases"), key="cases")
        yield Paragraph(self.line("text.about_cases"))
        yield self.table(
            ("case", "answer", "why"),
            (
                (
                    case.key,
                    self.say(f"conclusion.{case.conclusion.value}"),
                    self.say(f"case.{case.key}", **case.values),
                )
                for case in replay.cases
            ),
        )

    def verdict(self, chapter: Chapter) -> Iterator[Block]:
        """Yield the answer as reports show it: on a card, before everything else."""
        said, *rest = self.say("chapter.verdict.text", **chapter.values).split("\n\n")
        conclusion = self.replay.conclusion
        card = Card(
            headline=load_language(self.language.code).say(f"headline.{conclusion.value}"),
            tone=tone(conclusion),
            summary=_with_code(said),
            meaning=" ".join(rest).replace("`", ""),
        )
        title = self.say("chapter.verdict.title")
        yield Section(title=title, key="verdict", blocks=(card, *map(self.grid, chapter.grids)))

    def chapter(self, chapter: Chapter, alts: Mapping[str, str]) -> Iterator[Block]:
        """Yield one step of the story."""
        yield Heading(self.say(f"chapter.{chapter.key}.title"), key=chapter.key)
        for text in self.say(f"chapter.{chapter.key}.text", **chapter.values).split("\n\n"):
            yield Paragraph(_with_code(text))
        for name in CHAPTERS.get(chapter.key, ()):
            if name in alts:
                yield Picture(f"figures/{name}.svg", alts[name])
        for grid in chapter.grids:
            yield self.grid(grid)

    def appendix(self) -> Iterator[Block]:
        """Yield reference material: contradictions, checks, sources."""
        yield self.closed("contradictions", Paragraph(self.line("text.about_contradictions")), self.found())
        yield self.closed("checks", Paragraph(self.line("text.about_checks")), self.checks())
        yield self.closed("sources", self.sources(), Paragraph(self.line("text.license")))

    def closed(self, key: str, *blocks: Block) -> Section:
        """Return a collapsed section."""
        return Section(title=self.say(f"title.{key}"), key=key, blocks=blocks, closed=True)

    def found(self) -> Table:
        """List what sources say against what their own numbers say."""
        return self.table(
            ("number", "source", "said", "found"),
            (
                (
                    f"{item.number}{'*' if item.recomputed else ''}",
                    item.source,
                    self.say(f"contradiction.{item.number}.said", **item.values),
                    self.say(f"contradiction.{item.number}.found", **item.values),
                )
                for item in self.replay.contradictions
            ),
        )

    def checks(self) -> Table:
        """List every published number next to the computed one."""
        return self.table(
            ("key", "computed", "published", "tolerance", "source", "kind", "agrees"),
            (
                (
                    check.key,
                    f"{check.computed:.7g}",
                    f"{check.published:.7g}",
                    f"{check.tolerance:g}",
                    check.source,
                    self.language.word("word", check.kind),
                    self.say("text.yes" if check.agrees else "text.no"),
                )
                for check in self.replay.checks
            ),
            numeric=(1, 2, 3),
        )

    def sources(self) -> Table:
        """List where the numbers come from."""
        return self.table(
            ("source", "repository", "position"),
            (
                (
                    key,
                    f"{item['repository']} @ {item['commit']} ({item['date']})",
                    self.say(f"position.{key}"),
                )
                for key, item in self.replay.sources.items()
            ),
        )

    def grid(self, grid: FactTable) -> Table:
        """Write a table of the record."""
        formats = grid.formats or ("",) * len(grid.columns)
        rows = ([self.cell(*item) for item in zip(row, formats, strict=True)] for row in grid.rows)
        numeric = [place for place, spec in enumerate(formats) if spec]
        return self.table(grid.columns, rows, numeric, self.say(f"grid.{grid.key}"))

    def cell(self, cell: Cell, spec: str) -> str:
        """Write a cell of the record."""
        if cell is None:
            return self.say("text.not_measured")
        return self.language.word("word", cell) if isinstance(cell, str) else format(cell, spec)

    def table(
        self,
        columns: Iterable[str],
        rows: Iterable[Iterable[str]],
        numeric: Iterable[int] = (),
        title: str = "",
    ) -> Table:
        """Make a table; columns are named by their keys."""
        return table([self.say(f"column.{name}") for name in columns], rows, numeric=numeric, title=title)


def _with_code(text: str) -> tuple[Inline, ...]:
    parts = text.split("`")
    return tuple(Literally(part) if place % 2 else part for place, part in enumerate(parts) if part)


def _counts(replay: Replay) -> dict[str, Value]:
    """Count what was checked. A prediction is no reproduction, a mean of our own table no publication."""
    published = replay.checks_of("printed", "rounded", "read")
    predicted = replay.checks_of("predicted")
    return {
        "published": len(published),
        "same": sum(check.agrees for check in published),
        "predicted": len(predicted),
        "apart": max(abs(check.computed - check.published) for check in predicted),
        "averages": len(replay.checks_of("average")),
    }
