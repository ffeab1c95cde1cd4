"""``modelkin methods``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command()
@click.argument("name", required=False)
@output_options
def methods(name: str | None, *, output: Output) -> None:
    """Show the cards of all evidence methods, or of the one called NAME.

    A card says what a positive result means, what chance means, what the method needs, and what defeats it.
    """
    from modelkin.comparison.methods import load_cards, load_method
    from modelkin.document import methods_view

    cards = tuple(load_cards().values()) if name is None else (load_method(name).card,)
    output.result({"schema": "modelkin.methods/1", "methods": cards}, lambda: methods_view(cards))
