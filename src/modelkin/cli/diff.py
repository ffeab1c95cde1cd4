"""``modelkin diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, out_option, output_options, seed_option

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import Depth, FetchOptions


@click.command()
@click.argument("candidate")
@click.argument("base")
@click.option(
    "--depth",
    type=click.Choice(("standard", "deep", "full")),
    default="standard",
    show_default=True,
    help="How much to read of each model: standard 20 MB, deep 1 GB (also models with moved layers and "
    "renumbered units), full: every value of tensors present in both, in bounded memory.",
)
@click.option(
    "--digests",
    is_flag=True,
    help="With --depth full: the SHA-256 of every range in the record, including local files, where "
    "it takes several times as long as the rest.",
)
@seed_option
@out_option("Write the report folder: report.html, REPORT.md, diff.json, tensors.csv, figures.")
@fetch_options
@output_options
def diff(
    candidate: str,
    base: str,
    *,
    depth: Depth,
    digests: bool,
    seed: int,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Say what changed between BASE and CANDIDATE, tensor by tensor.

    Copied, rounded, quantised, pruned, noise added, an adapter merged in, one direction removed, trained
    further; layers, widths, experts and vocabulary changed; parts frozen or replaced: each with the number
    that decided it and what it cannot tell. Models without a common origin have no difference worth
    describing: then the verdict of `modelkin compare` is shown. -v adds every tensor.

    \b
    Examples
      modelkin diff org/new-model org/old-model
      modelkin diff ./candidate ./base --depth full --out report
      modelkin diff ./candidate ./base --json
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions
    from modelkin import diff as diff_models
    from modelkin.document import diff_view

    options = CompareOptions(depth=depth, seed=seed, fetch=fetch)
    with output.models((candidate, base), fetch) as opened:
        result = diff_models(
            candidate=opened[0], base=opened[1], options=options, digests=digests, progress=output
        )
    output.written(
        result,
        lambda: diff_view(result, output.language, detail=output.detail),
        out=out,
        write=lambda place: result.write(str(place), language=output.lang),
        start="report.html",
    )
