"""What became of each tensor as rows of one table."""

from __future__ import annotations

import csv
import io
from dataclasses import fields

from modelkin.comparison import ModelDiff
from modelkin.comparison.relation import TensorChange, TensorCount
from modelkin.untrusted import safe_cell


def changes_csv(result: ModelDiff) -> str:
    """Write one row for each tensor, numbers unrounded: all values where they were counted, else samples."""
    rows: tuple[TensorCount, ...] | tuple[TensorChange, ...] = result.counts or result.tensors
    kind: type[TensorCount | TensorChange] = TensorCount if result.counts else TensorChange
    names = [item.name for item in fields(kind)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([safe_cell(getattr(row, name)) for name in names])
    return text.getvalue()
