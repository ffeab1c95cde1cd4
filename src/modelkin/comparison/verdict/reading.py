"""Patterns of findings that have words of their own: what is shared, and what beside it is not."""

from __future__ import annotations

from collections.abc import Mapping

from ._result import ComponentVerdict, Conclusion, Reading


def reading_of(conclusion: Conclusion, components: Mapping[str, ComponentVerdict]) -> Reading | None:
    """Name the pattern of a partial finding, or None where it has no name."""
    if conclusion is not Conclusion.SHARED_PARTIAL:
        return None
    shared = {name for name, item in components.items() if item.conclusion.related}
    tested = {name for name, item in components.items() if item.conclusion.related is not None}
    if shared == {"norms"}:
        return "norm-gains-only" if tested > shared else "norm-gains-alone"
    return None
