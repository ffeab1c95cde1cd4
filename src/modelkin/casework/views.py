"""Results of the dispute and its experiments as blocks, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from modelkin.casework.story import COMMANDS
from modelkin.casework.studies.report import study_language
from modelkin.document import ENGLISH, Language, load_language, plans_view, verdict_card
from modelkin.document.blocks import Block, Paragraph, Section, table
from modelkin.message import Message

if TYPE_CHECKING:
    from modelkin.casework.lab import Centring, CosineStudy
    from modelkin.casework.story import DemoChapter, Story
    from modelkin.casework.studies import Step, Study, StudyPlan, StudyResult
    from modelkin.casework.verify import ReportCheck


def story_view(story: Story, language: str = "en") -> tuple[Block, ...]:
    """Return the story of the demo: each chapter with its verdict, then the moral."""
    texts = load_language(language)
    chapters = (_chapter(number, chapter, texts) for number, chapter in enumerate(story.chapters, start=1))
    rows = [(command, texts.say(f"demo.try.{key}")) for key, command in COMMANDS.items()]
    commands = Section(title=texts.say("demo.next"), blocks=(table(("", ""), rows),))
    return (*chapters, Paragraph(texts.say("demo.moral")), commands)


def copied_view(folder: str, names: Sequence[str], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return where the models that come with the package were copied to, and a command that uses them."""
    first, second = names[:2]
    return (
        Paragraph(language.say("demo.copied", n=str(len(names)), folder=folder, names=", ".join(names))),
        Paragraph(f"modelkin compare {folder}/{second} {folder}/{first}"),
    )


def _chapter(number: int, chapter: DemoChapter, language: Language) -> Section:
    gains, say = chapter.gains, language.say
    rows = (
        (say("demo.cosine"), f"{gains.cosine:.4f}", say("demo.mean_over", number=str(gains.vectors))),
        (say("demo.explained"), f"{gains.mean_direction_part:.4f}", say("demo.common")),
        (say("demo.added"), f"{gains.correlated_part:.4f}", f"Pearson r = {gains.pearson:.3f}"),
    )
    return Section(
        title=f"{number}. {say(f'demo.{chapter.name}.title')}",
        blocks=(
            Paragraph(say(f"demo.{chapter.name}.text")),
            table(("", "", ""), rows, numeric=(1,)),
            verdict_card(chapter.comparison, language),
        ),
    )


def printed_view(path: str, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return where a PDF was written."""
    return (Paragraph(language.say("cli.written_file", file=path)),)


def verification_view(found: ReportCheck, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return what a report states, and whether it holds."""
    say = language.of("verify")
    rows = [
        (language.word("verify", part.name), say(part.status), language.tell(part.text))
        for part in found.parts
    ]
    end = say("holds" if found.holds else "holds_not", folder=found.folder)
    return (table((say("what"), "", ""), rows), Paragraph(end, "strong"))


def study_plan_view(plan: StudyPlan, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return what a study would read, model by model."""
    say = language.of("study_plan")
    missing = [(item.alias, language.told(item.reason)) for item in plan.missing]
    skipped = [(item.id, language.told(item.reason)) for item in plan.skipped]
    listed = (
        ("missing", ("model", "why"), missing),
        ("skipped", ("experiment", "why"), skipped),
    )
    return (
        *(
            Section(title=say(title), blocks=(table([say(key) for key in keys], rows),))
            for title, keys, rows in listed
            if rows
        ),
        *plans_view(plan.models, language, differences=plan.differences),
    )


def studies_view(studies: Iterable[Study], language: str) -> tuple[Block, ...]:
    """Return the list of studies."""
    rows = [
        (
            study.name,
            study.title[language],
            ", ".join(study.models),
            str(len(study.experiments)),
            str(len(study.figures)),
        )
        for study in studies
    ]
    words = study_language(language)
    titles = [words.say(f"list.{name}") for name in ("study", "about", "models", "experiments", "figures")]
    return (table(titles, rows, numeric=(3, 4)),)


def study_view(result: StudyResult, language: str = "en") -> tuple[Block, ...]:
    """Return what a study did, and what it did not do and why."""
    lines = _study_lines(result, study_language(language), load_language(language))
    return tuple(Paragraph(text, "strong" if strong else "plain", lines=True) for text, strong in lines)


def _study_lines(result: StudyResult, words: Language, texts: Language) -> Iterator[tuple[str, bool]]:
    if result.answer is not None:
        summary = result.answer["summary"]
        yield texts.tell(summary) if isinstance(summary, Message) else str(summary), True

    def told(reason: Message | None) -> str:
        return texts.tell(reason) if reason is not None else "-"

    lines = [
        words.say("list.missing", name=item.alias, ref=item.ref, reason=told(item.reason))
        for item in result.missing
    ]
    steps = (*((result.comparison,) if result.comparison else ()), *result.experiments, *result.figures)
    lines += [
        words.say("list.skipped", name=step.id, reason=told(step.reason))
        for step in steps
        if step.status == "skipped"
    ]
    if lines:
        yield "\n".join(lines), False
    done = sum(step.status == "done" for step in steps)
    counts = {"done": done, "steps": len(steps), "files": len(result.files), "models": len(result.models)}
    yield words.say("list.done", **{name: str(count) for name, count in counts.items()}), False


def steps_view(steps: Iterable[Step], language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return which figures were drawn, and which were not, and why."""
    every, say = list(steps), language.of("study_plan")
    skipped = [
        say("not_drawn", name=step.id, reason=language.told(step.reason))
        for step in every
        if step.status == "skipped"
    ]
    done = Paragraph(say("drawn", n=str(len(every) - len(skipped)), all=str(len(every))), "strong")
    return (done, Paragraph("\n".join(skipped), lines=True)) if skipped else (done,)


def centring_view(found: Centring, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return the angle of two vectors with and without their means, in words."""
    return tuple(Paragraph(language.tell(message)) for message in found.conclusion)


def cosines_view(study: CosineStudy, language: Language = ENGLISH) -> tuple[Block, ...]:
    """Return drawn cosines next to the closed form, and what follows."""
    say = language.of("cosines")
    rows = [
        (
            str(cell.dimension),
            f"{cell.mean_1:g}, {cell.mean_2:g}",
            f"{cell.sigma_1:g}, {cell.sigma_2:g}",
            *(
                f"{value:.4f}"
                for value in (cell.cosine, cell.exact, cell.limit, cell.spread, cell.exact_spread)
            ),
            f"{cell.positive_1:.3f}, {cell.positive_2:.3f}",
            f"{cell.exact_positive_1:.3f}, {cell.exact_positive_2:.3f}",
        )
        for cell in study.cells
    ]
    keys = ("values", "means", "sigmas", "cosine", "exact", "limit", "spread", "exact", "positive", "exact")
    titles = [say(key) for key in keys]
    return (
        table(titles, rows, numeric=range(len(titles))),
        *(Paragraph(language.tell(message)) for message in study.conclusion),
    )
