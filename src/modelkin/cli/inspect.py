"""``modelkin inspect``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import MODEL, fetch_options, output_options
from modelkin.cli.usage import Misused
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

COMPONENTS = ("norms", "embedding", "attention", "mlp", "experts", "router", "head")


@click.command()
@click.argument("models", type=MODEL, nargs=-1, required=True, metavar="MODEL...")
@click.option("--tensors", is_flag=True, help="List every tensor, not only a summary by role.")
@click.option(
    "--plan",
    "components",
    multiple=True,
    type=click.Choice(COMPONENTS),
    help="Show instead what reading this component would fetch. Repeat for several.",
)
@fetch_options
@output_options
def inspect(
    models: tuple[str, ...],
    *,
    tensors: bool,
    components: tuple[str, ...],
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Show what is in each MODEL, from headers alone.

    Architecture family, layers, widths, experts, formats, parameter counts, tokenizer, and what each
    tensor is for. Tensors of unknown role are listed. No tensor is downloaded.

    \b
    Examples
      modelkin inspect org/name
      modelkin inspect ./folder --tensors
      modelkin inspect org/name --plan norms --json
    """  # noqa: D301  click wants the character itself
    from modelkin import inspect_model, plan_components
    from modelkin.document import inspection_view, plan_view
    from modelkin.source import BytePlan

    if output.as_json and len(models) > 1:
        raise Misused(say("problem.usage-one-model"))
    for model in models:
        with output.models((model,), fetch) as (opened,):
            found = plan_components(opened, components) if components else inspect_model(opened)
        if isinstance(found, BytePlan):
            output.result(found, partial(plan_view, found, output.language))
        else:
            output.result(found, partial(inspection_view, found, output.language, every_tensor=tensors))
