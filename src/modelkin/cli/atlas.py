"""``modelkin atlas``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import cluster_option, fetch_options, out_option, output_options, registry_option
from modelkin.cli.usage import Misused
from modelkin.message import say

if TYPE_CHECKING:
    from modelkin.atlas import AboutModel
    from modelkin.cli.output import Output
    from modelkin.options import Depth, FetchOptions
    from modelkin.serving import ServeAccess

DEPTHS = ("none", "standard", "deep", "full")


@click.command()
@click.argument("action", required=False, type=click.Choice(("serve",)), metavar="[serve]")
@registry_option
@click.option(
    "--about",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A tab-separated table of ref, name and date: the names that cards use for the models, and dates.",
)
@click.option("--cards/--no-cards", default=True, show_default=True, help="Read what the models declare.")
@click.option(
    "--claims-depth",
    type=click.Choice(DEPTHS),
    default="deep",
    show_default=True,
    help="How much of the weights is read for a declared parent that the fingerprints do not show. A "
    "card can be contradicted only at deep or beyond.",
)
@click.option(
    "--grow",
    type=click.IntRange(0, 1_000),
    default=12,
    show_default=True,
    metavar="N",
    help="Grow the tree of families of at most N members from weights, 20 MB of each; 0 grows none.",
)
@click.option(
    "--reports",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Compare the first N edges on weights, for the report on the pair.",
)
@cluster_option
@out_option("Write the atlas as pages that need no server, and atlas.json.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With serve: where to listen.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=8_765,
    show_default=True,
    help="With serve: the port to listen on.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With serve: the token that scans and additions to the registry need; MODELKIN_ATLAS_TOKEN if not "
    "given. Without one, nobody can add and only this machine can scan.",
)
@fetch_options
@output_options
def atlas(
    action: str | None,
    *,
    registry: str,
    about: Path | None,
    cards: bool,
    claims_depth: str,
    grow: int,
    reports: int,
    cluster: str | None,
    out: Path | None,
    host: str,
    port: int,
    token_file: Path | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Draw the families of a registry, and check what cards say against the weights.

    Families are what accepted pairs connect, and nothing else; p-values are corrected for a registry of a
    hundred million models. A declared parent is supported, contradicted or untestable: contradicted only if
    a deep comparison of the weights finds nothing and no other relative connects the two. Which came first is
    taken from cards and dates, never from a tree.

    `serve` shows the same pages on a port, with a JSON interface, and lets readers scan a model on the Hub or
    a fingerprint and watch it.

    \b
    Examples
      modelkin atlas --registry ./registry --out atlas
      modelkin atlas --registry ./registry --about models.tsv --claims-depth none --json
      modelkin atlas --registry s3://bucket/registry --cluster tcp://host:8786 --out atlas
      modelkin atlas --registry ./registry serve --token-file token.txt
    """  # noqa: D301  click wants the character itself
    from modelkin.atlas import AtlasIndex, AtlasOptions, make_atlas
    from modelkin.document import atlas_view, write_atlas
    from modelkin.registry import open_registry

    if action is not None and (out is not None or output.as_json):
        raise Misused(say("problem.usage-serve"))
    access = None if action is None else _access(host, token_file)
    depth: Depth | None = None if claims_depth == "none" else claims_depth  # type: ignore[assignment]
    options = AtlasOptions(
        cards=cards, claims_depth=depth, grow=grow, reports=reports, cluster=cluster, fetch=fetch
    )
    found = make_atlas(open_registry(registry), options, about=_about(about), progress=output)
    if access is not None:
        from modelkin.serving import serve_atlas

        serve_atlas(
            found,
            registry,
            access=access,
            port=port,
            language=output.lang,
            fetch=fetch,
            ready=lambda: output.remark(f"http://{host}:{port}/"),
        )
        return
    output.written(
        found,
        lambda: atlas_view(AtlasIndex(found), output.language),
        out=out,
        write=lambda place: write_atlas(found, place, language=output.lang),
        start="index.html",
    )


def _access(host: str, token_file: Path | None) -> ServeAccess:
    """Take the token from a file or the environment: on the command line every process could read it."""
    import os

    from modelkin.errors import UsageError
    from modelkin.serving import ServeAccess

    token = os.environ.get("MODELKIN_ATLAS_TOKEN") or None
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                str(token_file), say("problem.unreadable", why=say("quoted", text=type(error).__name__))
            ) from None
    return ServeAccess(host=host, token=token)


def _about(path: Path | None) -> dict[str, AboutModel]:
    from modelkin.atlas import read_about
    from modelkin.errors import UsageError

    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(str(path), say("problem.unreadable", why=say("quoted", text=str(error)))) from error
    return read_about(text, where=str(path))
