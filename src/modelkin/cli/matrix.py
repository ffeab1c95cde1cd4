"""``modelkin matrix``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import MODEL, fetch_options, named_models, out_option, output_options, seed_option
from modelkin.cli.usage import BadValue
from modelkin.message import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelkin.cli.output import Output
    from modelkin.describe.matrix import KnownRelation
    from modelkin.options import FetchOptions

PAIRS = ("same", "all", "within", "relative", "mixed")


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=MODEL)
@click.option(
    "--measure",
    "--metric",
    "measures",
    multiple=True,
    metavar="MEASURE",
    help="A measure, or all. Repeat for several.",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="NAME",
    help="What to compare: input-norm, post-norm, q-proj, router, embedding, any role that `modelkin "
    "inspect` shows; NAME.bias, expert-up#3, input-minus-post. Default: input-norm and post-norm.",
)
@click.option(
    "--layers",
    multiple=True,
    metavar="[MODEL=]LIST",
    help="Layers such as 0-10,20,30-35, of all models or of one. Default: all decoder layers.",
)
@click.option(
    "--pairs",
    type=click.Choice(PAIRS),
    multiple=True,
    help="Which layers to compare: those with the same number (default), all of two models, all within each "
    "model, those at the same relative depth, or mixed: first listed with first listed.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    help="What to compare the numbers with, see above; all, or none. Default: expectation and shuffle.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME=MODEL,...", help="A group of models.")
@click.option(
    "--known",
    multiple=True,
    metavar="RELATION=MODEL,MODEL",
    help="A relation you know: independent=A,B or derived=A,B. No pair is assumed to be independent.",
)
@click.option(
    "--truncation", is_flag=True, help="Where sizes differ, cut the larger tensor to the size of the smaller."
)
@click.option(
    "--mtp", is_flag=True, help="Also measure the layers for multi-token prediction, apart from the others."
)
@click.option(
    "--sample",
    type=click.IntRange(16),
    default=65_536,
    show_default=True,
    help="Maximum number of values to read from a tensor; larger ones are sampled in seeded blocks.",
)
@click.option(
    "--windows",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Read this many windows of --sample values, where the published probe of attention weights reads.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Number of draws for random baselines.",
)
@click.option(
    "--tokens",
    type=click.IntRange(2),
    default=256,
    show_default=True,
    help="Rows to read for the token baselines.",
)
@seed_option
@out_option("Write matrix.json, matrix.csv, MATRIX.md and report.html.")
@fetch_options
@output_options
def matrix(
    models: tuple[str, ...],
    *,
    measures: tuple[str, ...],
    roles: tuple[str, ...],
    layers: tuple[str, ...],
    pairs: tuple[str, ...],
    baselines: tuple[str, ...],
    groups: tuple[str, ...],
    known: tuple[str, ...],
    truncation: bool,
    mtp: bool,
    sample: int,
    windows: int,
    draws: int,
    tokens: int,
    seed: int,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Measure tensors of several models, layer by layer, next to what chance would give.

    This describes; it decides nothing. Every number is shown with its mean over all reorderings of one
    tensor's values, and a cosine never comes without rho x rho, the part that the means account for, and
    r, what is left. For an answer with an error rate use `modelkin compare`.

    A MODEL may be given a name: glm=zai-org/GLM-4.5-Air.

    \b
    Measures
      cosine, mean-direction (rho x rho), pearson (r, the centred cosine), excess-cosine, spearman,
      cosine-about-1, l2, relative-l2 (over the first model's length), relative-l2-symmetric,
      mean-absolute-difference, p99-difference, cv-difference, changed-share, mean-ulps, max-ulps,
      byte-identity

    \b
    Baselines
      expectation      exact mean over all reorderings, averaged over layers
      shuffle          reordered places, drawn, the same in all layers of a model
      random           normal numbers with the data's means and deviations
      mismatched       layers that are equally far apart, by distance
      layer-0          layer 0 with the others, next to pairs of other layers: shown as the outlier it is
      within           every two layers of one model
      independent, derived             pairs declared by --known
      groups                           inside and between the groups of --group
      random-tokens, permuted-tokens   rows of other tokens, for embedding and output head

    \b
    Examples
      modelkin matrix org/a org/b
      modelkin matrix a=org/a b=org/b c=./c --role k-proj --layers 10,20,30 --measure all
      modelkin matrix org/a org/b --pairs all --pairs within --baseline all --out report
      modelkin matrix a=org/a b=org/b --pairs mixed --layers a=10 --layers b=20
      modelkin matrix small=org/a big=org/b --role q-proj --truncation
      modelkin matrix org/a org/b --role k-proj --windows 3 --sample 262144
    """  # noqa: D301  click wants the character itself
    from modelkin.describe.matrix import MatrixOptions
    from modelkin.describe.matrix import matrix as measure
    from modelkin.describe.measures import DEFAULT, PAIRINGS
    from modelkin.document import matrix_view

    usual = MatrixOptions()
    named = named_models(models)
    own, common = _layers(layers)
    options = MatrixOptions(
        measures=measures or DEFAULT,
        roles=roles or usual.roles,
        layers=common,
        layers_of=own,
        pairs=tuple(word for word in PAIRINGS if word in pairs) or usual.pairs,
        baselines=_baselines(baselines, asked=(bool(groups), known)),
        groups={name: tuple(members.split(",")) for name, members in _pairs("--group", groups)},
        known=_known(known),
        truncation=truncation,
        mtp=mtp,
        sample=sample,
        windows=windows,
        draws=draws,
        tokens=tokens,
        seed=seed,
        fetch=fetch,
    )
    with output.models(named.values(), fetch) as opened:
        result = measure(dict(zip(named, opened, strict=True)), options, progress=output)
    view = partial(matrix_view, result, output.language, detail=output.detail)
    write = partial(result.write, language=output.lang)
    output.written(result, view, out=out, write=write, start="report.html")


def _baselines(names: tuple[str, ...], *, asked: tuple[bool, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the baselines; giving groups or known relations requests theirs."""
    from modelkin.describe.matrix import BASELINES, MatrixOptions

    if "all" in names:
        return tuple(BASELINES)
    chosen = tuple(name for name in names if name != "none") if names else MatrixOptions().baselines
    grouped, known = asked
    implied = (*(["groups"] if grouped else []), *(text.partition("=")[0] for text in known))
    return tuple(dict.fromkeys((*chosen, *(name for name in implied if name in BASELINES))))


def _layers(texts: tuple[str, ...]) -> tuple[dict[str, str], str | None]:
    """Separate the layers of single models from those of all."""
    own = dict(text.rsplit("=", 1) for text in texts if "=" in text)
    common = ",".join(text for text in texts if "=" not in text)
    return own, common or None


def _known(texts: tuple[str, ...]) -> tuple[KnownRelation, ...]:
    from modelkin.describe.matrix import KnownRelation

    found = []
    for relation, members in _pairs("--known", texts):
        both = members.split(",")
        if len(both) != 2:
            raise BadValue(say("problem.usage-two-models", got=repr(members)), option="--known")
        found.append(KnownRelation(relation=relation, model_a=both[0], model_b=both[1]))
    return tuple(found)


def _pairs(option: str, texts: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, rest = text.partition("=")
        if not (name and equals and rest):
            raise BadValue(say("problem.usage-form", form="NAME=MODEL,MODEL", got=repr(text)), option=option)
        yield name, rest
