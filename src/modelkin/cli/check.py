"""``modelkin check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, output_options, seed_option
from modelkin.cli.usage import BadValue
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import Depth, FetchOptions

FAILED = 1


@click.command()
@click.argument("model")
@click.option(
    "--against",
    multiple=True,
    metavar="MODEL",
    help='An earlier model to check a "from scratch" statement against. Repeat for several.',
)
@click.option(
    "--known",
    multiple=True,
    metavar="NAME=MODEL",
    help="Where to find a model that the card names, if not on the Hub under that name.",
)
@click.option(
    "--depth",
    type=click.Choice(("standard", "deep", "full")),
    default="standard",
    show_default=True,
    help="How much each comparison may read; see `modelkin compare`. A parent that is not found counts "
    "as contradicted only at deep or beyond: before that, parts that were moved or reordered are "
    "not looked for.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("contradicted", "untestable")),
    multiple=True,
    help="Exit with code 1 if a claim is contradicted, or could not be tested.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "sarif")),
    default="text",
    show_default=True,
    help="How to print the result; --json prints the record itself.",
)
@seed_option
@fetch_options
@output_options
def check(
    model: str,
    *,
    against: tuple[str, ...],
    known: tuple[str, ...],
    depth: Depth,
    fail_on: tuple[str, ...],
    format_: str,
    seed: int,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Check every claim of MODEL's card against the weights.

    It reads base_model and its relation, tags, merge recipes, the base of an adapter, what the config was
    saved from, "from scratch" statements, and the licence; if no parent is declared, a sentence such as
    "a fine-tuned version of org/name". Declared ancestors are followed. Each claim comes out supported,
    contradicted or untestable, with the reason. A licence is checked against those of parents that the
    weights confirm. Names on a card are looked up on the Hub and nowhere else.

    \b
    Examples
      modelkin check org/model
      modelkin check ./model --known org/base=./base --fail-on contradicted
      modelkin check org/model --against org/suspect --format sarif
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions, check_card
    from modelkin.document import claims_view, sarif_json

    found = check_card(
        model,
        CompareOptions(depth=depth, seed=seed, fetch=fetch),
        against=against,
        known=dict(_named(item) for item in known),
        progress=output,
    )
    if format_ == "sarif" and not output.as_json:
        click.echo(sarif_json(found).encode("utf-8"))
    else:
        output.result(found, lambda: claims_view(found, output.language))
    if any(item.status in fail_on for item in found.claims):
        click.get_current_context().exit(FAILED)


def _named(text: str) -> tuple[str, str]:
    name, _, place = text.partition("=")
    if not name or not place:
        raise BadValue(say("problem.usage-form", form="NAME=MODEL", got=repr(text)), option="--known")
    return name, place
