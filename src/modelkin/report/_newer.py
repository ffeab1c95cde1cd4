"""Fields that not every record has: one place that knows how to do without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin._comparison import Comparison, FrameRecord
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
    """The pairs that stand out: candidate's layer, base's layer."""
    threshold: float | None
    frame: str | None


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
            frame=_other_than_stored(getattr(item, "frame", None)),
        )
        for item in getattr(result.alignment, "maps", None) or ()
    )


def base_layers(test: Evidence) -> tuple[int, ...]:
    """Return the base's layers that a test looked at, where they are not those of the candidate."""
    found = tuple(getattr(test, "base_layers", None) or ())
    return found if found != test.layers else ()


def frame(test: Evidence) -> str | None:
    """Return what was undone before the test, such as a permutation; None where nothing was."""
    return _other_than_stored(getattr(test, "frame", None))


def _other_than_stored(found: str | None) -> str | None:
    return None if found in (None, "", "identity", "none") else found


def declared_lineage(result: Comparison) -> Mapping[str, object]:
    """Return what the publishers say about the origin of their models; empty where it was not read."""
    found: Mapping[str, object] = getattr(result, "claims", None) or {}
    return found


def frames(result: Comparison) -> tuple[FrameRecord, ...]:
    """Return the maps of the residual stream that were tried."""
    return tuple(getattr(result.alignment, "frames", None) or ())


def result_flags(result: Comparison) -> tuple[str, ...]:
    """Return what a person should look at more closely; no part of the verdict."""
    return tuple(getattr(result, "flags", None) or ())
