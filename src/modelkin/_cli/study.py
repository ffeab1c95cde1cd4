"""``modelkin study``."""

from __future__ import annotations

import click

from modelkin._cli.study_replay import replay


@click.group()
def study() -> None:
    """Replay a published dispute."""


study.add_command(replay)
