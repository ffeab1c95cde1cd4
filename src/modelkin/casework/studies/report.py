"""Reports of a study, from saved data: ``REPORT.md``, the results only, one page. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from modelkin.comparison import Comparison
from modelkin.document import (
    Language,
    bound_text,
    effect_text,
    load_language,
    read_texts,
    render_html,
    render_markdown,
    size_text,
    verdict_card,
)
from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Heading,
    Link,
    Paragraph,
    Picture,
    Section,
    Table,
    table,
)
from modelkin.document.numbers import brief_text, value_text
from modelkin.message import Message
from modelkin.untrusted import visible

from .bench import Bench, said_cells
from .result import Step, StudyResult
from .spec import Drawing

FOLDER = "comparison"
"""Of the main pair's own report."""
MOST_ROWS = 120
OPEN_ROWS = 12
"""Of a table; longer ones are collapsed until a reader opens them."""


def report_text(bench: Bench, result: StudyResult) -> str:
    """Write ``REPORT.md``."""
    return render_markdown(_StudyReport(bench, result).blocks())


def results_text(bench: Bench, result: StudyResult, file: str) -> str:
    """Write only the results of the experiments, into a file that may be deeper in the folder."""
    return render_markdown(_StudyReport(bench, result).results(), up="../" * file.count("/"))


def report_page(bench: Bench, result: StudyResult) -> str:
    """Write the page: everything is in one file, including pictures."""
    blocks = list(_StudyReport(bench, result).blocks())
    pictures = [block.file for block in _every(blocks) if isinstance(block, Picture)]
    return render_html(
        blocks,
        title=bench.study.title[result.language],
        language=load_language(result.language),
        version=result.versions["modelkin"],
        images={file: (bench.folder.root / file).read_bytes() for file in pictures},
    )


