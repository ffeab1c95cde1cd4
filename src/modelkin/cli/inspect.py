"""``modelkin inspect``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import MODEL, fetch_options, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

COMPONENTS = ("norms", "embedding", "attention", "mlp", "experts", "router", "head")


@click.command()
@click.argument("model", type=MODEL)
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
    model: str, *, tensors: bool, components: tuple[str, ...], fetch: FetchOptions, output: Output
) -> None:
    """Show what is in MODEL, from headers alone.

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

    with output.models((model,), fetch) as (opened,):
        if components:
            plan = plan_components(opened, components)
            output.result(plan, lambda: plan_view(plan, output.language))
            return
        found = inspect_model(opened)
    output.result(found, lambda: inspection_view(found, output.language, every_tensor=tensors))
