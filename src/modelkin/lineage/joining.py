"""Trees from squared distances: neighbour joining, the four-point check, and bootstrap support.

Independent changes are nearly orthogonal, so that squared distances add up along the branches of a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# A mean over this many is known to a per cent; all of a hundred members would be four million.
_MOST_QUADRUPLES = 2_000


@dataclass(slots=True)
class Node:
    """A leaf, or the join of two or three nodes."""

    leaf: int | None = None
    children: list[tuple[Node, float]] = field(default_factory=list)
    """Nodes below with the lengths of their branches."""

    def leaves(self) -> frozenset[int]:
        """Return the numbers of all leaves below."""
        if self.leaf is not None:
            return frozenset([self.leaf])
        return frozenset().union(*(child.leaves() for child, _ in self.children))


def join_neighbours(distances: Floats) -> Node:
    """Join the nodes closest to each other relative to their distance to all others, until three are left.

    Needs at least three leaves. Negative branches, which noise can cause, become zero.
    """
    nodes = [Node(leaf=number) for number in range(len(distances))]
    held = np.array(distances, np.float64)
    while len(nodes) > 3:
        n = len(nodes)
        sums = held.sum(axis=1)
        score = (n - 2) * held - sums[:, None] - sums[None, :]
        np.fill_diagonal(score, np.inf)
        i, j = sorted(int(place) for place in np.unravel_index(int(np.argmin(score)), score.shape))
        first = held[i, j] / 2 + (sums[i] - sums[j]) / (2 * (n - 2))
        made = Node(
            children=[(nodes[i], max(0.0, float(first))), (nodes[j], max(0.0, float(held[i, j] - first)))]
        )
        away = (held[i] + held[j] - held[i, j]) / 2
        rest = [place for place in range(n) if place not in (i, j)]
        grown = np.zeros((n - 1, n - 1))
        grown[:-1, :-1] = held[np.ix_(rest, rest)]
        grown[-1, :-1] = grown[:-1, -1] = away[rest]
        held, nodes = grown, [*(nodes[place] for place in rest), made]
    lengths = [(held[a, b] + held[a, c] - held[b, c]) / 2 for a, b, c in ((0, 1, 2), (1, 0, 2), (2, 0, 1))]
    return Node(
        children=[(node, max(0.0, float(length))) for node, length in zip(nodes, lengths, strict=True)]
    )


def join_two(distance: float) -> Node:
    """Join two leaves by one branch; where on it a root would be is not known, so it is put in the middle."""
    return Node(children=[(Node(leaf=number), distance / 2) for number in (0, 1)])


def splits(tree: Node, n: int) -> set[frozenset[int]]:
    """Return how inner branches split the leaves: the side without leaf 0."""
    found: set[frozenset[int]] = set()

    def walk(node: Node) -> None:
        for child, _ in node.children:
            below = child.leaves()
            if 1 < len(below) < n - 1:
                found.add(frozenset(range(n)) - below if 0 in below else below)
            walk(child)

    walk(tree)
    return found


def newick(tree: Node, names: Sequence[str], support: dict[frozenset[int], float]) -> str:
    """Write a tree in Newick's format, with support as labels of inner nodes."""
    n = len(names)

    def written(node: Node) -> str:
        if node.leaf is not None:
            return _quoted(names[node.leaf])
        inside = ",".join(f"{written(child)}:{length:.6g}" for child, length in node.children)
        below = node.leaves()
        side = frozenset(range(n)) - below if 0 in below else below
        label = f"{support[side]:.2f}" if side in support else ""
        return f"({inside}){label}"

    return f"{written(tree)};"


def _quoted(name: str) -> str:
    """Quote a name: in Newick's format a quote inside is doubled."""
    return "'" + name.replace("'", "''") + "'"


def four_point(distances: Floats, seed: int) -> float | None:
    """Return how much the two larger of the three sums of four points differ, over the largest."""
    n = len(distances)
    if n < 4:
        return None
    every = list(combinations(range(n), 4))
    if len(every) > _MOST_QUADRUPLES:
        chosen = np.random.default_rng(seed).choice(len(every), _MOST_QUADRUPLES, replace=False)
        every = [every[int(place)] for place in chosen]
    found = []
    for a, b, c, d in every:
        sums = sorted(
            (
                distances[a, b] + distances[c, d],
                distances[a, c] + distances[b, d],
                distances[a, d] + distances[b, c],
            )
        )
        if sums[2] > 0:
            found.append((sums[2] - sums[1]) / sums[2])
    return float(np.mean(found)) if found else None
