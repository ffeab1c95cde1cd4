"""``modelkin tokenizers``."""

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
    "--high-from",
    type=click.IntRange(0),
    metavar="ID",
    help="Count the tokens from this id on by script. Default: where the smaller vocabulary ends.",
)
@fetch_options
@output_options
def tokenizers(
    candidate: str, base: str, *, high_from: int | None, fetch: FetchOptions, output: Output
) -> None:
    """Compare the tokenizers of CANDIDATE and BASE.

    Each is a model, or a single tokenizer file. Shows kinds, sizes, tokens and merges in common, the
    order of ids, and next to it what separately trained tokenizers have in common. This is not a verdict
    on weights: tokenizers are public, and models with the same one are often trained separately.

    \b
    Examples
      modelkin tokenizers org/new-model org/old-model
      modelkin tokenizers ./tokenizer.json ./qwen.tiktoken --json
    """  # noqa: D301  click wants the character itself
    from modelkin import compare_tokenizers
    from modelkin.document import tokenizers_view

    found = compare_tokenizers(candidate, base, fetch, high_from=high_from, progress=output)
    output.result(found, lambda: tokenizers_view(found, output.language, verbose=output.verbose))
