"""``modelkin configs``."""

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
@click.option("--different", is_flag=True, help="Leave out the fields that are equal.")
@fetch_options
@output_options
def configs(candidate: str, base: str, *, different: bool, fetch: FetchOptions, output: Output) -> None:
    """Compare the configs of CANDIDATE and BASE field by field, and each with its tensors.

    Fields are shown under their common names, with their meaning. Names of tensors are scanned for layers
    beyond those in the config and for signs of multi-token prediction; experts are counted, and
    sizes are checked against shapes. Only headers are read, no weights. Equal fields say nothing about where
    weights come from.

    \b
    Examples
      modelkin configs org/new-model org/old-model
      modelkin configs ./a ./b --different
      modelkin configs ./a ./b --json
    """  # noqa: D301  click wants the character itself
    from modelkin import compare_configs
    from modelkin.document import configs_view

    found = compare_configs(candidate, base, fetch, progress=output)
    output.result(found, lambda: configs_view(found, output.language, only_different=different))
