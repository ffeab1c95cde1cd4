"""Results of the dispute and its experiments as blocks, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from modelkin.document import verdict_card
from modelkin.document.blocks import Block, Paragraph, Section, table

if TYPE_CHECKING:
    from modelkin.casework.lab import CosineStudy
    from modelkin.casework.story import DemoChapter, Story
    from modelkin.casework.studies import Study, StudyResult


def story_view(story: Story) -> tuple[Block, ...]:
    """Return the story of the demo: each chapter with its verdict, then the moral."""
    chapters = (_chapter(number, chapter) for number, chapter in enumerate(story.chapters, start=1))
    return (*chapters, Paragraph(story.moral))


def _chapter(number: int, chapter: DemoChapter) -> Section:
    gains = chapter.gains
    common = "what any two vectors of gains have in common"
    rows = (
        ("cosine of the norm gains", f"{gains.cosine:.4f}", f"mean over {gains.vectors} gains"),
        ("explained by the mean direction", f"{gains.mean_direction_part:.4f}", common),
        (
            "added by values in the same places",
            f"{gains.correlated_part:.4f}",
            f"Pearson r = {gains.pearson:.3f}",
        ),
    )
    return Section(
        title=f"{number}. {chapter.title}",
        blocks=(
            Paragraph(chapter.text),
            table(("", "", ""), rows, numeric=(1,)),
            verdict_card(chapter.comparison),
        ),
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
    titles = ("study", "what it is", "models", "experiments", "figures")
    return (table(titles, rows, numeric=(3, 4)),)


def study_view(result: StudyResult) -> tuple[Block, ...]:
    """Return what a study did, and what it did not and why."""
    return tuple(Paragraph(text, "strong" if strong else "plain") for text, strong in _study_lines(result))


def _study_lines(result: StudyResult) -> Iterator[tuple[str, bool]]:
    if result.answer is not None:
        yield str(result.answer["summary"]), True
    lines = [f"missing: {item.alias} ({item.ref}): {item.reason}" for item in result.missing]
    steps = (*((result.comparison,) if result.comparison else ()), *result.experiments, *result.figures)
    lines += [f"skipped: {step.id}: {step.reason}" for step in steps if step.status == "skipped"]
    if lines:
        yield "\n".join(lines), False
    done = sum(step.status == "done" for step in steps)
    yield f"{done} of {len(steps)} steps done, {len(result.files)} files, {len(result.models)} models", False


def cosines_view(study: CosineStudy) -> tuple[Block, ...]:
    """Return drawn cosines beside the closed form, and what follows."""
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
    titles = ("values", "means", "sigmas", "cosine", "exact", "limit", "spread", "exact", "positive", "exact")
    return (
        table(titles, rows, numeric=range(len(titles))),
        *(Paragraph(sentence) for sentence in study.conclusion),
    )
