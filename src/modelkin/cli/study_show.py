"""``modelkin study show``."""

from __future__ import annotations

import click


@click.command()
@click.argument("study", metavar="NAME_OR_FILE")
def show(study: str) -> None:
    """Print the YAML of a study, to read it or to start your own."""
    from modelkin.casework.studies import load_study

    click.echo(load_study(study).text.encode("utf-8"), nl=False)
