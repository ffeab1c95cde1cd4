"""``modelkin study draw``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import out_option, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@out_option("Folder for the figures. Default: where the run has them.")
@click.option(
    "--dpi", type=click.IntRange(30, 600), default=150, show_default=True, help="Resolution of the figures."
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(("png", "svg")),
    multiple=True,
    help="Of the pictures. Default: both.",
)
@output_options
def draw(folder: Path, *, out: Path | None, dpi: int, formats: tuple[str, ...], output: Output) -> None:
    """Draw all figures of a run again, from its saved data.

    FOLDER is what `modelkin study run --out` wrote. No model is opened and nothing is fetched.

    \b
    Examples
      modelkin study draw claim
      modelkin study draw claim --out figures --format svg
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.studies import redraw_study
    from modelkin.casework.views import steps_view

    steps = redraw_study(folder, out, dpi=dpi, formats=formats or ("png", "svg"))  # type: ignore[arg-type]
    output.result({"figures": steps}, lambda: steps_view(steps, output.language))
    output.say("figures_in", out=str(out or folder))
