"""A report folder on paper: an A4 PDF, made by an installed browser or by WeasyPrint."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib import import_module
from pathlib import Path

from modelkin.comparison import Comparison
from modelkin.document import print_html
from modelkin.errors import MissingExtra, OutputError, UsageError, not_written
from modelkin.message import say

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge", "microsoft-edge")
"""A browser draws the page as readers know it; from version 131 on it also numbers pages."""
_PATIENCE = 180.0
NAME = "report.pdf"


def print_folder(folder: Path, *, language: str = "en", out: Path | None = None) -> Path:
    """Write the report in a folder as a PDF: cover, report, annex, with numbered pages.

    Raises `UsageError` for another folder, and `MissingExtra` without a browser or WeasyPrint.
    """
    record = folder / "comparison.json"
    if not record.is_file():
        raise UsageError(str(folder), say("problem.report-folder"))
    result = Comparison.from_json(record.read_text(encoding="utf-8"))
    data = pdf_of(print_html(result, language=language))
    path = out or folder / NAME
    try:
        path.write_bytes(data)
    except OSError as error:
        raise not_written(str(path), say("part.the-pdf"), error) from error
    return path


def pdf_of(page: str) -> bytes:
    """Return a page as PDF."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is not None:
        return _by_browser(browser, page)
    try:
        weasyprint = import_module("weasyprint")
    except (ImportError, OSError) as error:  # it needs system libraries
        hint = say("hint.printer")
        raise MissingExtra("print", say("problem.no-printer"), hint=hint) from error
    made: bytes = weasyprint.HTML(string=page).write_pdf()
    return made


def _by_browser(browser: str, page: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="modelkin-print-") as place:
        source, target = Path(place, "page.html"), Path(place, "page.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            f"--user-data-dir={place}/profile",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            # A browser run by root has no sandbox; the page is ours, and loads nothing.
            *(("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()),
            source.as_uri(),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE)  # noqa: S603  found by name, no shell
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise OutputError(browser, say("problem.nothing-printed", kind=type(error).__name__)) from error
