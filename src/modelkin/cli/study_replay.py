"""``modelkin study replay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import figures_option, out_option, output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output

DISPUTES = ("solar-glm",)


@click.command()
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
