"""``modelkin registry``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelkin.cli.options import cluster_option, fetch_options, output_options, registry_option
from modelkin.cli.usage import Misused
from modelkin.message import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelkin.cli.output import Output
    from modelkin.fingerprint import Fingerprint
    from modelkin.options import FetchOptions
    from modelkin.registry import SyncTarget


@click.group()
def registry() -> None:
    """Keep fingerprints of many models, to scan them all at once.

    A registry is a folder, or s3://bucket/prefix: Parquet files, and a log of what was added from which
    revision. One process writes at a time; readers never wait; whatever stops a writer, nothing that was
    committed is lost.
    """


@registry.command()
@registry_option
@output_options
def init(*, registry: str, output: Output) -> None:
    """Create an empty registry; an existing one is left as it is."""
    from modelkin.document import registry_view
    from modelkin.registry import create_registry

    found = create_registry(registry).info()
    output.result(found, lambda: registry_view(found, output.language))


@registry.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@registry_option
@cluster_option
@fetch_options
@output_options
def add(
    models: tuple[str, ...], *, registry: str, cluster: str | None, fetch: FetchOptions, output: Output
) -> None:
    """Add models, or files that `modelkin fingerprint` wrote."""
    from modelkin.registry import SyncTarget, open_registry

    saved = {name: made for name in models if (made := saved_fingerprint(name)) is not None}
    opened = open_registry(registry)
    n_new = opened.add(list(saved.values()))[1] if saved else 0
    targets = [SyncTarget(ref=name) for name in models if name not in saved]
    _sync(registry, targets, cluster=cluster, fetch=fetch, output=output, n_saved=(len(saved), n_new))


@registry.command()
@registry_option
@click.option(
    "--list",
    "listed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Follow the models of a file, one reference per line.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Follow the models in a folder: subfolders with a config.json, and single weight files.",
)
@click.option("--hub", is_flag=True, help="Follow what the Hub lists, newest first.")
@click.option("--author", metavar="NAME", help="With --hub: only models of one author.")
@click.option("--most", type=click.IntRange(1), metavar="N", help="Look at the first N models only.")
@click.option(
    "--per-minute",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Read at most this many models per minute. Longer waits that a server asks for are honoured too.",
)
@cluster_option
@fetch_options
@output_options
def sync(
    *,
    registry: str,
    listed: Path | None,
    folder: Path | None,
    hub: bool,
    author: str | None,
    most: int | None,
    per_minute: float | None,
    cluster: str | None,
    fetch: FetchOptions,
    output: Output,
) -> None:
    """Add what is new in a list, a folder or a Hub.

    Models already there at the same revision cost nothing. A run that is stopped resumes where it left
    off; whatever could not be reached is tried again by the next run.

    \b
    Examples
      modelkin registry sync --registry R --list models.txt
      modelkin registry sync --registry R --hub --author org --per-minute 30
    """  # noqa: D301  click wants the character itself
    from itertools import islice

    from modelkin.registry import targets_of_folder, targets_of_hub, targets_of_list

    if sum((listed is not None, folder is not None, hub)) != 1:
        raise Misused(say("problem.usage-sync-from"))
    if author is not None and not hub:
        raise Misused(say("problem.usage-goes-with", a="--author", b="--hub"))
    if listed is not None:
        targets = targets_of_list(listed.read_text(encoding="utf-8"))
    elif folder is not None:
        targets = targets_of_folder(folder)
    else:
        targets = targets_of_hub(fetch, author=author)
    _sync(registry, islice(targets, most), cluster=cluster, fetch=fetch, output=output, per_minute=per_minute)


@registry.command()
@registry_option
@output_options
def info(*, registry: str, output: Output) -> None:
    """Show what a registry holds."""
    from modelkin.document import registry_view
    from modelkin.registry import open_registry

    found = open_registry(registry).info()
    output.result(found, lambda: registry_view(found, output.language))


@registry.command()
@registry_option
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="A new or empty folder.",
)
@output_options
def export(*, registry: str, out: Path, output: Output) -> None:
    """Write a registry as a dataset: Parquet files, and a card."""
    from modelkin.document import registry_view
    from modelkin.registry import export_registry, open_registry

    opened = open_registry(registry)
    files = export_registry(opened, out)
    found = opened.info()
    output.result(found, lambda: registry_view(found, output.language))
    output.say("files_written", n=str(len(files)), out=str(out))


@registry.command()
@registry_option
@output_options
def verify(*, registry: str, output: Output) -> None:
    """Check every byte against the log; exit with code 4 if a segment is damaged."""
    from modelkin.document import check_view
    from modelkin.registry import open_registry

    found = open_registry(registry).verify()
    output.result(found, lambda: check_view(found, output.language))
    if found.damaged:
        click.get_current_context().exit(4)


@registry.command()
@registry_option
@cluster_option
@output_options
def pairs(*, registry: str, cluster: str | None, output: Output) -> None:
    """Test all pairs of a registry against each other, from the fingerprints alone."""
    from modelkin.document import pairs_view
    from modelkin.registry import (
        all_fingerprints,
        all_pairs,
        all_pairs_on,
        named_pairs,
        open_cluster,
        open_registry,
    )

    opened = open_registry(registry)
    rows = all_fingerprints(opened)
    if cluster is None:
        found = all_pairs(rows)
    else:
        with open_cluster(cluster) as client:
            found = all_pairs_on(client, rows)
    result = named_pairs(opened, rows, found)
    output.result(result, lambda: pairs_view(result, output.language))


def saved_fingerprint(name: str) -> Fingerprint | None:
    """Read a fingerprint file; None for anything not named like one."""
    from modelkin.document import fingerprint_from_json
    from modelkin.errors import UsageError

    path = Path(name)
    if not (name.endswith(".json") and path.is_file()):
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(name, say("problem.unreadable", why=say("quoted", text=str(error)))) from error
    if name.endswith(".index.json"):
        return None
    return fingerprint_from_json(text, where=name)


def _sync(
    registry: str,
    targets: Iterable[SyncTarget],
    *,
    cluster: str | None,
    fetch: FetchOptions,
    output: Output,
    per_minute: float | None = None,
    n_saved: tuple[int, int] = (0, 0),
) -> None:
    from contextlib import nullcontext
    from dataclasses import replace

    from modelkin.document import sync_view
    from modelkin.registry import open_cluster, open_registry, rows_on
    from modelkin.registry import sync as sync_models

    opened = open_registry(registry)
    with nullcontext() if cluster is None else open_cluster(cluster) as client:
        make = None if client is None else rows_on(client)
        _, found = sync_models(
            opened, targets, fetch=fetch, per_minute=per_minute, progress=output, make=make
        )
    seen, new = n_saved
    found = replace(
        found,
        n_seen=found.n_seen + seen,
        n_known=found.n_known + seen - new,
        n_added=found.n_added + new,
    )
    output.result(found, lambda: sync_view(found, output.language))
