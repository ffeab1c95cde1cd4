"""``modelkin study run``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import (
    STUDY,
    fetch_options,
    figures_option,
    out_option,
    output_options,
    seed_option,
)

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

NOTHING_DONE = 3


@click.command()
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
            raise click.BadParameter(f"expected ALIAS=REF, got {text!r}", param_hint="--model")
        if alias in found:
            raise click.BadParameter(f"{alias!r} was given twice", param_hint="--model")
        found[alias] = ref
    return found
