"""``modelkin cache``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelkin.cli.options import output_options

if TYPE_CHECKING:
    from modelkin.cli.output import Output
    from modelkin.source import RangeStore


@click.group()
def cache() -> None:
    """Show or empty the local store of fetched ranges.

    The store is in the assets folder of the Hugging Face cache (HF_ASSETS_CACHE) and holds at most
    10 GiB; the least recently used ranges are dropped first.
    """


@cache.command()
@output_options
def info(*, output: Output) -> None:
    """Show where the store is and what it holds."""
    from modelkin.document import store_view

    found = _store().info()
    output.result(found, lambda: store_view(found, output.language))


@cache.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
def clear(*, yes: bool, output: Output) -> None:
    """Remove everything that is stored."""
    from modelkin.document import store_view

    store = _store()
    held = store.info()
    if not yes and held.n_bytes:
        click.confirm(f"Remove {held.n_bytes:,} bytes from {held.path}?", abort=True, err=True)
    removed = store.clear()
    output.result(removed, lambda: store_view(removed, output.language, removed=True))


def _store() -> RangeStore:
    from modelkin.options import FetchOptions
    from modelkin.source import open_store

    store = open_store(FetchOptions())
    assert store is not None
    return store
