"""``modelkin study show``."""

from __future__ import annotations

import click

from modelkin.cli.options import STUDY


@click.command()
@click.argument("study", metavar="NAME_OR_FILE", type=STUDY)
def show(study: str) -> None:
    """Print the YAML of a study, to read it or to start your own."""
    from modelkin.casework.studies import load_study

    click.echo(load_study(study).text.encode("utf-8"), nl=False)
