"""``modelkin tree``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import (
    fetch_options,
    named_models,
    out_option,
    output_options,
    sampled_depth_option,
    seed_option,
)
from modelkin.cli.usage import BadValue
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.fingerprint import Fingerprint
    from modelkin.lineage.growing import WhichPairs
    from modelkin.model import Model
    from modelkin.options import Depth, FetchOptions

PAIRS = ("all", "proposed")


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@click.option(
    "--date",
    "dates",
    multiple=True,
    metavar="MODEL=YYYY-MM-DD",
    help="Claimed release date of a model, named as a claim wherever it decides a direction.",
)
@sampled_depth_option(
    "Depth of the comparisons that decide who is related: standard 20 MB of each model, deep 1 GB."
)
@click.option(
    "--pairs",
    type=click.Choice(PAIRS),
    help="Compare all pairs, or those that fingerprints propose. Default: all; proposed with --registry.",
)
@click.option(
    "--registry",
    metavar="REGISTRY",
    help="Take fingerprints from this registry, and all of its models where no MODEL is given.",
)
@seed_option
@out_option("Write tree.json, tree.nwk, tree.graphml, TREE.md and report.html.")
@fetch_options
@output_options
def tree(
    models: tuple[str, ...],
    *,
    dates: tuple[str, ...],
    depth: Depth,
    pairs: WhichPairs | None,
    registry: str | None,
    seed: int,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Find the families among MODELs, how they are connected, and which came first.

    Pairs are compared once; families are what accepted pairs connect, and nothing else. Models that are
    left alone are compared deeper with those that their fingerprints propose. Within a family, a model is
    attached to the one whose change it carries, and a merge to its parents. Which came first is said only
    where an asymmetric fact tells it, and each is named: a larger vocabulary, a pruned or quantised copy,
    layers that were repeated or left out, experts, tensors frozen since an outgroup, a trail of rounding,
    rows that weight decay made shorter, the parents of a mixture, a parent that is known already, claimed
    dates. Otherwise: direction not identified.

    A MODEL may be given a name: glm=zai-org/GLM-4.5-Air. -v adds the verdicts on all pairs.

    \b
    Examples
      modelkin tree org/a org/b org/c
      modelkin tree a=org/a b=org/b c=./c --date a=2024-01-31 --date c=2024-06-01 --out report
      modelkin tree --registry ./registry --out report
    """  # noqa: D301  click wants the character itself
    from modelkin import CompareOptions, family_forest
    from modelkin.document import tree_view

    prints = {} if registry is None else _fingerprints(registry)
    named = named_models(models or tuple(prints))
    if not named:
        raise click.MissingParameter(
            ctx=click.get_current_context(), param_hint="'MODEL...'", param_type="argument"
        )
    options = CompareOptions(depth=depth, seed=seed, fetch=fetch)
    claimed = dict(_dates(dates))
    with output.models(named.values(), fetch) as opened:
        result = family_forest(
            dict(zip(named, opened, strict=True)),
            dates=claimed,
            pairs=pairs or ("all" if registry is None else "proposed"),
            fingerprints=dict(_current(dict(zip(named, opened, strict=True)), named, prints)),
            options=options,
            progress=output,
        )
    output.written(
        result,
        lambda: tree_view(result, output.language, every_pair=output.verbose),
        out=out,
        write=lambda place: result.write(place, language=output.lang),
        start="report.html",
    )


def _fingerprints(registry: str) -> dict[str, Fingerprint]:
    from modelkin.registry import all_fingerprints, open_registry

    return {made.model.ref: made for made in all_fingerprints(open_registry(registry))}


def _current(
    opened: Mapping[str, Model], named: Mapping[str, str], prints: Mapping[str, Fingerprint]
) -> Iterator[tuple[str, Fingerprint]]:
    """Yield the fingerprints of exactly the revisions that are opened; the others are made again."""
    if not prints:
        return
    from modelkin.registry import revision_of

    for name, ref in named.items():
        made = prints.get(ref)
        if made is not None and made.model.revision == revision_of(opened[name]):
            yield name, made


def _dates(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, _, day = text.rpartition("=")
        try:
            found.append((name, date.fromisoformat(day).isoformat()))
        except ValueError:
            raise BadValue(
                say("problem.usage-form", form="MODEL=YYYY-MM-DD", got=repr(text)), option="--date"
            ) from None
    return found
