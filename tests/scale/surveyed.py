"""Which methods had something to say about a pair, for the table that shows where one was not tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from modelkin.comparison.methods import Evidence, Skipped

Survey = dict[str, dict[str, Any]]


def methods_of(evidence: Iterable[Evidence]) -> Survey:
    """Return by method the number of its results, the smallest log10 p, and why it had none elsewhere."""
    found: Survey = {}
    for item in evidence:
        one = found.setdefault(item.method, {"results": 0, "smallest": None, "skipped": []})
        if isinstance(item, Skipped):
            one["skipped"] = sorted({*one["skipped"], item.reason.code})
            continue
        one["results"] += 1
        log10_p = getattr(item, "log10_p", None)
        if log10_p is not None:
            one["smallest"] = min(one["smallest"] or 0.0, round(log10_p, 2))
    return found


def joined(one: Mapping[str, Any], two: Mapping[str, Any]) -> Survey:
    """Return what both say together."""
    made: Survey = {}
    for method in sorted({*one, *two}):
        parts = [side[method] for side in (one, two) if method in side]
        smallest = [part["smallest"] for part in parts if part["smallest"] is not None]
        made[method] = {
            "results": sum(part["results"] for part in parts),
            "smallest": min(smallest, default=None),
            "skipped": sorted({code for part in parts for code in part["skipped"]}),
        }
    return made
