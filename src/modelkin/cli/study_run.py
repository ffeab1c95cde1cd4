"""``modelkin study run``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, language_option, out_option, output_options, seed_option

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import FetchOptions

NOTHING_DONE = 3


@click.command()
@click.argument("study", metavar="NAME_OR_FILE")
@out_option("Folder for data, figures and reports.", required=True)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="ALIAS=REF",
    help="Use another model for an alias of the study. Repeat for several.",
)
@seed_option
@click.option(
    "--dpi", type=click.IntRange(30, 600), default=150, show_default=True, help="Resolution of the figures."
)
@language_option
@fetch_options
@output_options
def run(
    study: str,
    *,
    out: Path,
    models: tuple[str, ...],
    seed: int,
    dpi: int,
    lang: str,
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

    result = run_study(
        load_study(study),
        out,
        models=_replaced(models),
        seed=seed,
        language=lang,
        fetch=fetch,
        dpi=dpi,
        progress=output,
    )
    output.result(result, lambda: study_view(result))
    output.remark(f"written to {out}: start with {out / 'report.html'}")
    if not result.done:
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
