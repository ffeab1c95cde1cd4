"""``modelkin lab``: experiments with known answers, and the zoo."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modelkin.cli.options import fetch_options, out_option, output_options
from modelkin.cli.usage import Misused
from modelkin.errors import FormatError, NotFound
from modelkin.message import said_by, say

if TYPE_CHECKING:
    from modelkin.casework.lab import NormsOptions, VectorPair
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

INITS = ("ones", "near-one", "random")
"""Same as in `modelkin.casework.lab`, which is not imported just for help."""
FAMILIES = ("gpt2", "llama")

_out_option = out_option("Write numbers and figures.")


@click.group()
def lab() -> None:
    """Experiments with known answers: what cosines, gains and tests say about them.

    `norms` and `build` train tiny models and need the extra `lab` (torch); the others do not.
    """


@lab.command()
@click.option(
    "--init",
    "inits",
    type=click.Choice(INITS),
    multiple=True,
    help="How gains are initialised. Default: all.",
)
@click.option(
    "--seeds", type=click.IntRange(2, 50), help="Models trained from scratch in each arm. [default: 4]"
)
@click.option("--steps", type=click.IntRange(4), help="Training steps. [default: 400]")
@click.option("--family", type=click.Choice(FAMILIES), default="gpt2", show_default=True)
@click.option(
    "--seed", type=click.IntRange(0, 2**20 - 1), default=0, show_default=True, help="Base of all seeds."
)
@click.option(
    "--published",
    is_flag=True,
    help="The set-up of the published experiment: 12 layers of width 512, cyclic tokens. Takes an hour.",
)
@click.option("--small", is_flag=True, help="Seconds instead of minutes: only shows that it works.")
@click.option(
    "--results",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Train nothing: redo figures and conclusions from a norms.json.",
)
@_out_option
@output_options
def norms(
    *,
    inits: tuple[str, ...],
    seeds: int | None,
    steps: int | None,
    family: str,
    seed: int,
    published: bool,
    small: bool,
    results: Path | None,
    out: Path | None,
    output: Output,
) -> None:
    """Train tiny models whose norm gains are initialised in different ways, and compare all pairs.

    Each arm has unrelated models on the same and on different data, models that share only their initial
    weights, and fine-tuned ones. Cosines are shown next to what the means alone give and next to exact
    tests. Takes minutes on one core.

    \b
    Initial gains
      ones       all at one, as in real models
      near-one   drawn from N(1, 0.1)
      random     drawn from N(0, 1), as in the experiment that started the dispute

    \b
    Examples
      modelkin lab norms --out norms
      modelkin lab norms --small
      modelkin lab norms --published --out published
      modelkin lab norms --init ones --seeds 6 --steps 1000 --family llama --out norms
      modelkin lab norms --results norms/norms.json --out norms
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.lab import conclude, norms_blocks, norms_experiment, norms_from_json, write_norms

    if results is not None:
        result = conclude(norms_from_json(_text_of(results)))
    else:
        if published and small:
            raise Misused(say("problem.usage-not-both", a="--published", b="--small"))
        size = "published" if published else "small" if small else "usual"
        options = _norms_options(inits, seeds, steps, family=family, seed=seed, size=size)
        result = norms_experiment(options, report=lambda line: output.remark(output.language.wording(line)))
    output.written(
        result,
        lambda: norms_blocks(result, output.language),
        out=out,
        write=lambda place: write_norms(result, place, output.language),
        start="NORMS.md",
    )


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(str(path), say("problem.unreadable", why=said_by(error))) from error
    except UnicodeDecodeError as error:
        raise FormatError(str(path), say("problem.utf8-text")) from error


def _norms_options(
    inits: tuple[str, ...], seeds: int | None, steps: int | None, *, family: str, seed: int, size: str
) -> NormsOptions:
    from modelkin.casework.lab import NormsOptions

    usual = NormsOptions()
    options = {"published": usual.published, "small": usual.small}.get(size, lambda: usual)()
    given = {"seeds": seeds, "steps": steps, "inits": tuple(dict.fromkeys(inits)) or None}
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(options, family=family, seed=seed, **changes)  # type: ignore[arg-type]  # checked by the record


