"""``modelkin demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import figures_option, out_option, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command()
@out_option("Write a report folder for each comparison.")
@click.option(
    "--models",
    "copies",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Copy the models into this folder instead, to try them as files.",
)
@figures_option
@output_options
def demo(*, out: Path | None, copies: Path | None, figures: bool, output: Output) -> None:
    """Tell a child from a stranger, on small models that ship with the package. No network.

    Three comparisons with one base: an unrelated model whose norm gains look copied, a true child, and a
    model that copied the norm gains and nothing else. All numbers are computed while you wait.

    Every command takes these models by name: demo:base, demo:twin-1 (a stranger trained by the same recipe),
    demo:finetune-light, demo:continued, demo:norms-only, demo:moe-base, demo:moe-tuned.

    \b
    Examples
      modelkin demo
      modelkin demo --models zoo
      modelkin compare demo:continued demo:base
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.story import tell_story
    from modelkin.casework.views import copied_view, story_view
    from modelkin.demo import copy_demo_models, demo_zoo

    if copies is not None:
        names = [folder.name for folder in copy_demo_models(copies)]
        document = {"schema": "modelkin.demo-models/1", "folder": str(copies), "models": names}
        output.result(document, lambda: copied_view(str(copies), names, output.language))
        return

    with demo_zoo() as zoo:
        output.say("demo")
        story = tell_story(zoo, progress=output)
    if out is not None:
        for chapter in story.chapters:
            chapter.comparison.write(str(out / chapter.name), language=output.lang, figures=figures)
    output.result(story, lambda: story_view(story, output.lang))
    if out is not None:
        output.say("reports_in", out=str(out))
