"""``modelkin study``: a whole investigation from one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import STUDY, output_options
from modelkin.cli.study_draw import draw
from modelkin.cli.study_replay import replay
from modelkin.cli.study_run import run

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.group()
def study() -> None:
    """Run a whole investigation from a YAML file: models, controls, experiments, figures, report.

    Seven of them ship with modelkin: the public analyses of January 2026 with all their experiments, each
    number next to what chance would give, and a question that they left open.

    \b
    Examples
      modelkin study list
      modelkin study replay solar-glm
      modelkin study run sanity-check --out sanity
      modelkin study draw sanity
      modelkin study run original-claim --out claim --model solar=./a --model glm=./b --lang ko
    """  # noqa: D301  click wants the character itself


@click.command("list")
@output_options
def list_studies(*, output: Output) -> None:
    """List the studies that ship with modelkin."""
    from modelkin.casework.studies import load_study, shipped_studies
    from modelkin.casework.views import studies_view

    found = [load_study(name) for name in shipped_studies()]
    document = {
        "studies": [
            {
                "name": item.name,
                "title": item.title["en"],
                "models": {alias: model.ref for alias, model in item.models.items()},
                "experiments": len(item.experiments),
                "figures": len(item.figures),
            }
            for item in found
        ]
    }
    output.result(document, lambda: studies_view(found, output.lang))


@click.command()
@click.argument("study", metavar="NAME_OR_FILE", type=STUDY)
def show(study: str) -> None:
    """Print the YAML of a study, to read it or to start your own."""
    from modelkin.casework.studies import load_study

    click.echo(load_study(study).text.encode("utf-8"), nl=False)


for _command in (list_studies, show, run, draw, replay):
    study.add_command(_command)
