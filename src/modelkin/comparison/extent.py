"""How much of a model each component is, and how many of its layers the other model has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from modelkin.architecture import RoleEntry
from modelkin.comparison.alignment import LayerMap
from modelkin.model import Model


def parameters_by_component(model: Model) -> Mapping[str, int]:
    """Count the parameters of each component; tensors without a role are not counted."""
    counts: Counter[str] = Counter()
    for entry in model.architecture.tensors:
        if not entry.fixed and entry.tensor in model.index:
            counts[entry.component] += n_parameters(model, entry)
    return dict(counts)


def unfaced_layers(maps: Iterable[LayerMap]) -> Mapping[str, frozenset[int]]:
    """Return the layers of the base that stand out nowhere in layer-by-layer maps, by component.

    Maps that cannot tell layers apart say nothing, nor do those in which nothing stands out.
    """
    found: dict[str, frozenset[int]] = {}
    for item in maps:
        if not item.path:
            continue
        seen = {
            layer
            for row in item.scores
            for layer, score in zip(item.base_layers, row, strict=True)
            if score is None or abs(score) >= item.threshold
        }
        left = frozenset(item.base_layers) - seen
        found[item.component] = found.get(item.component, left) & left
    return found


def n_parameters(model: Model, entry: RoleEntry) -> int:
    """Count the parameters of a tensor, or of the part of a fused one that has this role."""
    info = model.index[entry.tensor]
    if entry.segment is None:
        return info.n_elements
    return info.n_elements // info.shape[entry.segment.axis] * len(entry.segment)
