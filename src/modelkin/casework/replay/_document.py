"""The replay as blocks of text, tables and pictures: one order for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ._record import Cell, Grid, Replay
from ._texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The title of a section."""

    text: str
    key: str
    level: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """A table of written cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure, by the name of its file, with words for who cannot see it."""

    name: str
    alt: str


Block = Heading | Paragraph | TableBlock | Picture


def title_of(replay: Replay, texts: Texts) -> str:
    """Return the question."""
    return texts.say("title.story", {"candidate": replay.candidate, "base": replay.base})


def story(replay: Replay, texts: Texts, pictures: Mapping[str, tuple[Picture, ...]]) -> Iterator[Block]:
    """Yield the story: introduction, chapters with their tables and pictures, cases.

    Parameters
    ----------
    pictures
        By chapter.
    """
    yield Paragraph(text=texts.say("text.intro", _counts(replay)))
    for chapter in replay.chapters:
        if chapter.key == "verdict":
            yield from _cases(replay, texts)
        yield Heading(text=texts.say(f"chapter.{chapter.key}.title"), key=chapter.key)
        for text in texts.paragraphs(f"chapter.{chapter.key}.text", chapter.values):
            yield Paragraph(text=text)
        for grid in chapter.grids:
            yield _table(grid, texts)
        yield from pictures.get(chapter.key, ())


def appendix(replay: Replay, texts: Texts) -> Iterator[Block]:
    """Yield what is looked up: contradictions, checks, sources."""
    yield Heading(text=texts.say("title.contradictions"), key="contradictions")
    yield Paragraph(text=texts.say("text.about_contradictions"))
    yield TableBlock(
        title="",
        columns=_columns(("number", "source", "said", "found"), texts),
        rows=tuple(
            (
                f"{item.number}{'*' if item.recomputed else ''}",
                item.source,
                texts.say(f"contradiction.{item.number}.said", item.values),
                texts.say(f"contradiction.{item.number}.found", item.values),
            )
            for item in replay.contradictions
        ),
        numeric=(False,) * 4,
    )
    yield Heading(text=texts.say("title.checks"), key="checks")
    yield Paragraph(text=texts.say("text.about_checks"))
    yield TableBlock(
        title="",
        columns=_columns(("key", "computed", "published", "tolerance", "source", "kind", "agrees"), texts),
        rows=tuple(
            (
                check.key,
                f"{check.computed:.7g}",
                f"{check.published:.7g}",
                f"{check.tolerance:g}",
                check.source,
                texts.word(check.kind),
                texts.say("text.yes" if check.agrees else "text.no"),
            )
            for check in replay.checks
        ),
        numeric=(False, True, True, True, False, False, False),
    )
    yield Heading(text=texts.say("title.sources"), key="sources")
    yield TableBlock(
        title="",
        columns=_columns(("source", "repository", "position"), texts),
        rows=tuple(
            (key, f"{item['repository']} @ {item['commit']} ({item['date']})", texts.word(item["position"]))
            for key, item in replay.sources.items()
        ),
        numeric=(False,) * 3,
    )
    yield Paragraph(text=texts.say("text.license"))


def _counts(replay: Replay) -> dict[str, float]:
    """Count what was checked. A prediction is no reproduction, and a mean of our own table no publication."""
    published = replay.checks_of("printed", "rounded", "read")
    predicted = replay.checks_of("predicted")
    return {
        "published": len(published),
        "same": sum(check.agrees for check in published),
        "predicted": len(predicted),
        "apart": max(abs(check.computed - check.published) for check in predicted),
        "averages": len(replay.checks_of("average")),
    }


def _cases(replay: Replay, texts: Texts) -> Iterator[Block]:
    yield Heading(text=texts.say("title.cases"), key="cases")
    yield Paragraph(text=texts.say("text.about_cases"))
    yield TableBlock(
        title="",
        columns=_columns(("case", "answer", "why"), texts),
        rows=tuple(
            (
                case.key,
                texts.say(f"conclusion.{case.conclusion.value}"),
                texts.say(f"case.{case.key}", case.values),
            )
            for case in replay.cases
        ),
        numeric=(False,) * 3,
    )


def _table(grid: Grid, texts: Texts) -> TableBlock:
    formats = grid.formats or ("",) * len(grid.columns)
    return TableBlock(
        title=texts.say(f"grid.{grid.key}"),
        columns=_columns(grid.columns, texts),
        rows=tuple(
            tuple(_cell(cell, spec, texts) for cell, spec in zip(row, formats, strict=True))
            for row in grid.rows
        ),
        numeric=tuple(bool(spec) for spec in formats),
    )


def _columns(names: tuple[str, ...], texts: Texts) -> tuple[str, ...]:
    return tuple(texts.say(f"column.{name}") for name in names)


def _cell(cell: Cell, spec: str, texts: Texts) -> str:
    if cell is None:
        return texts.say("text.not_measured")
    return texts.word(cell) if isinstance(cell, str) else format(cell, spec)
