"""``modelkin verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

FAILED = 1


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, exists=True, path_type=Path))
@click.option("--files-only", is_flag=True, help="Check the files of the folder, and read no model.")
@fetch_options
@output_options
def verify(folder: Path, *, files_only: bool, fetch: FetchOptions, output: Output) -> None:
    """Check everything that the report in DIR states.

    Its files are checked against the manifest and regenerated from the record; every range of the ledger
    is read again from its origin, not from the store, and so are the digests of weight files; and the
    whole comparison is computed once more. Exit code 1 if any check fails.

    \b
    Examples
      modelkin verify report
      modelkin verify report --files-only
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.verify import verify_folder
    from modelkin.casework.views import verification_view

    found = verify_folder(folder, with_models=not files_only, fetch=fetch, progress=output)
    output.result(found, lambda: verification_view(found, output.language))
    if not found.holds:
        click.get_current_context().exit(FAILED)
