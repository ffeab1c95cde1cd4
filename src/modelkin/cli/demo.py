"""``modelkin demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import language_option, out_option, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command()
@out_option("Write a report folder for each comparison.")
@language_option
@output_options
def demo(*, out: Path | None, lang: str, output: Output) -> None:
    """Tell a child from two strangers, on small models that ship with the package. No network.

    Three comparisons with one base: an unrelated model whose norm gains look copied, a true child, and an
    unrelated model that took over the norms alone. All numbers are computed while you wait.
    """
    from modelkin.casework.story import tell_story
    from modelkin.casework.views import story_view
    from modelkin.demo import demo_zoo

    with demo_zoo() as zoo:
        output.remark("comparing small models that ship with modelkin; nothing is downloaded")
        story = tell_story(zoo, progress=output)
    if out is not None:
        for chapter in story.chapters:
            chapter.comparison.write(str(out / chapter.name), language=lang)
    output.result(story, lambda: story_view(story))
    if out is not None:
        output.remark(f"the reports are in {out}")
