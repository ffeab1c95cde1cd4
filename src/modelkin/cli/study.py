"""``modelkin study``: a whole investigation from one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import STUDY, fetch_options, figures_option, out_option, output_options, seed_option
from modelkin.cli.usage import BadValue
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions


@click.group()
def study() -> None:
    """Run a whole investigation from a YAML file: models, controls, experiments, figures, report.

    Seven of them ship with modelkin: the public analyses of January 2026 with all their experiments, each
    number next to what chance would give, and a question that they left open.

    \b
    Examples
      modelkin study list
      modelkin study replay solar-glm
      modelkin study run sanity-check --out sanity
      modelkin study draw sanity
      modelkin study run original-claim --out claim --model solar=./a --model glm=./b --lang ko
    """  # noqa: D301  click wants the character itself


@study.command("list")
@output_options
def list_studies(*, output: Output) -> None:
    """List the studies that ship with modelkin."""
    from modelkin.casework.studies import load_study, shipped_studies
    from modelkin.casework.views import studies_view

    found = [load_study(name) for name in shipped_studies()]
    document = {
        "studies": [
            {
                "name": item.name,
                "title": item.title["en"],
                "models": {alias: model.ref for alias, model in item.models.items()},
                "experiments": len(item.experiments),
                "figures": len(item.figures),
            }
            for item in found
        ]
    }
    output.result(document, lambda: studies_view(found, output.lang))


@study.command()
@click.argument("study", metavar="NAME_OR_FILE", type=STUDY)
def show(study: str) -> None:
    """Print the YAML of a study, to read it or to start your own."""
    from modelkin.casework.studies import load_study

    click.echo(load_study(study).text.encode("utf-8"), nl=False)


NOTHING_DONE = 3
"""Exit code if no experiment could be done: the one of inputs that could not be obtained."""


@study.command()
@click.argument("study", metavar="NAME_OR_FILE", type=STUDY)
@out_option("Folder for data, figures and reports.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="ALIAS=REF",
    help="Use another model for an alias of the study. Repeat for several.",
)
@seed_option
@click.option("--dry-run", is_flag=True, help="Show what would be fetched, without reading any tensor.")
@click.option(
    "--dpi", type=click.IntRange(30, 600), default=150, show_default=True, help="Resolution of PNG figures."
)
@figures_option
@fetch_options
@output_options
def run(
    study: str,
    *,
    out: Path | None,
    models: tuple[str, ...],
    seed: int,
    dry_run: bool,
    dpi: int,
    figures: bool,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Run a study: read each model once, write data, draw figures from the data, write reports.

    A model that cannot be obtained is listed as missing, with the reason, and the rest goes on. A control
    that cannot be used never counts as zero. The report opens with the answer that has an error rate;
    everything else is description.

    \b
    Files in DIR
      report.html, REPORT.md   the report
      comparison/              the main pair, compared with an error rate
      data/                    all numbers, as CSV, JSON and NPZ
      manifest.json            models with commits, files with digests, versions, what was skipped
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.studies import load_study, run_study
    from modelkin.casework.views import study_view

    if dry_run:
        _show_plan(study, _replaced(models), seed, fetch, output)
        return
    if out is None:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    result = run_study(
        load_study(study),
        out,
        models=_replaced(models),
        seed=seed,
        language=output.lang,
        fetch=fetch,
        dpi=dpi,
        formats=("png", "svg") if figures else ("svg",),
        progress=output,
    )
    output.result(result, lambda: study_view(result, output.lang))
    output.say("written", out=str(out), start=str(out / "report.html"))
    if not result.done:
        click.get_current_context().exit(NOTHING_DONE)


def _show_plan(study: str, models: dict[str, str], seed: int, fetch: FetchOptions, output: Output) -> None:
    from modelkin.casework.studies import load_study, plan_study
    from modelkin.casework.views import study_plan_view

    plan = plan_study(load_study(study), models=models, seed=seed, fetch=fetch, progress=output)
    output.result(plan, lambda: study_plan_view(plan, output.language))
    if not plan.models:
        click.get_current_context().exit(NOTHING_DONE)


def _replaced(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        alias, equals, ref = text.partition("=")
        if not (alias and equals and ref):
            raise BadValue(say("problem.usage-form", form="ALIAS=REF", got=repr(text)), option="--model")
        if alias in found:
            raise BadValue(say("problem.usage-twice", name=repr(alias)), option="--model")
        found[alias] = ref
    return found


@study.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@out_option("Folder for the figures. Default: where the run has them.")
@click.option(
    "--dpi", type=click.IntRange(30, 600), default=150, show_default=True, help="Resolution of the figures."
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(("png", "svg")),
    multiple=True,
    help="Picture format. Default: both.",
)
@output_options
def draw(folder: Path, *, out: Path | None, dpi: int, formats: tuple[str, ...], output: Output) -> None:
    """Draw all figures of a run again, from its saved data.

    FOLDER is what `modelkin study run --out` wrote. No model is opened and nothing is fetched.

    \b
    Examples
      modelkin study draw claim
      modelkin study draw claim --out figures --format svg
    """  # noqa: D301  click wants the character itself
    from modelkin.casework.studies import redraw_study
    from modelkin.casework.views import steps_view

    steps = redraw_study(folder, out, dpi=dpi, formats=formats or ("png", "svg"))  # type: ignore[arg-type]
    output.result({"figures": steps}, lambda: steps_view(steps, output.language))
    output.say("figures_in", out=str(out or folder))


DISPUTES = ("solar-glm",)


@study.command()
@click.argument("dispute", type=click.Choice(DISPUTES))
@out_option("Write replay.json, REPLAY.md, replay.html and figures.")
@figures_option
@output_options
def replay(dispute: str, *, out: Path | None, figures: bool, output: Output) -> None:
    """Retell a dispute from the published measurements alone. No network.

    solar-glm: was Solar-Open-100B derived from GLM-4.5-Air? What each side computed, why a cosine of 0.99
    means nothing, the 182 sigma computed and refuted, controls, fourteen cases, and the verdict. Every
    number is computed from small tables that come with the package. -v adds contradictions and checks.
    """
    from modelkin.casework.replay import replay_solar_glm, replay_view, write_replay

    told = replay_solar_glm()
    output.written(
        told,
        lambda: replay_view(told, output.lang, verbose=output.verbose),
        out=out,
        write=lambda place: write_replay(told, place, output.lang, figures=figures),
        start="replay.html",
    )
