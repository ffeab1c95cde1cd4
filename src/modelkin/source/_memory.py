"""A model held in memory: for tests, documentation and notebooks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import final

from modelkin.errors import NotFound
from modelkin.message import say

from .interface import ByteBudget, FileInfo, Location, Source
from .ranges import ByteRange


@final
class MemorySource(Source):
    """Files given as a mapping from name to bytes."""

    remote = False

    def __init__(
        self, files: Mapping[str, bytes], *, name: str = "memory", budget: ByteBudget | None = None
    ) -> None:
        self._bytes = dict(sorted(files.items()))
        self._files = {
            file: FileInfo(name=file, size=len(data), etag=hashlib.sha256(data).hexdigest())
            for file, data in self._bytes.items()
        }
        self._name = name
        self.budget = budget or ByteBudget()

    @property
    def location(self) -> Location:
        """A name, since it is nowhere in particular."""
        return Location(kind="memory", ref=self._name, origin=f"memory:{self._name}")

    def files(self) -> dict[str, FileInfo]:
        """Return all files."""
        return dict(self._files)

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        self.budget.reserve(wanted.length, where=file.name)
        try:
            return self._bytes[file.name][wanted.start : wanted.stop]
        except KeyError:
            raise NotFound(file.name, say("problem.no-file-in-model")) from None
