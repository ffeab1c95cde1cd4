"""``modelkin lab build`` and ``modelkin lab embed``: the zoo of models with known ancestry."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only this model and its ancestors. Repeat for several."
)
def build(*, out: Path, only: tuple[str, ...]) -> None:
    """Train the models of the zoo that are missing from a folder. Needs the extra `lab`."""
    from modelkin.casework.lab import build_zoo, load_recipes

    build_zoo(load_recipes(), out, only=only, report=_reporter())


@click.command()
@click.option(
    "--zoo", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, metavar="DIR"
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
def embed(*, zoo: Path, out: Path) -> None:
    """Copy the models that ship with the package from a built zoo."""
    from modelkin.casework.lab import copy_embedded, load_recipes

    copy_embedded(load_recipes(), zoo, out)


def _reporter() -> Callable[[dict[str, Any]], None]:
    """Return a function that prints a line per trained model."""
    started = time.monotonic()

    def report(record: dict[str, Any]) -> None:
        seconds = time.monotonic() - started
        told = {key: record.get(key) for key in ("first_loss", "last_loss", "gain_spread", "change")}
        click.echo(f"{seconds:7.0f} s  {record['name']:20} {json.dumps(told)}")

    return report
