"""The report folder: everything about one comparison, for people and for programs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from modelkin._comparison import Comparison
from modelkin.errors import UsageError

from ._html import report_html
from ._json import to_json
from ._languages import load_language
from ._markdown import report_markdown
from ._tables import tensors_csv


def write_folder(
    result: Comparison, folder: str | os.PathLike[str], *, language: str = "en"
) -> tuple[Path, ...]:
    """Write ``comparison.json``, ``report.html``, ``REPORT.md`` and ``tensors.csv``; return their paths.

    The folder is made when it is missing. Each file is complete or not there: it is written beside its
    place and then moved, so that an older report is not left half overwritten.

    Raises
    ------
    UsageError
        The folder cannot be made or written, or there are no texts in the language.
    """
    texts = load_language(language)
    return _write(
        Path(folder),
        {
            "comparison.json": to_json(result) + "\n",
            "report.html": report_html(result, texts),
            "REPORT.md": report_markdown(result, texts),
            "tensors.csv": tensors_csv(result),
        },
    )


def _write(folder: Path, files: Mapping[str, str]) -> tuple[Path, ...]:
    if folder.exists() and not folder.is_dir():
        raise UsageError(str(folder), "expected a folder for the report, got a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            _replace(folder / name, text)
    except OSError as error:
        raise UsageError(str(folder), f"the report cannot be written: {error.strerror or error}") from error
    return tuple(folder / name for name in files)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n", errors="backslashreplace") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
