"""``modelkin demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import language_option, output_options

if TYPE_CHECKING:
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
    from modelkin.casework.views import story_view
    from modelkin.demo import demo_zoo

    with demo_zoo() as zoo:
        output.remark("comparing small models that come with modelkin; nothing is downloaded")
        story = tell_story(zoo, progress=output)
    if out is not None:
        for chapter in story.chapters:
            chapter.comparison.write(str(out / chapter.name), language=lang)
    output.result(story, lambda: story_view(story))
    if out is not None:
        output.remark(f"the reports are in {out}")
