"""A registry as a dataset that others can load: its segments, and a card that says what they are."""

from __future__ import annotations

from pathlib import Path

from modelkin.errors import UsageError, not_written
from modelkin.fingerprint.recipe import CODE_BYTES, DATA_BYTES, RECIPE
from modelkin.message import say

from .store import Registry

_CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*.parquet
tags:
- modelkin
- model-provenance
---

# Fingerprints of {n} models

Made by modelkin {version}, recipe {recipe}. One row a model at a revision: `ref`, `revision`, what the
model is, `data` ({data} bytes, one signed byte a number) and `code` ({code} bytes, one bit a number). A
model without a fingerprint has a `reason`.

A fingerprint holds random projections of the first 64 units of five layers, of gains and of 256 rows of
tokens. It shows whether two models have a common origin. It does not let anyone rebuild weights: it keeps
some 30 thousand rounded numbers of billions. It does show the shape of a model, and whoever holds a
candidate for its parent can test it.
"""


def export_registry(registry: Registry, folder: Path) -> tuple[Path, ...]:
    """Write segments and a card into a new or empty folder; return the files."""
    from modelkin._version import __version__

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(str(folder), say("problem.new-folder"))
    written = []
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for number, commit in enumerate(registry.commits):
            with registry.segment(commit):  # refuses a damaged one before anything is published
                pass
            path = folder / "data" / f"train-{number:05d}-of-{len(registry.commits):05d}.parquet"
            path.write_bytes(registry.place.read(f"segments/{commit.segment}.parquet"))
            written.append(path)
        card = folder / "README.md"
        card.write_text(
            _CARD.format(
                n=registry.n_rows, version=__version__, recipe=RECIPE, data=DATA_BYTES, code=CODE_BYTES
            ),
            encoding="utf-8",
        )
    except OSError as error:
        raise not_written(str(folder), say("part.the-dataset"), error) from error
    return (*written, card)