def _every(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks and those in their sections."""
    for block in blocks:
        yield block
        if isinstance(block, Section):
            yield from _every(block.blocks)


@cache
def study_language(code: str) -> Language:
    """Read the texts that only studies need."""
    return Language(code=code, texts=read_texts("modelkin.casework.studies", "texts", f"{code}.toml"))


@dataclass(frozen=True, slots=True)
class _StudyReport:
    """Makes the blocks of one report."""

    bench: Bench
    result: StudyResult

    def say(self, key: str, **values: object) -> str:
        """Return a text with its placeholders filled."""
        told = {name: self.tell(item) if isinstance(item, Message) else item for name, item in values.items()}
        texts = study_language(self.result.language)
        return texts.say(key, **{name: _shown(value) for name, value in told.items()})

    def tell(self, message: Message | None) -> str:
        """Return a message in the language of the report."""
        return load_language(self.result.language).tell(message) if message else ""

    def grid(
        self,
        columns: Sequence[str],
        rows: Iterable[Iterable[str]],
        title: str = "",
        numeric: Iterable[int] = (),
        **values: object,
    ) -> Table:
        """Return a table with columns by the keys of their texts."""
        titles = (self.say(f"column.{name}", **values) for name in columns)
        return table(titles, rows, numeric=numeric, title=title)

    def blocks(self) -> Iterator[Block]:
        """Yield everything, the answer first."""
        study, language = self.bench.study, self.result.language
        yield Heading(study.title[language], 1)
        yield from self.stand_ins()
        yield from self.answer()
        yield self.section("about", Paragraph(study.about[language], lines=True))
        yield from self.experiments()
        yield self.section("models", *self.models())
        yield from self.relations()
        yield self.section("left_out", *self.left_out(), closed=True)
        yield self.section("reading", *self.reading(), closed=True)

    def results(self) -> Iterator[Block]:
        """Yield only the experiments, with what is needed to read them."""
        yield Heading(self.bench.study.title[self.result.language], 1)
        yield from self.stand_ins()
        yield from self.answer()
        yield self.section("models", *self.models())
        yield from self.experiments()
        yield self.section("left_out", *self.left_out())

    def section(self, key: str, *blocks: Block, closed: bool = False) -> Section:
        """Return a part of the report that a page links to."""
        return Section(
            title=self.say(f"title.{key}"), key=key.replace("_", "-"), blocks=blocks, closed=closed
        )

    def stand_ins(self) -> Iterator[Block]:
        """Say first that models other than those the study names were read."""
        models = self.bench.study.models
        given = [f"{alias}: {model.ref}" for alias, model in models.items() if alias in self.bench.replaced]
        if given:
            yield Paragraph(self.say("text.stand_ins"), "strong")
            yield Bullets(tuple(given))

    # -- parts -----------------------------------------------------------------------------------------

    def answer(self) -> Iterator[Block]:
        """Yield the verdict of the main pair, its limits and its controls."""
        answer: Mapping[str, Any] | None = self.result.answer
        if answer is None:
            step = self.result.comparison
            reason = step.reason if step and step.reason else self.say("text.no_question")
            yield self.section("answer", Paragraph(self.say("text.no_answer", reason=reason), "strong"))
            return
        report = load_language(self.result.language)
        whole = Link("comparison/report.html", self.say("text.whole_comparison"))
        yield Section(
            title=self.say("title.answer"), key="verdict", blocks=(self._card(answer, report), whole)
        )
        limits = tuple(report.tell(message) for message in answer["limitations"])
        yield Section(title=report.say("title.limits"), key="limits", blocks=(Bullets(limits),))
        if controls := tuple(self._controls(answer, report)):
            yield self.section("controls", *controls)

    def _card(self, answer: Mapping[str, Any], report: Language) -> Card:
        """Return the verdict as the report of the comparison shows it, under the names of the study."""
        record = Comparison.from_json(self.bench.folder.read_text(f"{FOLDER}/comparison.json"))
        models = self.bench.study.models
        # A replacement model is shown under the alias it stands in for and under its own name.
        names = {
            side.ref: models[answer[key]].name
            for key, side in (("candidate", record.candidate), ("base", record.base))
        }
        card = verdict_card(record, report, detail="whole", names=names)
        if card.drawing is None:
            return card
        return replace(card, drawing=replace(card.drawing, file=f"{FOLDER}/{card.drawing.file}"))

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
            yield self.grid(("models", "thought", "found", "p", "effect"), rows)

    def models(self) -> Iterator[Block]:
        """Yield the models, those that are missing with the reason."""
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
        """Yield what was known beforehand."""
        found = self.bench.study.relations
        if found:
            rows = [
                (
                    self.bench.names(*item.models),
                    self.say(f"text.relation_{item.relation}"),
                    item.why[self.result.language],
                )
                for item in found
            ]
            yield self.section("relations", self.grid(("models", "relation", "why"), rows))

    def experiments(self) -> Iterator[Block]:
        """Yield every experiment with its sentences, figures and tables."""
        steps = {step.id: step for step in self.result.experiments}
        language = self.result.language
        for number, item in enumerate(self.bench.study.experiments, start=1):
            blocks: list[Block] = []
            if item.about is not None:
                blocks.append(Paragraph(item.about[language], lines=True))
            if steps[item.id].status == "skipped":
                blocks.append(Paragraph(self.say("text.skipped", reason=steps[item.id].reason), "strong"))
            else:
                blocks += self._told(item.id)
            title = f"{number}. {item.title[language]}"
            yield Section(title=title, key=f"experiment-{item.id}", blocks=tuple(blocks))

    def _told(self, identity: str) -> Iterator[Block]:
        """Yield the sentences of an experiment, then its figures, then its tables."""
        report = self.bench.folder.read_json(self.bench.data(".json", of=identity))["report"]
        for sentence in report["said"]:
            yield Paragraph(self.say(f"said.{sentence['text']}", **sentence["values"]))
        yield from self._pictures(identity)
        for item in report["tables"]:
            yield from self._table(item, identity)

    def _table(self, item: Mapping[str, Any], identity: str) -> Iterator[Block]:
        """Yield a table; a long one is collapsed."""
        words = study_language(self.result.language)
        title, rows = self.say(f"table.{item['title']}", **item["values"]), item["rows"]
        told = said_cells(item)
        cells = (
            [
                self.tell(told[i, j])
                if (i, j) in told
                else words.word("word", cell)
                if isinstance(cell, str)
                else _shown(cell)
                for j, cell in enumerate(row)
            ]
            for i, row in enumerate(rows[:MOST_ROWS])
        )
        numeric = [
            place
            for place in range(1, len(item["columns"]))
            if all(row[place] is None or isinstance(row[place], int | float) for row in rows)
        ]
        if len(rows) > MOST_ROWS:
            title += " " + self.say("text.more_rows", shown=MOST_ROWS, rows=len(rows), id=identity)
        closed = len(rows) > OPEN_ROWS
        made = self.grid(item["columns"], cells, title, numeric=numeric, **item["values"])
        if closed:
            shown = self.say("text.show_rows", title=title, rows=len(rows))
            yield Section(title=shown, closed=True, button=True, blocks=(made,))
        else:
            yield made

    def _pictures(self, identity: str) -> Iterator[Block]:
        """Yield the figures of an experiment; one line says which could not be drawn, and why."""
        drawn = {step.id: step for step in self.result.figures}
        missing: dict[str, list[str]] = {}
        for drawing in self.bench.study.figures:
            if drawing.data != identity:
                continue
            step = drawn[drawing.file]
            if step.status == "skipped":
                missing.setdefault(self.tell(step.reason), []).append(drawing.file)
            else:
                yield self._picture(drawing, step)
        for reason, files in missing.items():
            yield Paragraph(self.say("text.no_figures", files=", ".join(files), reason=reason), "note")

    def _picture(self, drawing: Drawing, step: Step) -> Picture:
        ending = "gif" if self.bench.folder.has(f"{drawing.file}.gif") else "svg"
        caption = drawing.caption[self.result.language] if drawing.caption else ""
        return Picture(f"{drawing.file}.{ending}", step.alt, caption)

    def left_out(self) -> Iterator[Block]:
        """Yield everything that was not done; equal reasons are told once."""
        steps = (*self.result.experiments, *self.result.figures)
        reasons: dict[str, list[str]] = {}
        for step in steps:
            if step.status == "skipped":
                reasons.setdefault(self.tell(step.reason), []).append(step.id)
        for item in self.result.left_out:
            reasons.setdefault(self.tell(item.reason), []).append(self.tell(item.what))
        if not reasons:
            yield Paragraph(self.say("text.nothing_left_out"))
            return
        found = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        yield Bullets(tuple(found[:MOST_ROWS]))
        if len(found) > MOST_ROWS:
            yield Paragraph(self.say("text.more_left_out", count=len(found) - MOST_ROWS))

    def reading(self) -> Iterator[Block]:
        """Yield what was read, and how to repeat it."""
        rows = [
            (model.name, f"{model.requests:,}", size_text(model.bytes_fetched), size_text(model.bytes_needed))
            for model in self.result.models
        ]
        yield self.grid(("model", "requests", "fetched", "needed"), rows, numeric=(1, 2, 3))
        versions = ", ".join(f"{name} {number}" for name, number in self.result.versions.items())
        yield Paragraph(self.say("text.repeat", study=self.result.study, seed=self.result.seed))
        yield Paragraph(self.say("text.versions", versions=versions))
        yield Link("manifest.json", self.say("text.manifest"))


def _p_and_effect(item: Mapping[str, Any]) -> tuple[str, str]:
    log10_p, effect = item["log10_p"], item["effect"]
    p = "-" if log10_p is None else bound_text(log10_p)
    return p, "-" if effect is None else effect_text(effect)


def _shown(value: object) -> str:
    """Write a value for people; all digits are in the data. Invisible characters are escaped."""
    if isinstance(value, float):
        return brief_text(value)
    return value_text(value) if value is None or isinstance(value, int) else visible(str(value))
