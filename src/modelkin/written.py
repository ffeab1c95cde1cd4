"""Results that write themselves and are read back: how that is done is up to `modelkin.document`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self


class JsonRecord:
    """A record that is one JSON document, by a schema of its own. It has no language."""

    __slots__ = ()

    def to_json(self) -> str:
        """Write everything as one document, the name of its schema first."""
        from modelkin.document import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote: the record is equal to the one that was written."""
        from modelkin.document import from_json

        return from_json(cls, text)


class Reported(JsonRecord):
    """A record with a report folder: JSON, tables, a document, a page."""

    __slots__ = ()

    def write(self, folder: str | os.PathLike[str], *, language: str = "en") -> tuple[Path, ...]:
        """Write the report folder, in English (``en``) or Korean (``ko``); return the paths of its files."""
        from modelkin.document import write_result

        return write_result(self, folder, language=language)
