"""Lines between relatives: what cards declare and weights support, trees on weights, nearest relatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from modelkin.errors import ModelkinError
from modelkin.lineage import family_forest
from modelkin.lineage.tree_result import JudgedPair, TreeEdge
from modelkin.message import Message, say, told
from modelkin.options import CompareOptions, FetchOptions
from modelkin.progress import Progress

from .claims import KnownKin
from .groups import JoinedGroups
from .result import AtlasClaim, AtlasEdge, AtlasMerge


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTree:
    """The edges of one family."""

    edges: tuple[AtlasEdge, ...]
    grown: bool
    notes: tuple[Message, ...] = ()


def family_edges(
    members: Sequence[str],
    kin: KnownKin,
    claims: Sequence[AtlasClaim],
    *,
    places: Mapping[str, str],
    most_grown: int,
    fetch: FetchOptions,
    progress: Progress,
) -> GrownTree:
    """Return the edges of a family: declared ones first, then a tree that connects all others.

    Up to `most_grown` members, the tree is grown on weights, 20 MB of each; `places` says where these are.
    """
    declared = [
        AtlasEdge(
            first=claim.child,
            second=claim.parent,
            kind="declared",
            parent=claim.parent,
            reason=claim.reason,
        )
        for claim in claims
        if claim.status == "supported" and claim.parent is not None
    ]
    notes: tuple[Message, ...] = ()
    if len(members) <= most_grown:
        grown = _grown(members, kin, places, fetch, progress)
        if not isinstance(grown, Message):
            taken = {frozenset((edge.first, edge.second)) for edge in declared}
            more = [
                _told(edge)
                for edge in grown
                if edge.kind == "merge" or frozenset((edge.first, edge.second)) not in taken
            ]
            # A merge says more about a pair than a card's declaration.
            merged = {frozenset((edge.first, edge.second)) for edge in more if edge.kind == "merge"}
            kept = [edge for edge in declared if frozenset((edge.first, edge.second)) not in merged]
            return GrownTree(edges=(*kept, *more), grown=True)
        notes = (say("atlas-not-grown", why=grown),)
    return GrownTree(edges=(*declared, *_nearest(members, kin, declared)), grown=False, notes=notes)


def merges_of(edges: Sequence[AtlasEdge]) -> Iterator[AtlasMerge]:
    """Collect the parents of each mixture."""
    found: dict[str, list[tuple[str, float]]] = {}
    for edge in edges:
        if edge.kind == "merge" and edge.parent is not None and edge.weight is not None:
            child = edge.first if edge.parent == edge.second else edge.second
            found.setdefault(child, []).append((edge.parent, edge.weight))
    for child, parts in found.items():
        yield AtlasMerge(
            model=child,
            parents=tuple(parent for parent, _ in parts),
            weights=tuple(weight for _, weight in parts),
        )


def _told(edge: TreeEdge) -> AtlasEdge:
    return AtlasEdge(
        first=edge.first,
        second=edge.second,
        kind=edge.kind,
        parent=edge.parent,
        reason=edge.facts[0].reason if edge.parent is not None and edge.facts else edge.reason,
        weight=edge.weight,
    )


def _grown(
    members: Sequence[str],
    kin: KnownKin,
    places: Mapping[str, str],
    fetch: FetchOptions,
    progress: Progress,
) -> tuple[TreeEdge, ...] | Message:
    """Grow a tree on weights. Which are related is known from the fingerprints, and not tested again."""
    known = []
    for first, second in combinations(members, 2):
        pair = kin.pairs.get(frozenset((first, second)))
        found = pair is not None and pair.found
        known.append(
            JudgedPair(
                first=second,
                second=first,
                conclusion="shared" if found else "not-testable",
                related=True if found else None,
                effect=pair.likeness if pair is not None and found else None,
                log10_p=pair.log10_p if pair is not None and found else None,
            )
        )
    try:
        forest = family_forest(
            {ref: places[ref] for ref in members},
            known=known,
            options=CompareOptions(fetch=fetch),
            progress=progress,
        )
    except ModelkinError as error:
        # One missing member must not lose the whole atlas.
        return told(error)
    return forest.edges


def _nearest(members: Sequence[str], kin: KnownKin, declared: Sequence[AtlasEdge]) -> Iterator[AtlasEdge]:
    """Connect what declared edges leave apart, the most similar pairs first."""
    groups = JoinedGroups(members)
    for edge in declared:
        groups.join(edge.first, edge.second)
    inside = set(members)
    pairs = sorted(
        (-item.likeness, sorted(pair)) for pair, item in kin.pairs.items() if item.found and pair <= inside
    )
    for likeness, (first, second) in pairs:
        if groups.join(first, second):
            yield AtlasEdge(
                first=first,
                second=second,
                kind="nearest",
                parent=None,
                reason=say("atlas-nearest", likeness=f"{-likeness:.2f}"),
            )
