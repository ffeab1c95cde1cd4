"""Fields that not every record has: one place that knows how to do without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin._comparison import Comparison
from modelkin.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMap:
    """How much every layer of the candidate is like every layer of the base."""

    component: str
    method: str
    candidate_layers: tuple[int, ...]
    base_layers: tuple[int, ...]
    scores: tuple[tuple[float | None, ...], ...]
    """One row for each layer of the candidate; None where nothing was tested."""
    path: tuple[tuple[int, int], ...]
    """The pairing that was used: candidate's layer, base's layer."""
    threshold: float | None


def layer_maps(result: Comparison) -> tuple[LayerMap, ...]:
    """Return the maps of a comparison; none where layers were paired by number."""
    return tuple(
        LayerMap(
            component=item.component,
            method=item.method,
            candidate_layers=tuple(item.candidate_layers),
            base_layers=tuple(item.base_layers),
            scores=tuple(tuple(row) for row in item.scores),
            path=tuple((pair[0], pair[1]) for pair in item.path),
            threshold=getattr(item, "threshold", None),
        )
        for item in getattr(result.alignment, "maps", None) or ()
    )


def base_layers(test: Evidence) -> tuple[int, ...]:
    """Return the base's layers that a test looked at, where they are not those of the candidate."""
    found = tuple(getattr(test, "base_layers", None) or ())
    return found if found != test.layers else ()


def frame(test: Evidence) -> str | None:
    """Return what was undone before the test, such as a permutation; None where nothing was."""
    found = getattr(test, "frame", None)
    return None if found in (None, "", "identity", "none") else str(found)


def declared_lineage(result: Comparison) -> Mapping[str, object]:
    """Return what the publishers say about the origin of their models; empty where it was not read."""
    for place in ("lineage", "declared", "declared_lineage"):
        found = getattr(result, place, None)
        if found:
            return found if isinstance(found, Mapping) else {place: found}
    return {}