@lab.command()
@click.option(
    "--pairs",
    type=click.IntRange(2),
    default=10_000,
    show_default=True,
    help="Pairs of vectors of each kind.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=42, show_default=True, help="Seed of the draws."
)
@_out_option
@output_options
def cosines(*, pairs: int, seed: int, out: Path | None, output: Output) -> None:
    """Draw independent normal vectors, and compare their cosines with the closed form.

    Means and standard deviations alone decide the cosine of unrelated vectors. Published norm gains are shown
    next to it.
    """
    from modelkin.casework.lab import CosineStudyOptions, cosine_study, write_cosines
    from modelkin.casework.views import cosines_view

    study = cosine_study(CosineStudyOptions(pairs=pairs, seed=seed))
    output.written(
        study,
        lambda: cosines_view(study, output.language),
        out=out,
        write=lambda place: write_cosines(study, place, output.language),
        start="cosines.csv",
    )


@lab.command()
@click.option(
    "--vectors",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Two vectors: .npy, .json, or text with two columns or rows. Default: a small example.",
)
@click.option(
    "--model", "models", multiple=True, metavar="MODEL", help="Take the vectors from one model, or from two."
)
@click.option(
    "--role", default="input-norm", show_default=True, metavar="NAME", help="Which tensor of a model."
)
@click.option(
    "--layer", "layers", metavar="N[,M]", help="Two layers of one model; one or two for two models."
)
@click.option(
    "--frames", type=click.IntRange(4, 400), default=65, show_default=True, help="Frames of the animation."
)
@_out_option
@fetch_options
@output_options
def centring(
    *,
    vectors: Path | None,
    models: tuple[str, ...],
    role: str,
    layers: str | None,
    frames: int,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Show what happens to the angle between two vectors when their means are removed.

    With --out: two stills, an animation and the numbers. Long vectors are shown without loss: two vectors and
    the direction of equal values span three dimensions.

    \b
    Examples
      modelkin lab centring --out centring
      modelkin lab centring --vectors two.csv --out centring
      modelkin lab centring --model org/a --model org/b --role input-norm --layer 10 --out centring
      modelkin lab centring --model org/a --layer 0,10
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.lab import EXAMPLE, read_vectors, write_centring
    from modelkin.casework.lab import centring as centred
    from modelkin.casework.views import centring_view

    if vectors is not None and models:
        raise Misused(say("problem.usage-not-both", a="--vectors", b="--model"))
    if models:
        pair = _model_pair(models, role, layers, fetch, output)
    else:
        pair = EXAMPLE if vectors is None else read_vectors(vectors)
    numbers = (
        centred(pair) if out is None else write_centring(pair, out, frames=frames, language=output.language)
    )
    output.result(numbers, lambda: centring_view(numbers, output.language))
    if out is not None:
        output.say("stills_in", out=str(out))


def _model_pair(
    models: tuple[str, ...], role: str, layers: str | None, fetch: FetchOptions, output: Output
) -> VectorPair:
    from modelkin.casework.lab import model_vectors

    if layers is None:
        raise Misused(say("problem.usage-needs", a="--model", b="--layer"))
    with output.models(models, fetch) as opened:
        return model_vectors(tuple(opened), role=role, layers=layers)


@lab.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only this model and its ancestors. Repeat for several."
)
def build(*, out: Path, only: tuple[str, ...]) -> None:
    """Train the models of the zoo that are missing from a folder. Needs the extra `lab`."""
    from modelkin.casework.lab import build_zoo, load_recipes

    build_zoo(load_recipes(), out, only=only, report=_reporter())


@lab.command()
@click.option(
    "--zoo", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, metavar="DIR"
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
def embed(*, zoo: Path, out: Path) -> None:
    """Copy the models that ship with the package from a built zoo."""
    from modelkin.casework.lab import copy_embedded, load_recipes

    copy_embedded(load_recipes(), zoo, out)


def _reporter() -> Callable[[dict[str, Any]], None]:
    """Return a function that prints a line per trained model."""
    started = time.monotonic()

    def report(record: dict[str, Any]) -> None:
        seconds = time.monotonic() - started
        told = {key: record.get(key) for key in ("first_loss", "last_loss", "gain_spread", "change")}
        click.echo(f"{seconds:7.0f} s  {record['name']:20} {json.dumps(told)}")

    return report
