"""``modelkin fingerprint``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, output_options
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions


@click.command()
@click.argument("model")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the fingerprint to a file, as JSON, for `registry add` and `scan`.",
)
@fetch_options
@output_options
def fingerprint(model: str, *, file: Path | None, fetch: FetchOptions, output: Output) -> None:
    """Make the fingerprint of MODEL: 30 kB that show a common origin.

    At most 20 MB of a model is read (64 MB of very wide ones). The product of two fingerprints is the
    statistic of the exact test on weights. It can be published: nobody can rebuild weights from it, but it
    shows the shape of a model, and whoever has a candidate for its parent can test it.

    \b
    Examples
      modelkin fingerprint org/name
      modelkin fingerprint ./folder -o folder.fingerprint.json
    """  # noqa: D301  click wants the character itself
    from modelkin import fingerprint_model
    from modelkin.document import fingerprint_view, to_json

    with output.models((model,), fetch) as (opened,):
        made = fingerprint_model(opened)
    if file is not None:
        _write(file, to_json(made) + "\n")
    output.result(made, lambda: fingerprint_view(made, output.language))
    if file is not None:
        output.say("written_file", file=str(file))


def _write(file: Path, text: str) -> None:
    from modelkin.errors import not_written

    draft = file.with_name(f".{file.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise not_written(str(file), say("part.the-fingerprint"), error) from error
