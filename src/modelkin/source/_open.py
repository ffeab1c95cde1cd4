"""From a reference to a source that reads it."""

from __future__ import annotations

from pathlib import Path

from modelkin.options import FetchOptions

from .interface import ByteBudget, Source
from .local import open_local
from .ref import ModelRef
from .store import RangeStore


def open_source(
    ref: ModelRef, options: FetchOptions, *, store: RangeStore | None = None, budget: ByteBudget | None = None
) -> Source:
    """Open the place a reference names. Nothing is read yet."""
    budget = budget or ByteBudget(options.byte_budget)
    # Imported here: a local model needs no HTTP library, and each of these slows the start.
    if ref.kind == "local":
        return open_local(Path(ref.target), ref=ref.text, budget=budget)
    if ref.kind == "http":
        from .web import HttpSource

        return HttpSource(ref.target, options, ref=ref.text, store=store, budget=budget)
    if ref.kind == "fsspec":
        from .fsspec_source import FsspecSource

        return FsspecSource(ref.target, options, ref=ref.text, budget=budget)
    from .hub import HubSource

    return HubSource(ref.target, ref.revision, options, ref=ref.text, store=store, budget=budget)


def open_store(options: FetchOptions) -> RangeStore | None:
    """Open the local store of ranges, or return None if the options say to keep nothing."""
    if not options.use_store:
        return None
    folder = options.store_dir
    if folder is None:
        from huggingface_hub import constants

        # Where the Hub's conventions put the files of other libraries ($HF_HOME/assets/<library>).
        folder = Path(constants.HF_ASSETS_CACHE) / "modelkin"
    return RangeStore(Path(folder), limit=options.store_limit)
