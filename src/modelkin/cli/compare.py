"""``modelkin compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, language_option, out_option, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.model import Model
    from modelkin.options import CompareOptions, Depth, FetchOptions

DEPTHS = ("quick", "standard", "deep", "full")
FAIL_ON: dict[str, bool | None] = {"shared": True, "no-evidence": False, "not-testable": None}
"""Word of --fail-on -> `Verdict.related`."""
FAILED = 1


@click.command()
@click.argument("candidate")
@click.argument("base")
@click.option(
    "--control",
    "controls",
    multiple=True,
    metavar="MODEL",
    help="A model believed to be unrelated, to run the same tests on. Repeat for several: five of the same "
    "shapes give the 20 pairs that a rank among controls needs.",
)
@click.option(
    "--depth",
    type=click.Choice(DEPTHS),
    default="standard",
    show_default=True,
    help="How much to read of each model, and how far to look: quick 1 MB (norm gains), standard 20 MB "
    "(parts of equal number), deep 1 GB (also moved layers, reordered units, rotated coordinates), full as "
    "deep, and every byte where nothing differs.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Chooses samples and permutations.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be fetched, without reading any tensor.")
@out_option("Write the report folder: report.html, REPORT.md, comparison.json, tensors.csv.")
@click.option(
    "--fail-on",
    type=click.Choice(tuple(FAIL_ON)),
    multiple=True,
    help="Exit with code 1 on this result. shared covers every kind of common origin.",
)
@language_option
@fetch_options
@output_options
def compare(
    candidate: str,
    base: str,
    *,
    controls: tuple[str, ...],
    depth: Depth,
    seed: int,
    dry_run: bool,
    out: Path | None,
    fail_on: tuple[str, ...],
    lang: str,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Ask whether CANDIDATE was derived from BASE.

    The answer says whether the weights have a common origin, in which parts, how sure that is, and what
    it does not say. Only samples are read. No threshold on a similarity decides: chance is measured on the
    same numbers in shuffled order. -v adds every single test.

    Weights can be permuted or rotated without changing what a model computes. --depth deep looks for that;
    without it such a copy, or one with a different number of layers, may end in "no evidence". If both units
    and coordinates were scrambled, only several --control models of the same shapes can tell.

    \b
    Examples
      modelkin compare org/new-model org/old-model
      modelkin compare ./candidate ./base --control org/other --out report
      modelkin compare org/new-model org/old-model --dry-run
      modelkin compare org/new-model org/old-model --depth deep
      modelkin compare ./candidate ./base --json --fail-on shared
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions
    from modelkin import compare as compare_models
    from modelkin.document import comparison_view

    options = CompareOptions(depth=depth, seed=seed, fetch=fetch)
    with output.models((candidate, base, *controls), fetch) as opened:
        if dry_run:
            _show_plans(opened, options, output)
            return
        result = compare_models(
            candidate=opened[0], base=opened[1], options=options, controls=opened[2:], progress=output
        )
    output.written(
        result,
        lambda: comparison_view(result, detail=output.detail),
        out=out,
        write=lambda place: result.write(str(place), language=lang),
        start="report.html",
    )
    if any(FAIL_ON[word] is result.verdict.related for word in fail_on):
        click.get_current_context().exit(FAILED)


def _show_plans(opened: list[Model], options: CompareOptions, output: Output) -> None:
    from modelkin.comparison import plan_comparison
    from modelkin.document import plans_view

    mine, theirs = plan_comparison(candidate=opened[0], base=opened[1], options=options)
    document = {"schema": "modelkin.comparison-plan/1", "candidate": mine, "base": theirs}
    names = [f"candidate: {opened[0].location.ref}", f"base: {opened[1].location.ref}"]
    if len(opened) > 2:
        output.remark("controls are not part of this plan; each costs about as much as the base")
    output.result(document, lambda: plans_view(dict(zip(names, (mine, theirs), strict=True))))
