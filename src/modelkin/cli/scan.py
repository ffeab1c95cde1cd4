"""``modelkin scan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import fetch_options, out_option, output_options, registry_option

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.options import Depth, FetchOptions

DEPTHS = ("none", "quick", "standard", "deep", "full")


@click.command()
@click.argument("model")
@registry_option
@click.option("--top", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Hits to list.")
@click.option(
    "--verify",
    type=click.IntRange(0, 1_000),
    default=5,
    show_default=True,
    help="How many of the best hits are compared with MODEL itself.",
)
@click.option(
    "--verify-depth",
    type=click.Choice(DEPTHS),
    default="standard",
    show_default=True,
    help="How much is read for that, as for `compare --depth`. Permuted and rotated copies, which are only "
    "proposed, need deep.",
)
@out_option("Write scan.json, report.html, REPORT.md, and the report on each verified hit.")
@fetch_options
@output_options
def scan(
    model: str,
    *,
    registry: str,
    top: int,
    verify: int,
    verify_depth: str,
    out: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Ask which models of a registry MODEL has a common origin with.

    MODEL is a model, or a file that `modelkin fingerprint` wrote. All fingerprints in the registry are
    searched; p-values are corrected for a registry of a hundred million models, so a finding remains
    one while the registry grows. The best hits are then verified by `compare` on the weights.

    \b
    Examples
      modelkin scan org/name --registry ./registry
      modelkin scan ./folder --registry s3://bucket/registry --verify-depth deep --out report
      modelkin scan name.fingerprint.json --registry ./registry --json
    """  # noqa: D301  click wants the character itself
    from modelkin import ScanOptions, fingerprint_model, open_registry
    from modelkin import scan as scan_registry
    from modelkin.cli.registry import saved_fingerprint
    from modelkin.document import scan_view, write_scan

    depth: Depth | None = None if verify_depth == "none" else verify_depth  # type: ignore[assignment]
    options = ScanOptions(top=top, verify=verify, verify_depth=depth, fetch=fetch)
    opened_registry = open_registry(registry)
    saved = saved_fingerprint(model)
    if saved is not None:
        result = scan_registry(saved, opened_registry, options, progress=output)
    else:
        with output.models((model,), fetch) as (opened,):
            made = fingerprint_model(opened)
            result = scan_registry(made, opened_registry, options, model=opened, progress=output)
    output.written(
        result,
        lambda: scan_view(result, language=output.language),
        out=out,
        write=lambda place: write_scan(result, place, language=output.lang),
        start="report.html",
    )
