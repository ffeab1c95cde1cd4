"""``modelkin lab build`` and ``modelkin lab embed``: the zoo of models with known ancestry."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option("--only", multiple=True, metavar="NAME", help="This model, and what it comes from. Repeatable.")
def build(*, out: Path, only: tuple[str, ...]) -> None:
    """Train the models of the zoo that a folder does not have yet. Needs the extra lab."""
    from modelkin.lab.__main__ import main

    main(["build", "--out", str(out), *(["--only", *only] if only else [])])


@click.command()
@click.option(
    "--zoo", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, metavar="DIR"
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
def embed(*, zoo: Path, out: Path) -> None:
    """Copy the models that come with the package out of a built zoo."""
    from modelkin.lab.__main__ import main

    main(["embed", "--zoo", str(zoo), "--out", str(out)])
