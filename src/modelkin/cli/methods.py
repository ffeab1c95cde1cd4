"""``modelkin methods``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import METHOD, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command()
@click.argument("name", required=False, type=METHOD)
@click.option("--published", is_flag=True, help="Show the cards of published methods, which decide nothing.")
@output_options
def methods(name: str | None, *, published: bool, output: Output) -> None:
    """Show the cards of all evidence methods, or of the one called NAME.

    A card says what a positive result means, what chance means, what the method needs, and what defeats it.
    Published methods (--published, or by NAME) are those of compare --methods and bench.
    """
    from modelkin.comparison.methods import load_cards, load_method
    from modelkin.document import methods_view, reference_cards_view
    from modelkin.reference import load_reference_cards

    references = load_reference_cards()
    if published or name in references:
        chosen = tuple(card for card in references.values() if name in (None, card.name))
        document = {"schema": "modelkin.reference-methods/1", "methods": chosen}
        output.result(document, lambda: reference_cards_view(chosen, output.language))
        return
    cards = tuple(load_cards().values()) if name is None else (load_method(name).card,)
    output.result(
        {"schema": "modelkin.methods/1", "methods": cards}, lambda: methods_view(cards, output.language)
    )
