"""The folder of a run: what is written, and what is read back. Figures and reports use nothing else."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.describe.measures import MeasureTable, table_from_csv, table_to_csv
from modelkin.document import to_json
from modelkin.errors import FormatError, UsageError, not_written
from modelkin.message import said_by, say
from modelkin.untrusted import cell_text, csv_text

FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}(?:/[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}){0,4}")
"""A path inside the folder: no part begins with a dot."""
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file that was written, and by what."""

    path: str
    by: str
    bytes: int
    sha256: str


@dataclass(slots=True)
class Folder:
    """Files of a run. Each is complete or absent: it is written to a temporary file and then moved."""

    root: Path
    written: dict[str, Written] = field(default_factory=dict)
    by: str = "study"
    """Who is writing now."""
    _tables: dict[str, MeasureTable] = field(default_factory=dict, repr=False)
    """Tables already read: several figures use the same one, and reading it takes long."""

    def prepare(self) -> None:
        """Make the folder, or say why it cannot be made or written."""
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(str(self.root), say("problem.results-folder"))
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(str(self.root), say("problem.cannot-make", why=said_by(error))) from error

    # -- writing ---------------------------------------------------------------------------------------

    def bytes(self, path: str, data: bytes) -> Path:
        """Write a file."""
        if not FILE.fullmatch(path):
            raise UsageError(path[:80], say("problem.plain-path"))
        place = self.root / path
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(data)
            temporary.replace(place)
        except OSError as error:
            raise not_written(str(place), "", error) from error
        finally:
            temporary.unlink(missing_ok=True)
        self._tables.pop(path, None)
        self.note(path)
        return place

    def note(self, path: str) -> None:
        """Record a file that was written."""
        data = (self.root / path).read_bytes()
        self.written[path] = Written(
            path=path, by=self.by, bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        )

    def text(self, path: str, text: str) -> None:
        """Write text; half a surrogate pair, from the name of a tensor, becomes an escape."""
        self.bytes(path, text.encode("utf-8", "backslashreplace"))

    def json(self, path: str, document: object) -> None:
        """Write JSON; NaN and masked mean not measured and become null."""
        self.text(path, to_json(plain(document)) + "\n")

    def csv(self, path: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write CSV: numbers in full precision, missing ones as empty cells."""
        self.text(path, csv_text(columns, ([plain(cell) for cell in row] for row in rows)))

    def rows(self, path: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Write CSV whose columns are the keys of the rows, which all have the same ones."""
        self.csv(path, list(rows[0]) if rows else (), (list(row.values()) for row in rows))

    def table(self, path: str, table: MeasureTable) -> None:
        """Write a table of measures."""
        self.text(path, table_to_csv(table))

    def arrays(self, path: str, arrays: Mapping[str, Array]) -> None:
        """Write arrays without loss."""
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **arrays)
        self.bytes(path, stream.getvalue())

    # -- reading back ----------------------------------------------------------------------------------

    def has(self, path: str) -> bool:
        """Say whether a file is there."""
        return (self.root / path).is_file()

    def read_json(self, path: str) -> Any:  # noqa: ANN401  whatever was written
        """Read JSON that was written."""
        return json.loads((self.root / path).read_text(encoding="utf-8"))

    def read_text(self, path: str) -> str:
        """Read a text that was written."""
        return (self.root / path).read_text(encoding="utf-8")

    def read_csv(self, path: str) -> list[dict[str, str]]:
        """Read CSV that was written, one mapping per row."""
        with (self.root / path).open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            names = [cell_text(cell) for cell in next(rows, [])]
            return [dict(zip(names, map(cell_text, row), strict=False)) for row in rows]

    def read_table(self, path: str) -> MeasureTable:
        """Read a table of measures that was written."""
        if path not in self._tables:
            self._tables[path] = table_from_csv((self.root / path).read_text(encoding="utf-8"))
        return self._tables[path]

    def read_arrays(self, path: str) -> dict[str, Array]:
        """Read arrays that were written."""
        try:
            with np.load(self.root / path, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except ValueError as error:
            raise FormatError(path, say("problem.no-arrays", why=str(error))) from error


def plain(value: object) -> object:
    """Turn arrays and numbers of numpy into plain values; what was not measured becomes None."""
    match value:
        case np.ma.MaskedArray():
            return plain(np.ma.filled(np.ma.asarray(value, dtype=np.float64), np.nan).tolist())
        case np.ndarray():
            return plain(value.tolist())
        case np.generic():
            return plain(value.item())
        case float():
            return value if np.isfinite(value) else None
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def number(text: str) -> float | None:
    """Read a cell of CSV; an empty one was not measured."""
    return float(text) if text else None


def filled_path(path: str, **values: object) -> str:
    """Fill ``{measure}`` and the like into a path."""
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", str(value))
    return path
