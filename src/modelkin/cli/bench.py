"""``modelkin bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.compare import DEPTHS
from modelkin.cli.options import MODEL, Size, methods_option, out_option, output_options, seed_option

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import Depth


@click.command()
@click.argument("pairs", metavar="PAIRS")
@methods_option(
    "Which methods: modelkin for our own comparison, names of published ones (see modelkin methods "
    "--published), or all: ours and every published method that reads weights.",
    default=("all",),
)
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default="standard",
    show_default=True,
    help="Depth of our own comparison.",
)
@click.option(
    "--methods-budget",
    type=Size(),
    default="1GB",
    show_default=True,
    metavar="SIZE",
    help="Read at most this many bytes of a model for one published method; a pair that needs more has "
    "no score.",
)
@click.option(
    "--budget",
    type=Size(),
    metavar="SIZE",
    help="Read at most this many bytes for all pairs together; pairs beyond that are listed and left "
    "for the next run.",
)
@click.option(
    "--side-by-side",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Pairs to work on at the same time.",
)
@click.option(
    "--control",
    "controls",
    multiple=True,
    type=MODEL,
    metavar="MODEL",
    help="An unrelated model for the published method behaviour, which ranks each pair among three of them "
    "or more. Repeat for several; each is run once for all pairs, and counts for no pair it is part of.",
)
@click.option(
    "--prompts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Prompts for published methods that run the models, one per line. Default: 200 of our own.",
)
@click.option("--offline", is_flag=True, help="Make no network requests; use only what is stored locally.")
@click.option("--no-store", is_flag=True, help="Do not use or fill the local store of fetched ranges.")
@seed_option
@out_option("Write the report here, and resume an earlier run found here.", required=True)
@output_options
def bench(
    pairs: str,
    *,
    methods: tuple[str, ...],
    depth: Depth,
    methods_budget: int,
    budget: int | None,
    side_by_side: int,
    controls: tuple[str, ...],
    prompts: Path | None,
    offline: bool,
    no_store: bool,
    seed: int,
    out: Path,
    output: Output,
) -> None:
    """Evaluate methods, ours included, on labelled pairs of models.

    PAIRS is a table (tab-separated) with the columns source, model_a (base), model_b (candidate), label
    (related, independent, or another word for what is not counted), relation and note; or public, or
    public:NAME, for the published pairs that come with the package: AWM, Zhu2025, LeaFBench, MDGBench,
    CiscoMPK, modelDNA-LineageBench, HuRef and others.

    The folder gets one table of areas, hits and false accusations with intervals, hits by relation, bytes
    and seconds, ROC curves and scores, as bench.html, BENCH.md, bench.json, methods.csv and pairs.csv. A
    pair that cannot be obtained is listed with the reason. A run that was stopped resumes where it left
    off.

    \b
    Examples
      modelkin bench pairs.tsv --out bench
      modelkin bench public:AWM --methods modelkin,awm --methods-budget 3GB --out awm
      modelkin bench public --methods modelkin --budget 50GB --out ours
      modelkin bench pairs.tsv --methods behaviour --control ./one --control ./two --control ./three --out b
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.bench import (
        BenchOptions,
        bench_blocks,
        bench_methods,
        read_pairs,
        run_bench,
        write_bench,
    )
    from modelkin.options import FetchOptions
    from modelkin.reference import read_prompts

    bench_methods(methods)
    listed = read_pairs(pairs)
    options = BenchOptions(
        methods=methods,
        depth=depth,
        method_bytes=methods_budget,
        byte_budget=budget,
        side_by_side=side_by_side,
        controls=controls,
        prompts=() if prompts is None else read_prompts(prompts),
        seed=seed,
    )
    fetch = FetchOptions(offline=True if offline else None, use_store=not no_store)
    result = run_bench(listed, out, options, fetch=fetch, progress=output)
    output.written(
        result,
        lambda: bench_blocks(result, output.language),
        out=out,
        write=lambda place: write_bench(result, place, language=output.lang),
        start="bench.html",
    )
