"""``modelkin merge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, out_option, output_options, sampled_depth_option, seed_option

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import Depth, FetchOptions


@click.command()
@click.argument("candidate")
@click.argument("parents", nargs=-1, required=True, metavar="PARENT...")
@click.option(
    "--base",
    metavar="MODEL",
    help="What the parents come from. Without it, TIES and DARE cannot be recognised.",
)
@sampled_depth_option("How much to read of each model: standard 20 MB, deep 1 GB.")
@seed_option
@out_option("Write merge.json, merge.csv, recipe.yaml, MERGE.md and report.html.")
@fetch_options
@output_options
def merge(
    candidate: str,
    parents: tuple[str, ...],
    *,
    base: str | None,
    depth: Depth,
    seed: int,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Ask whether CANDIDATE is a merge of the PARENTs, with which weights and by which method.

    Weights are fitted to the same sampled values of all models, tensor by tensor, and add up to one; with
    --base, the base has a weight too. That a mixture fits better than every single parent proves nothing:
    the common ancestor of the parents lies between them. What counts is whether they lie on opposite
    sides of the candidate. "Not a merge of these" is an answer.

    The output shows weights by layer and module with 95% intervals, the method (linear, slerp, task
    arithmetic, TIES, DARE, DELLA, breadcrumbs, SCE, Model Stock, passthrough, mixture of experts), and the
    nearest recipe for mergekit. -v adds every tensor.

    \b
    Examples
      modelkin merge org/merged org/parent-1 org/parent-2
      modelkin merge org/merged org/parent-1 org/parent-2 --base org/base --out report
      modelkin merge ./frankenmerge ./a ./b --json
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions, explain_merge
    from modelkin.document import merge_view

    options = CompareOptions(depth=depth, seed=seed, fetch=fetch)
    references = (candidate, *parents, *([base] if base is not None else []))
    with output.models(references, fetch) as opened:
        result = explain_merge(
            opened[0],
            opened[1 : 1 + len(parents)],
            base=opened[-1] if base is not None else None,
            options=options,
            progress=output,
        )
    output.written(
        result,
        lambda: merge_view(result, output.language, every_tensor=output.verbose),
        out=out,
        write=lambda place: result.write(place, language=output.lang),
        start="report.html",
    )
