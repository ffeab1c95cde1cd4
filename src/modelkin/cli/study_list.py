"""``modelkin study list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output


@click.command("list")
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
