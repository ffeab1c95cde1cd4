"""``modelkin embeddings``."""

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
    "--tokens",
    default="all",
    show_default=True,
    metavar="KIND",
    help='Which tokens: all, "ASCII words", English-like, or a script such as Hangul.',
)
@click.option(
    "--count", type=click.IntRange(8), default=512, show_default=True, help="Maximum number of tokens."
)
@click.option("--head", is_flag=True, help="Use rows of the output head instead.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Chooses the tokens.")
@fetch_options
@output_options
def embeddings(
    candidate: str,
    base: str,
    *,
    tokens: str,
    count: int,
    head: bool,
    seed: int,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Compare the embedding rows of tokens that CANDIDATE and BASE share.

    Tokens are matched by the text they stand for. Cosines are shown next to those of wrong pairings;
    tokens with the same id and with different ids are told apart, and the nearest and farthest are listed.
    Only the sampled rows and both tokenizers are read. This is not a verdict; for one, use `modelkin
    compare`.

    \b
    Examples
      modelkin embeddings org/new-model org/old-model
      modelkin embeddings ./a ./b --tokens "ASCII words" --count 300
    """  # noqa: D301  click wants the character itself
    from modelkin import compare_embeddings
    from modelkin.document import embeddings_view

    found = compare_embeddings(
        candidate,
        base,
        fetch,
        role="head" if head else "embedding",
        tokens=tokens,
        n_tokens=count,
        seed=seed,
        progress=output,
    )
    output.result(found, lambda: embeddings_view(found, output.language))
