"""``modelkin study list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import language_option, output_options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from modelkin.cli.output import Output


@click.command("list")
@language_option
@output_options
def list_studies(*, lang: str, output: Output) -> None:
    """Show the studies that come with modelkin."""
    from modelkin.casework.studies import load_study, shipped_studies

    found = [load_study(name) for name in shipped_studies()]
    document = {
        "studies": [
            {
                "name": item.name,
                "title": item.title[lang],
                "models": {alias: model.ref for alias, model in item.models.items()},
                "experiments": len(item.experiments),
                "figures": len(item.figures),
            }
            for item in found
        ]
    }

    def view() -> RenderableType:
        from rich.table import Table

        table = Table("study", "what it is", "models", "experiments", "figures", box=None, pad_edge=False)
        for item in found:
            table.add_row(
                item.name,
                item.title[lang],
                ", ".join(item.models),
                str(len(item.experiments)),
                str(len(item.figures)),
            )
        return table

    output.result(document, view)
