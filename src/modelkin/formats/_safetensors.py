"""Weights in safetensors: names and numbers are as everybody knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from modelkin.source import FileInfo
from modelkin.tensors import find_entry, read_index

from ._interface import Request, Weights
from .quantised import put_together


@final
class SafetensorsFormat:
    """One file, or shards with an index."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Choose as loaders do."""
        return find_entry(files)

    def read(self, request: Request) -> Weights:
        """Read the headers of all shards, and put quantised tensors together."""
        index = read_index(request.fetcher, head_bytes=request.head_bytes, name=request.entry)
        return put_together(Weights(format="safetensors", index=index), request)


FORMAT = SafetensorsFormat()
