"""``modelkin repositories``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import MODEL, fetch_options, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions


@click.command()
@click.argument("candidate", type=MODEL)
@click.argument("base", type=MODEL)
@click.option(
    "--control",
    "controls",
    multiple=True,
    metavar="MODEL",
    help="A repository that nobody links to the candidate: what code has in common anyway.",
)
@fetch_options
@output_options
def repositories(
    candidate: str, base: str, *, controls: tuple[str, ...], fetch: FetchOptions, output: Output
) -> None:
    """Compare the code, licence headers, copyright lines and commits of CANDIDATE and BASE, as text.

    Nothing is run, imported or unpacked, and no weights are read. Files of the same kind (modelling,
    configuration, tokenization, licence) are compared, with and without the models' own names. These are
    claims about a history: code is copied between projects with and without any relation of weights, and no
    verdict uses them. Two revisions of one repository show what became of its headers.

    \b
    Examples
      modelkin repositories org/new-model org/old-model --control org/other
      modelkin repositories org/model@main org/model@v1
      modelkin repositories org/model ./transformers/src/transformers/models/glm4_moe
    """  # noqa: D301  click wants the character itself
    from modelkin import compare_repositories
    from modelkin.document import repositories_view

    found = compare_repositories(candidate, base, fetch, controls=controls, progress=output)
    output.result(found, lambda: repositories_view(found, output.language, verbose=output.verbose))
