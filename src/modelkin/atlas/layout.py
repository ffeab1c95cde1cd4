"""Where a page draws each model: family trees as rings around their centre, families packed by size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .result import Atlas

_STEP = 40.0
"""Between two generations, in units of the drawing; a circle has a radius of 5."""
_ROOM = 13.0
"""Along a ring, per model."""
_GAP = 30.0
"""Between families."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphLayout:
    """Positions of all models."""

    refs: tuple[str, ...]
    places: npt.NDArray[np.float64]
    """(models, 2)."""
    edges: npt.NDArray[np.int64]
    """(edges, 2): places of the edges of the atlas in `refs`, in their order."""


def graph_layout(atlas: Atlas) -> GraphLayout:
    """Place every model. The same atlas gives the same picture; 10,000 models take less than a second."""
    refs = tuple(atlas.models)
    number = {ref: at for at, ref in enumerate(refs)}
    edges = np.array([(number[edge.first], number[edge.second]) for edge in atlas.edges], np.int64).reshape(
        -1, 2
    )
    near: list[list[int]] = [[] for _ in refs]
    for first, second in edges.tolist():
        near[first].append(second)
        near[second].append(first)
    places = np.zeros((len(refs), 2))
    parts: list[tuple[npt.NDArray[np.int64], float]] = []
    for family in atlas.families:
        members = np.array([number[ref] for ref in family.members], np.int64)
        radius = _rings(members, near, places)
        parts.append((members, radius))
    _pack(parts, places)
    alone = np.array([at for at, ref in enumerate(refs) if atlas.models[ref].family is None], np.int64)
    _grid(alone, parts, places)
    return GraphLayout(refs=refs, places=places, edges=edges)


def _rings(members: npt.NDArray[np.int64], near: list[list[int]], places: npt.NDArray[np.float64]) -> float:
    """Place a family around its member with most edges; return its radius."""
    root = int(max(members, key=lambda at: (len(near[at]), -at)))
    order, above, depth = [root], {root: root}, {root: 0}
    for item in order:
        for other in near[item]:
            if other not in above:
                above[other], depth[other] = item, depth[item] + 1
                order.append(other)
    for item in members.tolist():  # models that no edge reaches are on the outer ring
        if item not in above:
            above[item], depth[item] = root, max(depth.values())
            order.append(item)
    leaves = dict.fromkeys(order, 0)
    for item in reversed(order):
        leaves[item] = max(1, leaves[item])
        if item != root:
            leaves[above[item]] += leaves[item]
    # A ring is as wide as its models need, and at least a step outside the previous one.
    counts = np.bincount([depth[item] for item in order])
    radii = [0.0]
    for count in counts[1:].tolist():
        radii.append(max(radii[-1] + _STEP, count * _ROOM / math.tau))
    start = {root: 0.0}
    taken = dict.fromkeys(order, 0.0)
    total = leaves[root]
    for item in order:
        if item != root:
            parent = above[item]
            start[item] = start[parent] + taken[parent]
            taken[parent] += leaves[item] * math.tau / total
            angle = start[item] + leaves[item] * math.pi / total
            places[item] = radii[depth[item]] * np.array([math.cos(angle), math.sin(angle)])
    return radii[-1] + _ROOM


def _pack(parts: list[tuple[npt.NDArray[np.int64], float]], places: npt.NDArray[np.float64]) -> None:
    """Put families side by side in rows of about equal length, the largest first."""
    area = sum((2 * radius + _GAP) ** 2 for _, radius in parts)
    width = max([math.sqrt(area) * 1.3, *(2 * radius + _GAP for _, radius in parts)]) if parts else 0.0
    x = y = height = 0.0
    for members, radius in parts:
        size = 2 * radius + _GAP
        if x > 0 and x + size > width:
            x, y, height = 0.0, y + height, 0.0
        places[members] += (x + size / 2, y + size / 2)
        x, height = x + size, max(height, size)


def _grid(
    alone: npt.NDArray[np.int64],
    parts: list[tuple[npt.NDArray[np.int64], float]],
    places: npt.NDArray[np.float64],
) -> None:
    """Put models without a relative into a block below all families."""
    if not len(alone):
        return
    used = places[np.concatenate([members for members, _ in parts])] if parts else np.zeros((1, 2))
    step = 2 * _ROOM
    width = max(float(used[:, 0].max()) if parts else 0.0, math.sqrt(len(alone)) * step * 1.3)
    columns = max(1, int(width // step))
    top = float(used[:, 1].max()) + _STEP + _GAP if parts else 0.0
    at = np.arange(len(alone))
    places[alone] = np.stack([_ROOM + step * (at % columns), top + step * (at // columns)], axis=1)
