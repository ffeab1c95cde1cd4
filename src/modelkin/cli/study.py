"""``modelkin study``: a whole investigation from one file."""

from __future__ import annotations

import click

from modelkin.cli.study_draw import draw
from modelkin.cli.study_list import list_studies
from modelkin.cli.study_replay import replay
from modelkin.cli.study_run import run
from modelkin.cli.study_show import show


@click.group()
def study() -> None:
    """Run a whole investigation from a YAML file: models, controls, experiments, figures, report.

    Seven of them ship with modelkin: the public analyses of January 2026 with all their experiments, each
    number next to what chance makes of it, and a question that they left open.

    \b
    Examples
      modelkin study list
      modelkin study replay solar-glm
      modelkin study run sanity-check --out sanity
      modelkin study draw sanity
      modelkin study run original-claim --out claim --model solar=./a --model glm=./b --lang ko
    """  # noqa: D301  click wants the character itself


for _command in (list_studies, show, run, draw, replay):
    study.add_command(_command)
