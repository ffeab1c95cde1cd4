"""``modelkin print``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command("print")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Name of the PDF; report.pdf in DIR if not given.",
)
@output_options
def print_report(folder: Path, *, to: Path | None, output: Output) -> None:
    """Make an A4 PDF of the report in DIR: a cover with question and answer, the report, an annex.

    It is drawn by an installed Chromium, Chrome or Edge, or by WeasyPrint (pip install 'modelkin[print]').

    \b
    Examples
      modelkin print report
      modelkin print report --to case-17.pdf
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.paper import print_folder
    from modelkin.casework.views import printed_view

    path = print_folder(folder, language=output.lang, out=to)
    document = {"schema": "modelkin.print/1", "file": str(path), "bytes": path.stat().st_size}
    output.result(document, lambda: printed_view(str(path), output.language))
