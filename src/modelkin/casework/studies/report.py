"""Reports of a study, from saved data: ``REPORT.md``, the results alone, one page. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from modelkin.document import (
    Language,
    load_language,
    p_text,
    read_texts,
    render_html,
    render_markdown,
    size_text,
)
from modelkin.document.blocks import Block, Bullets, Heading, Link, Paragraph, Picture, Table, table
from modelkin.document.numbers import value_text
from modelkin.message import Message
from modelkin.untrusted import visible

from .bench import Bench
from .result import Step, StudyResult
from .spec import Drawing

MOST_ROWS = 120


def report_text(bench: Bench, result: StudyResult) -> str:
    """Write ``REPORT.md``."""
    return render_markdown(_Teller(bench, result).blocks())


def results_text(bench: Bench, result: StudyResult, file: str) -> str:
    """Write the results of the experiments alone, into a file that may stand deeper in the folder."""
    return render_markdown(_Teller(bench, result).results(), up="../" * file.count("/"))


def report_page(bench: Bench, result: StudyResult) -> str:
    """Write the page: everything is in the file, pictures too."""
    blocks = list(_Teller(bench, result).blocks())
    pictures = [block.file for block in blocks if isinstance(block, Picture)]
    return render_html(
        blocks,
        title=bench.study.title[result.language],
        language=load_language(result.language),
        version=result.versions["modelkin"],
        images={file: (bench.folder.root / file).read_bytes() for file in pictures},
    )


@cache
def study_language(code: str) -> Language:
    """Read the texts that only studies need."""
    return Language(code=code, texts=read_texts("modelkin.casework.studies", "texts", f"{code}.toml"))


@dataclass(frozen=True, slots=True)
class _Teller:
    """Makes the blocks of one report."""

    bench: Bench
    result: StudyResult

    def say(self, key: str, **values: object) -> str:
        """Return a text with its places filled."""
        told = {name: self.tell(item) if isinstance(item, Message) else item for name, item in values.items()}
        texts = study_language(self.result.language)
        return texts.say(key, **{name: _shown(value) for name, value in told.items()})

    def tell(self, message: Message | None) -> str:
        """Return a message in the language of the report."""
        return load_language(self.result.language).tell(message) if message else ""

    def grid(
        self, columns: Sequence[str], rows: Iterable[Iterable[str]], title: str = "", **values: object
    ) -> Table:
        """Return a table with columns by the keys of their texts."""
        return table((self.say(f"column.{name}", **values) for name in columns), rows, title=title)

    def blocks(self) -> Iterator[Block]:
        """Yield everything, the answer first."""
        study, language = self.bench.study, self.result.language
        yield Heading(study.title[language], 1)
        yield from self.stand_ins()
        yield from self.answer()
        yield Heading(self.say("title.about"))
        yield Paragraph(study.about[language], lines=True)
        yield from self.models()
        yield from self.relations()
        yield from self.experiments()
        yield from self.left_out()
        yield from self.reading()

    def results(self) -> Iterator[Block]:
        """Yield the experiments alone, with what is needed to read them."""
        yield Heading(self.bench.study.title[self.result.language], 1)
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
            yield Paragraph(self.say("text.stand_ins"), "strong")
            yield Bullets(tuple(given))

    # -- parts -----------------------------------------------------------------------------------------

    def answer(self) -> Iterator[Block]:
        """Yield the verdict of the main pair, its limits and its controls."""
        yield Heading(self.say("title.answer"))
        answer: Mapping[str, Any] | None = self.result.answer
        if answer is None:
            step = self.result.comparison
            reason = step.reason if step and step.reason else self.say("text.no_question")
            yield Paragraph(self.say("text.no_answer", reason=reason), "strong")
            return
        report = load_language(self.result.language)
        a, b = (self.bench.name(answer[side]) for side in ("candidate", "base"))
        verdict = report.say(f"headline.{answer['conclusion']}")
        yield Paragraph(self.say("text.answer", a=a, b=b, verdict=verdict), "strong")
        yield Paragraph(report.say(f"meaning.{answer['conclusion']}"))
        p, effect = _p_and_effect(answer)
        numbers = {"p": p, "effect": effect, "limit": _shown(answer["detection_limit"])}
        rows = [(self.say(f"column.{name}"), value) for name, value in numbers.items()]
        yield self.grid(("what", "value"), rows)
        yield Bullets(tuple(report.tell(message) for message in answer["limitations"]))
        yield from self._controls(answer, report)
        yield Link("comparison/report.html", self.say("text.whole_comparison"))

    def _controls(self, answer: Mapping[str, Any], report: Language) -> Iterator[Block]:
        rows = []
        for key, expected in (("controls", "unrelated"), ("relatives", "related")):
            for item in answer[key]:
                names = " | ".join(self.bench.name(alias) for alias in item["models"])
                if not item["available"]:
                    found, numbers = self.say("text.missing", reason=item["reason"]), ("-", "-")
                else:
                    found, numbers = report.say(f"short.{item['conclusion']}"), _p_and_effect(item)
                    found += f" ({report.tell(item['reason'])})" if item.get("reason") else ""
                rows.append((names, self.say(f"text.{expected}"), found, *numbers))
        if rows:
            columns = ("models", "thought", "found", "p", "effect")
            yield self.grid(columns, rows, self.say("title.controls"))

    def models(self) -> Iterator[Block]:
        """Yield the models, those that are missing with the reason."""
        yield Heading(self.say("title.models"))
        rows = [
            (
                model.name,
                model.ref + (f" ({self.say('text.replaced')})" if model.replaced else ""),
                (model.revision or "-")[:12],
                model.family or "-",
                f"{model.layers}" + (f" + {model.mtp_layers} MTP" if model.mtp_layers else ""),
                _shown(model.hidden_size),
                self.bench.study.models[model.alias].group or "-",
            )
            for model in self.result.models
        ]
        yield self.grid(("model", "ref", "commit", "family", "layers", "width", "group"), rows)
        if self.result.missing:
            yield Paragraph(self.say("text.models_missing"), "strong")
            yield Bullets(
                tuple(f"{item.name} ({item.ref}): {self.tell(item.reason)}" for item in self.result.missing)
            )

    def relations(self) -> Iterator[Block]:
        """Yield what was known before."""
        found = self.bench.study.relations
        if found:
            yield Heading(self.say("title.relations"))
            rows = [
                (
                    self.bench.names(*item.models),
                    self.say(f"text.relation_{item.relation}"),
                    item.why[self.result.language],
                )
                for item in found
            ]
            yield self.grid(("models", "relation", "why"), rows)

    def experiments(self) -> Iterator[Block]:
        """Yield every experiment with its sentences, tables and figures."""
        steps = {step.id: step for step in self.result.experiments}
        drawn = {step.id: step for step in self.result.figures}
        language = self.result.language
        for number, item in enumerate(self.bench.study.experiments, start=1):
            yield Heading(f"{number}. {item.title[language]}")
            if item.about is not None:
                yield Paragraph(item.about[language], lines=True)
            if steps[item.id].status == "skipped":
                yield Paragraph(self.say("text.skipped", reason=steps[item.id].reason), "strong")
            else:
                yield from self._told(item.id)
            for drawing in self.bench.study.figures:
                if drawing.data == item.id:
                    yield self._picture(drawing, drawn[drawing.file])

    def _told(self, identity: str) -> Iterator[Block]:
        report = self.bench.folder.read_json(self.bench.data(".json", of=identity))["report"]
        for sentence in report["said"]:
            yield Paragraph(self.say(f"said.{sentence['text']}", **sentence["values"]))
        words = study_language(self.result.language)
        for item in report["tables"]:
            title, rows = self.say(f"table.{item['title']}", **item["values"]), item["rows"]
            if len(rows) > MOST_ROWS:
                title += " " + self.say("text.more_rows", shown=MOST_ROWS, rows=len(rows), id=identity)
            cells = (
                [words.word("word", cell) if isinstance(cell, str) else _shown(cell) for cell in row]
                for row in rows[:MOST_ROWS]
            )
            yield self.grid(item["columns"], cells, title, **item["values"])

    def _picture(self, drawing: Drawing, step: Step) -> Block:
        if step.status == "skipped":
            return Paragraph(self.say("text.no_figure", file=drawing.file, reason=step.reason))
        ending = "gif" if self.bench.folder.has(f"{drawing.file}.gif") else "png"
        caption = drawing.caption[self.result.language] if drawing.caption else ""
        return Picture(f"{drawing.file}.{ending}", step.alt, caption)

    def left_out(self) -> Iterator[Block]:
        """Yield everything that was not done, with its reason."""
        steps = (*self.result.experiments, *self.result.figures)
        skipped = [f"{step.id}: {self.tell(step.reason)}" for step in steps if step.status == "skipped"]
        found = [
            *skipped,
            *(f"{self.tell(item.what)}: {self.tell(item.reason)}" for item in self.result.left_out),
        ]
        yield Heading(self.say("title.left_out"))
        if not found:
            yield Paragraph(self.say("text.nothing_left_out"))
            return
        yield Bullets(tuple(found[:MOST_ROWS]))
        if len(found) > MOST_ROWS:
            yield Paragraph(self.say("text.more_left_out", count=len(found) - MOST_ROWS))

    def reading(self) -> Iterator[Block]:
        """Yield what was read, and how to repeat it."""
        yield Heading(self.say("title.reading"))
        rows = [
            (model.name, f"{model.requests:,}", size_text(model.bytes_fetched), size_text(model.bytes_needed))
            for model in self.result.models
        ]
        yield self.grid(("model", "requests", "fetched", "needed"), rows)
        versions = ", ".join(f"{name} {number}" for name, number in self.result.versions.items())
        yield Paragraph(self.say("text.repeat", study=self.result.study, seed=self.result.seed))
        yield Paragraph(self.say("text.versions", versions=versions))
        yield Link("manifest.json", self.say("text.manifest"))


def _p_and_effect(item: Mapping[str, Any]) -> tuple[str, str]:
    log10_p = item["log10_p"]
    p = "-" if log10_p is None else p_text(log10_p).removeprefix("p = ")
    return p, _shown(getattr(item["effect"], "value", None))


def _shown(value: object) -> str:
    """Write a value of any kind; nothing in a text of others is invisible."""
    return value_text(value) if value is None or isinstance(value, int | float) else visible(str(value))
