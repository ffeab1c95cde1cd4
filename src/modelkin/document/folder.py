"""The report folder: everything about one comparison, for people and for programs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelkin.comparison import Comparison
from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import table_to_csv
from modelkin.errors import UsageError

from .blocks import Marked
from .evidence import tensors_csv
from .html import render_html
from .language import ENGLISH, Language, load_language
from .markdown import render_markdown
from .results import to_json
from .views.comparison import comparison_view
from .views.matrix import matrix_view

if TYPE_CHECKING:
    from modelkin.figures import Format


def write_folder(
    result: Comparison,
    folder: str | os.PathLike[str],
    *,
    language: str = "en",
    dpi: int = 150,
    formats: Sequence[Format] = ("png", "svg"),
) -> tuple[Path, ...]:
    """Write the record, ``report.html``, ``REPORT.md``, ``tensors.csv`` and ``figures``; return their paths.

    The folder is made when it is missing. Each file is complete or not there: it is written beside its
    place and then moved, so that an older report is not left half overwritten.

    Parameters
    ----------
    language
        Of the page and the document.
    dpi, formats
        Of the figures.

    Raises
    ------
    UsageError
        The folder cannot be made or written, or there are no texts in the language.
    """
    texts = load_language(language)
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(str(folder), "expected a folder for the report, got a file")
    return write_files(
        Path(folder),
        {
            "comparison.json": to_json(result) + "\n",
            "report.html": report_html(result, texts),
            "REPORT.md": report_markdown(result, texts),
            "tensors.csv": tensors_csv(result),
            **_figures(result, dpi, formats),
        },
    )


def report_markdown(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the whole record as a document."""
    return render_markdown(comparison_view(result, language))


def report_html(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the whole record as a page."""
    names = {"candidate": result.candidate.ref, "base": result.base.ref}
    return render_html(
        comparison_view(result, language),
        title=language.say("title.question", **names),
        language=language,
        version=result.environment.modelkin,
        footer=(Marked(language.say("text.digits")),),
    )


def matrix_markdown(result: MatrixResult) -> str:
    """Write a matrix as a document."""
    return render_markdown(matrix_view(result))


def write_matrix(result: MatrixResult, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write ``matrix.json``, ``matrix.csv`` and ``MATRIX.md``; return their paths.

    Raises
    ------
    UsageError
        The folder cannot be made or written.
    """
    return write_files(
        Path(folder),
        {
            "matrix.json": to_json(result) + "\n",
            "matrix.csv": table_to_csv(result.table),
            "MATRIX.md": matrix_markdown(result),
        },
    )


def _figures(result: Comparison, dpi: int, formats: Sequence[Format]) -> dict[str, str | bytes]:
    """Draw every figure of a comparison, beside the data that it is drawn from."""
    from modelkin.figures import figure_to_json, renderings  # matplotlib takes its time
    from modelkin.figures.comparison import comparison_figures

    files: dict[str, str | bytes] = {}
    for name, figure in comparison_figures(result).items():
        files[f"figures/{name}.json"] = figure_to_json(figure) + "\n"
        for kind, content in renderings(figure, formats, dpi=dpi).items():
            files[f"figures/{name}.{kind}"] = content
    return files


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write files into a folder; each is complete or not there."""
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _replace(folder / name, content)
    except OSError as error:
        raise UsageError(str(folder), f"the report cannot be written: {error.strerror or error}") from error
    return tuple(folder / name for name in files)


def _replace(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
