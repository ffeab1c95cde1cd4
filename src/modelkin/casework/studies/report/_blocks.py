"""What a report of a study says, as blocks: both documents and the page write these. Nothing is computed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.result import Step, StudyResult
from modelkin.casework.studies.spec import Drawing
from modelkin.document import load_language, p_text, size_text
from modelkin.document._sentences import limitation_text
from modelkin.untrusted import visible

MOST_ROWS = 120


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text of ours or of the study; `strong` ones are the answer."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure: its file in the folder, what it shows, and what to say about it."""

    file: str
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Link:
    """A reference to another file of the folder."""

    file: str
    text: str


Block = Heading | Paragraph | Bullets | Grid | Picture | Link


@cache
def texts(language: str) -> Mapping[str, Mapping[str, str]]:
    """Read the texts of a language."""
    place = resources.files("modelkin.casework.studies").joinpath("report", f"{language}.toml")
    found: Mapping[str, Mapping[str, str]] = tomllib.loads(place.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True, slots=True)
class Teller:
    """Makes the blocks of one report."""

    bench: Bench
    result: StudyResult

    def say(self, table: str, key: str, **values: object) -> str:
        """Return a text with its places filled."""
        text = texts(self.result.language)[table].get(key, key)
        return text.format_map({name: _cell(value) for name, value in values.items()})

    def title(self, key: str) -> str:
        """Return the title of a part."""
        return self.say("title", key)

    def blocks(self) -> Iterator[Block]:
        """Yield everything, the answer first."""
        study, language = self.bench.study, self.result.language
        yield Heading(1, study.title[language])
        yield from self.stand_ins()
        yield from self.answer()
        yield Heading(2, self.title("about"))
        yield Paragraph(study.about[language])
        yield from self.models()
        yield from self.relations()
        yield from self.experiments()
        yield from self.left_out()
        yield from self.reading()

    def results(self) -> Iterator[Block]:
        """Yield the experiments alone, with what is needed to read them."""
        yield Heading(1, self.bench.study.title[self.result.language])
        yield from self.stand_ins()
        yield from self.answer()
        yield from self.models()
        yield from self.experiments()
        yield from self.left_out()

    def stand_ins(self) -> Iterator[Block]:
        """Say that other models were read than those the study names, before anything else."""
        models = self.bench.study.models
        given = [f"{alias}: {model.ref}" for alias, model in models.items() if alias in self.bench.replaced]
        if given:
            yield Paragraph(self.say("text", "stand_ins"), strong=True)
            yield Bullets(tuple(given))

    # -- parts -----------------------------------------------------------------------------------------

    def answer(self) -> Iterator[Block]:
        """Yield the verdict of the main pair, its limits and its controls."""
        yield Heading(2, self.title("answer"))
        answer = self.result.answer
        if answer is None:
            step = self.result.comparison
            reason = (step.reason if step else None) or self.say("text", "no_question")
            yield Paragraph(self.say("text", "no_answer", reason=reason), strong=True)
            return
        report = load_language(self.result.language)
        a, b = (self.bench.name(str(answer[side])) for side in ("candidate", "base"))
        conclusion = str(answer["conclusion"])
        yield Paragraph(
            self.say("text", "answer", a=a, b=b, verdict=report.say(f"headline.{conclusion}")), strong=True
        )
        yield Paragraph(report.say(f"meaning.{conclusion}"))
        effect = answer["effect"]
        rows = (
            (self.say("column", "p"), _p(answer["log10_p"]).removeprefix("p = ")),
            (self.say("column", "effect"), _cell(getattr(effect, "value", None))),
            (self.say("column", "limit"), _cell(answer["detection_limit"])),
        )
        yield Grid("", (self.say("column", "what"), self.say("column", "value")), rows)
        yield Bullets(tuple(limitation_text(str(text), report) for text in _list(answer["limitations"])))
        yield from self._controls(answer)
        yield Link("comparison/report.html", self.say("text", "whole_comparison"))

    def _controls(self, answer: Mapping[str, object]) -> Iterator[Block]:
        report = load_language(self.result.language)
        rows = []
        for key, expected in (("controls", "unrelated"), ("relatives", "related")):
            for item in _list(answer[key]):
                names = " | ".join(self.bench.name(alias) for alias in item["models"])
                if not item["available"]:
                    found = self.say("text", "missing", reason=item["reason"])
                    rows.append((names, self.say("text", expected), found, "-", "-"))
                    continue
                found = report.say(f"short.{item['conclusion']}")
                if item.get("reason"):
                    found = f"{found} ({item['reason']})"
                effect = _cell(getattr(item["effect"], "value", None))
                p = _p(item["log10_p"]).removeprefix("p = ")
                rows.append((names, self.say("text", expected), found, p, effect))
        if rows:
            columns = ("models", "thought", "found", "p", "effect")
            yield Grid(
                self.title("controls"), tuple(self.say("column", name) for name in columns), tuple(rows)
            )

    def models(self) -> Iterator[Block]:
        """Yield the models, those that are missing with the reason."""
        yield Heading(2, self.title("models"))
        columns = ("model", "ref", "commit", "family", "layers", "width", "group")
        rows = []
        for model in self.result.models:
            layers = f"{model.layers}" + (f" + {model.mtp_layers} MTP" if model.mtp_layers else "")
            ref = model.ref + (f" ({self.say('text', 'replaced')})" if model.replaced else "")
            group = self.bench.study.models[model.alias].group
            rows.append(
                (
                    model.name,
                    ref,
                    (model.revision or "-")[:12],
                    model.family or "-",
                    layers,
                    _cell(model.hidden_size),
                    group or "-",
                )
            )
        yield Grid("", tuple(self.say("column", name) for name in columns), tuple(rows))
        if self.result.missing:
            yield Paragraph(self.say("text", "models_missing"), strong=True)
            yield Bullets(tuple(f"{item.name} ({item.ref}): {item.reason}" for item in self.result.missing))

    def relations(self) -> Iterator[Block]:
        """Yield what was known before."""
        found = self.bench.study.relations
        if found:
            yield Heading(2, self.title("relations"))
            rows = tuple(
                (
                    " | ".join(self.bench.name(alias) for alias in item.models),
                    self.say("text", f"relation_{item.relation}"),
                    item.why[self.result.language],
                )
                for item in found
            )
            yield Grid("", tuple(self.say("column", name) for name in ("models", "relation", "why")), rows)

    def experiments(self) -> Iterator[Block]:
        """Yield every experiment with its sentences, tables and figures."""
        steps = {step.id: step for step in self.result.experiments}
        drawn = {step.id: step for step in self.result.figures}
        language = self.result.language
        for number, item in enumerate(self.bench.study.experiments, start=1):
            yield Heading(2, f"{number}. {item.title[language]}")
            if item.about is not None:
                yield Paragraph(item.about[language])
            step = steps[item.id]
            if step.status == "skipped":
                yield Paragraph(self.say("text", "skipped", reason=step.reason), strong=True)
            else:
                yield from self._told(item.id)
            for drawing in self.bench.study.figures:
                if drawing.data == item.id:
                    yield from self._picture(drawing, drawn[drawing.file])

    def _told(self, identity: str) -> Iterator[Block]:
        report = self.bench.folder.read_json(self.bench.data(".json", of=identity))["report"]
        for sentence in report["said"]:
            yield Paragraph(self.say("said", sentence["text"], **sentence["values"]))
        for table in report["tables"]:
            yield self._grid(identity, table)

    def _grid(self, identity: str, table: Mapping[str, Any]) -> Grid:
        rows = table["rows"]
        title = self.say("table", table["title"], **table["values"])
        if len(rows) > MOST_ROWS:
            title += " " + self.say("text", "more_rows", shown=MOST_ROWS, rows=len(rows), id=identity)
        columns = tuple(self.say("column", name, **table["values"]) for name in table["columns"])
        return Grid(
            title, columns, tuple(tuple(self._value(cell) for cell in row) for row in rows[:MOST_ROWS])
        )

    def _value(self, cell: object) -> str:
        """Write a cell; words that have a translation are told in it."""
        return texts(self.result.language)["word"].get(cell, cell) if isinstance(cell, str) else _cell(cell)

    def _picture(self, drawing: Drawing, step: Step) -> Iterator[Block]:
        if step.status == "skipped":
            yield Paragraph(self.say("text", "no_figure", file=drawing.file, reason=step.reason))
            return
        ending = "gif" if self.bench.folder.has(f"{drawing.file}.gif") else "png"
        caption = drawing.caption[self.result.language] if drawing.caption else ""
        yield Picture(f"{drawing.file}.{ending}", step.alt, caption)

    def left_out(self) -> Iterator[Block]:
        """Yield everything that was not done, with its reason."""
        steps = (*self.result.experiments, *self.result.figures)
        skipped = [f"{step.id}: {step.reason}" for step in steps if step.status == "skipped"]
        found = [*skipped, *(f"{item.what}: {item.reason}" for item in self.result.left_out)]
        yield Heading(2, self.title("left_out"))
        if not found:
            yield Paragraph(self.say("text", "nothing_left_out"))
            return
        yield Bullets(tuple(found[:MOST_ROWS]))
        if len(found) > MOST_ROWS:
            yield Paragraph(self.say("text", "more_left_out", count=len(found) - MOST_ROWS))

    def reading(self) -> Iterator[Block]:
        """Yield what was read, and how to repeat it."""
        yield Heading(2, self.title("reading"))
        rows = tuple(
            (model.name, f"{model.requests:,}", size_text(model.bytes_fetched), size_text(model.bytes_needed))
            for model in self.result.models
        )
        columns = ("model", "requests", "fetched", "needed")
        yield Grid("", tuple(self.say("column", name) for name in columns), rows)
        versions = ", ".join(f"{name} {number}" for name, number in self.result.versions.items())
        yield Paragraph(self.say("text", "repeat", study=self.result.study, seed=self.result.seed))
        yield Paragraph(self.say("text", "versions", versions=versions))
        yield Link("manifest.json", self.say("text", "manifest"))


def _list(value: object) -> Sequence[Any]:
    assert isinstance(value, list | tuple)
    return value


def _p(value: object) -> str:
    return p_text(value) if isinstance(value, float | int) else "-"


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case int():
            return f"{value:,}"
        case _:
            return visible(str(value))
