"""One row for each piece of evidence, as CSV: the numbers of the JSON, unrounded."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping

from modelkin.comparison import Comparison

from ._evidence import EvidenceRow, evidence_row

Cell = str | int | float | None

_COLUMNS: Mapping[str, Callable[[EvidenceRow], Cell]] = {
    "method": lambda test: test.method,
    "version": lambda test: test.version,
    "component": lambda test: test.component,
    "role": lambda test: test.role,
    "layers": lambda test: " ".join(map(str, test.layers)),
    "axis": lambda test: test.axis,
    "n": lambda test: test.n,
    "n_features": lambda test: test.n_features,
    "statistic": lambda test: test.statistic,
    "z": lambda test: test.z,
    "log10_p": lambda test: test.log10_p,
    "log10_p_extrapolated": lambda test: test.log10_p_extrapolated,
    "effect": lambda test: test.effect.value if test.effect else None,
    "low": lambda test: test.effect.low if test.effect else None,
    "high": lambda test: test.effect.high if test.effect else None,
    "n_matched": lambda test: test.n_matched,
    "detection_limit": lambda test: test.detection_limit,
    "exact": lambda test: str(test.exact).lower(),
    "status": lambda test: test.status,
    "reason": lambda test: None if test.reason is None else str(test.reason),
    "flags": lambda test: "; ".join(test.flags),
}


def tensors_csv(result: Comparison) -> str:
    """Return the table, in the order of the evidence. What was not measured is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for test in result.evidence:
        row = evidence_row(test)
        writer.writerow([column(row) for column in _COLUMNS.values()])
    return text.getvalue()
