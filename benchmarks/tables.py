"""Tables in Markdown, and the parts of a document that a run rewrites. Nothing here measures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Table:
    """A table as data: measured by one module, printed by another."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table with padded columns, numbers to the right."""
        cells = [list(self.columns), *(list(row) for row in self.rows)]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.columns))]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        return "\n".join(_line(row, widths) for row in [cells[0], rule, *cells[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
    return f"| {' | '.join(padded)} |"


def megabytes(n_bytes: float) -> str:
    """Return bytes as MB with three figures."""
    value = n_bytes / 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def seconds(value: float) -> str:
    """Return seconds with enough figures to compare."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def times(value: float) -> str:
    """Return a ratio."""
    return f"{value:.2f} x" if value < 10 else f"{value:.1f} x" if value < 100 else f"{value:.0f} x"


def replace_section(document: Path, name: str, text: str) -> None:
    """Put `text` between the markers of a section; the rest of the document stays as it is.

    The markers are ``<!-- begin: name -->`` and ``<!-- end: name -->``, or ``<!-- name -->`` and
    ``<!-- /name -->``.

    Raises
    ------
    ValueError
        The document has no such section.
    """
    before = document.read_text(encoding="utf-8")
    pattern = re.compile(
        f"(<!-- (?:begin: )?{re.escape(name)} -->).*?(<!-- (?:end: |/){re.escape(name)} -->)", re.DOTALL
    )
    after, n_found = pattern.subn(lambda found: f"{found[1]}\n\n{text.strip()}\n\n{found[2]}", before)
    if n_found != 1:
        raise ValueError(f"{document}: expected one section {name!r}, found {n_found}")
    document.write_text(after, encoding="utf-8")
