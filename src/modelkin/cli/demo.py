"""``modelkin demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import language_option, output_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from modelkin.casework.story import Chapter, Story
    from modelkin.cli.output import Output


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    metavar="DIR",
    help="Write a report folder for each comparison.",
)
@language_option
@output_options
def demo(*, out: Path | None, lang: str, output: Output) -> None:
    """Tell two strangers from a child, on small models that come with the package. No network.

    Three comparisons with the same base: a stranger whose norm gains look like a copy, a true child, and
    a model that took only the norms. All numbers are computed while you wait.
    """
    from modelkin.casework.story import tell_story
    from modelkin.demo import demo_zoo

    with demo_zoo() as zoo:
        output.remark("comparing small models that come with modelkin; nothing is downloaded")
        story = tell_story(zoo, progress=output)
    if out is not None:
        for chapter in story.chapters:
            chapter.comparison.write(str(out / chapter.name), language=lang)
    output.result(story, lambda: _drawn(story))
    if out is not None:
        output.remark(f"the reports are in {out}")


def _drawn(story: Story) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for number, chapter in enumerate(story.chapters, start=1):
        parts += _chapter(number, chapter)
    parts.append(Text("\n" + story.moral))
    return Group(*parts)


def _chapter(number: int, chapter: Chapter) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from modelkin.document import verdict_panel

    return [
        Text(f"{number}. {chapter.title}", style="bold"),
        Padding(Text(chapter.text), (0, 0, 1, 3)),
        Padding(_gains(chapter), (0, 0, 1, 5)),
        Padding(verdict_panel(chapter.comparison), (0, 0, 1, 3)),
    ]


def _gains(chapter: Chapter) -> RenderableType:
    from rich.table import Table

    gains = chapter.gains
    table = Table(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, style="dim" if justify == "left" else "bold")
    rows = (
        ("cosine of the norm gains", gains.cosine, f"mean over {gains.vectors} gains"),
        (
            "explained by the mean direction",
            gains.mean_direction_part,
            "what any two vectors of gains have in common",
        ),
        ("added by values in the same places", gains.correlated_part, f"Pearson r = {gains.pearson:.3f}"),
    )
    for name, value, remark in rows:
        table.add_row(name, f"{value:.4f}", remark)
    return table
