"""``modelkin demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin._cli.options import output_options

if TYPE_CHECKING:
    from modelkin._cli.output import Output


@click.command()
@output_options
def demo(*, output: Output) -> None:
    """Look into a small model that comes with the package. No network."""
    from modelkin import inspect_model, open_model
    from modelkin.demo import demo_model
    from modelkin.report import inspection_view

    with demo_model() as folder, open_model(str(folder), progress=output) as model:
        output.remark("reading the model that comes with modelkin: only its headers, config and tokenizer")
        found = inspect_model(model)
    output.result(found, lambda: inspection_view(found))
