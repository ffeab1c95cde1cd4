"""One family: its middle, its merges, what is attached to what, and the tree of its distances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.inheritance import (
    Blend,
    Hung,
    comes_past,
    find_blend,
    hang,
    mean_distances,
    site_distances,
)
from modelkin.lineage.joining import four_point, join_neighbours, join_two, newick, splits
from modelkin.lineage.kept_rows import KeptRows, kept_rows, lost_rows
from modelkin.lineage.sparse_merges import sparse_blend
from modelkin.lineage.tree_facts import agreed_parent, facts_of, follow, frozen_facts
from modelkin.lineage.tree_result import DirectionFact, Family, JudgedPair, TreeEdge
from modelkin.lineage.tree_samples import ModelSample, facing_layers, renumbered
from modelkin.lineage.turned import in_common_coordinates
from modelkin.message import Message, say

Floats = NDArray[np.float64]
Pairs = Mapping[frozenset[str], JudgedPair]

_DRAWS = 100
"""Of tensors, with replacement: shares are then known to 0.05."""
_EDGE_DRAWS = 20
"""Of these, for the edges of one model: each takes as long as hanging it, and a support needs one digit."""
_NO_TREE = 0.1
"""Four-point residual from which distances are not those of a tree."""
_FEW_ZEROS = 0.05
"""Share of zeros from which a model counts as pruned; trained weights have next to none."""
_APART = 0.8
"""Cosine of two changes, seen from a member, from which they begin with its own branch. Fine-tunes of the
zoo on similar data have 0.56 seen from their base, 0.69 if they are permuted, and 0.89 seen from its low-rank
update."""
_FEWEST_JOINED = 2
"""Members of a tree of distances."""
_STRANGE = 1.8
"""Squared distance from which samples say nothing about a relation that the comparison found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyGrowth:
    """A family and its edges."""

    family: Family
    edges: tuple[TreeEdge, ...]


def grown_family(
    members: Sequence[ModelSample], pairs: Pairs, dates: Mapping[str, str], *, seed: int
) -> FamilyGrowth:
    """Grow one family of models that accepted pairs connect."""
    related: dict[str, set[str]] = {member.name: set() for member in members}
    for first, second in map(sorted, pairs):
        related[first].add(second)
        related[second].add(first)
    return _Growth(in_common_coordinates(members, related), pairs, dates, seed).grown()


@dataclass(slots=True)
class _Growth:
    members: list[ModelSample]
    pairs: Pairs
    dates: Mapping[str, str]
    seed: int
    facts: dict[frozenset[str], tuple[DirectionFact, ...]] = field(default_factory=dict)
    kept: dict[tuple[str, str], KeptRows | None] = field(default_factory=dict)

    def grown(self) -> FamilyGrowth:
        for pair in self.pairs:
            first, second = (self._of(name) for name in sorted(pair))
            for child, parent in ((first, second), (second, first)):
                self.kept[child.name, parent.name] = kept_rows(child, parent)
            self.facts[pair] = facts_of(first, second, self.dates, self.kept)
        plain = dict(self.facts)

        def older(name: str, than: str) -> bool:
            return agreed_parent(plain.get(frozenset((name, than)), ())) == name

        for pair in self.pairs:
            first, second = (self._of(name) for name in sorted(pair))
            frozen = frozen_facts(first, second, self._relatives(first, second), older)
            self.facts[pair] = (*self.facts[pair], *frozen)
        faced = self._renumbered()
        by_site = site_distances(faced)
        blends = self._blends(by_site)
        mixed = {blend.child: blend.parents for blend in blends}
        middle = self._middle(mean_distances(by_site), mixed)
        edges: list[TreeEdge | None] = [edge for blend in blends for edge in self._merged(blend, by_site)]
        draws = self._draws(len(by_site))
        edges += [
            self._descent(by_site, child, middle, mixed, barred, draws)
            for child, barred in self._all_barred(by_site, middle, mixed).items()
        ]
        kept = [
            place for place, member in enumerate(self.members) if place not in mixed and member.turned is None
        ]
        tree, joined, fit = self._joined(by_site, kept, draws)
        found = [edge for edge in edges if edge is not None]
        aside = self._off_the_line(found, mean_distances(by_site))
        return FamilyGrowth(
            family=Family(
                members=tuple(member.name for member in self.members),
                middle=self.members[middle].name,
                newick=tree,
                joined=joined,
                four_point=fit,
                notes=(
                    *((say("tree-not-additive"),) if fit is not None and fit > _NO_TREE else ()),
                    *(say("tree-own-branch", model=name) for name in sorted(aside)),
                ),
            ),
            edges=follow([_undirected(edge) if edge.parent in aside else edge for edge in found]),
        )

    # -- what is measured ------------------------------------------------------------------------------

    def _of(self, name: str) -> ModelSample:
        return next(member for member in self.members if member.name == name)

    def _relatives(self, first: ModelSample, second: ModelSample) -> list[ModelSample]:
        """Return the models that are accepted relatives of both."""
        return [
            member
            for member in self.members
            if {frozenset((member.name, first.name)), frozenset((member.name, second.name))}
            <= self.pairs.keys()
        ]

    def _renumbered(self) -> list[ModelSample]:
        """Give layers of models of another depth the numbers of those they face at the usual depth."""
        depths = Counter(len(member.layers) for member in self.members)
        usual = max(depths, key=lambda depth: (depths[depth], -depth))
        reference = next(member for member in self.members if len(member.layers) == usual)
        return [
            member
            if len(member.layers) == usual
            else renumbered(
                member, {layer: there for layer, (there, _) in facing_layers(member, reference).items()}
            )
            for member in self.members
        ]

    def _blends(self, by_site: Floats) -> list[Blend]:
        """Find merges: first those that lie between two others, then those visible in single values."""
        found: dict[int, Blend] = {}
        for child in range(len(self.members)):
            near = [place for place in self._near(child) if not self._is_later(place, child)]
            inside = by_site[np.ix_(range(len(by_site)), near, near)]
            blend = find_blend(inside, near.index(child))
            if blend is not None:
                found[child] = blend.renamed(near)
        for child, blend in list(found.items()):
            if found.keys() & {*blend.parents}:
                found[child] = self._of_plain(by_site, child, found) or blend
        # A merge or a rounded copy is not considered as a parent: its own parents explain more.
        plain = {
            place
            for place, member in enumerate(self.members)
            if place not in found and member.levels is None and member.zeros < _FEW_ZEROS
        }
        for child in sorted(plain):
            near = [place for place in self._near(child) if place in plain]
            blend = sparse_blend([self.members[place] for place in near], near.index(child))
            if blend is not None:
                found[child] = blend.renamed(near)
        return [blend for blend in found.values() if self._stands(blend, found)]

    def _of_plain(self, by_site: Floats, child: int, found: Mapping[int, Blend]) -> Blend | None:
        """Look for parents that are not merges: the parents of another merge also explain the child."""
        near = [
            place
            for place in self._near(child)
            if place == child or (place not in found and not self._is_later(place, child))
        ]
        blend = find_blend(by_site[np.ix_(range(len(by_site)), near, near)], near.index(child))
        return None if blend is None else blend.renamed(near)

    def _stands(self, blend: Blend, found: Mapping[int, Blend]) -> bool:
        """Say whether no fact puts the merge before a parent, and no parent is a clearer merge of it."""
        for parent in blend.parents:
            other = found.get(parent)
            clearer = (
                other is not None and blend.child in other.parents and other.opposition >= blend.opposition
            )
            if self._is_later(parent, blend.child) or clearer:
                return False
        return True

    def _is_later(self, place: int, child: int) -> bool:
        """Say whether facts put a member after one that may be a merge of it."""
        name = self.members[child].name
        key = frozenset((name, self.members[place].name))
        # The mean of a decayed row and a fresh one lies between them: that says nothing about merges.
        facts = [fact for fact in self.facts.get(key, ()) if fact.kind != "decayed-rows"]
        return agreed_parent(facts) == name

    def _near(self, child: int) -> list[int]:
        """Return a member with its accepted relatives."""
        return [place for place in range(len(self.members)) if place == child or self._accepted(child, place)]

    def _middle(self, distances: Floats, mixed: Collection[int]) -> int:
        """Choose the member that facts put first most often; of several, the one closest to all."""
        names = [member.name for member in self.members]
        first: Counter[str] = Counter()
        for facts in self.facts.values():
            parent = agreed_parent(facts)
            if parent is not None:
                first[parent] += 1
                first[next(fact.child for fact in facts)] -= 1
        able = [place for place in range(len(names)) if place not in mixed]
        # Coordinates that several share came before those of a single one: nobody rotates a stream back.
        able = [place for place in able if place not in self._turned()] or able
        near = [
            float(np.nanmedian(np.delete(distances[place], place)))
            if np.isfinite(np.delete(distances[place], place)).any()
            else np.inf
            for place in range(len(names))
        ]
        return max(able or range(len(names)), key=lambda place: (first[names[place]], -near[place]))

    def _draws(self, n_sites: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng(self.seed)
        return [rng.integers(0, n_sites, n_sites) for _ in range(_DRAWS)] if n_sites else []

    # -- edges -----------------------------------------------------------------------------------------

    def _merged(self, blend: Blend, by_site: Floats) -> list[TreeEdge]:
        child = self.members[blend.child].name
        distances = mean_distances(by_site)
        edges = []
        for parent, share in zip(blend.parents, blend.shares, strict=True):
            name = self.members[parent].name
            reason = say("tree-hull", share=f"{share:.2f}", opposition=f"{blend.opposition:.2f}")
            fact = DirectionFact(kind="merge-hull", parent=name, child=child, reason=reason)
            edges.append(
                self._edge(blend.child, parent, "merge", reason, distances, facts=(fact,), weight=share)
            )
        return edges

    def _barred(self, child: int) -> set[int]:
        """Return those that cannot be the parent: not accepted, later by facts, or without its rows."""
        name = self.members[child].name
        keys = [frozenset((name, member.name)) for member in self.members]
        later = {
            place
            for place, key in enumerate(keys)
            if place != child and (key not in self.pairs or agreed_parent(self.facts[key]) == name)
        }
        held = [self.kept.get((name, member.name)) for member in self.members]
        most = max(
            (kept for place, kept in enumerate(held) if place not in later and kept is not None),
            key=lambda kept: kept.n,
            default=None,
        )
        lost = {place for place, kept in enumerate(held) if place != child and lost_rows(kept, most)}
        # A child has its parent's coordinates, or unique ones.
        turned = self._turned()
        return later | lost | (set() if child in turned else turned)

    def _turned(self) -> set[int]:
        """Return the members that lack the coordinates which several others share."""
        turned = {place for place, member in enumerate(self.members) if member.turned is not None}
        return turned if len(self.members) - len(turned) > 1 else set()

    def _all_barred(
        self, by_site: Floats, middle: int, mixed: Mapping[int, tuple[int, int]]
    ) -> dict[int, set[int]]:
        """Return what each member cannot come from, once it is known where the others are attached.

        None comes from itself by way of others. A merge lies near its main parent and takes most of its
        change along, so that the parent seems to carry the change of the merge: that the merge lies between
        two members is the stronger evidence. Of copies that seem to carry each other's change, the one
        closest to the middle comes first. And none comes through a merge if it may come from a parent of it.
        """
        barred = {
            child: self._barred(child) | {merge for merge, parents in mixed.items() if child in parents}
            for child in range(len(self.members))
            if child != middle and child not in mixed
        }
        away = mean_distances(by_site)[middle]
        above: dict[int, Sequence[int]] = dict(mixed)
        wanted = set(barred)
        while wanted:
            for child in wanted:
                hung = hang(by_site, child, middle, mixed, barred[child])
                above[child] = () if hung is None else (hung.parent,)
            circle = next((found for child in barred if (found := _circle(above, child))), set())
            if circle:
                able = circle & barred.keys()
                made = {parent for merge in circle & mixed.keys() for parent in mixed[merge]} & able
                first = min(made or able, key=lambda place: float(away[place]))
                barred[first] |= circle
                wanted = {first}
            else:
                wanted = {
                    child
                    for child, places in barred.items()
                    for merge in _line(above, child) & mixed.keys()
                    for side in {*mixed[merge]} - places
                    if comes_past(by_site, child, above[child][0], mixed[merge], side, middle)
                }
                for child in wanted:
                    barred[child] |= {*above[child]}
        return barred

    def _descent(
        self,
        by_site: Floats,
        child: int,
        middle: int,
        mixed: Collection[int],
        barred: set[int],
        draws: Sequence[NDArray[np.int64]],
    ) -> TreeEdge | None:
        distances = mean_distances(by_site)
        near = np.delete(distances[child], child)
        hung = hang(by_site, child, middle, mixed, barred)
        if hung is None or not np.isfinite(near).any() or float(np.nanmin(near)) > _STRANGE:
            return self._reshaped(child, middle, barred | {*mixed}, distances)
        again = [hang(by_site[draw], child, middle, mixed, barred) for draw in draws[:_EDGE_DRAWS]]
        support = float(np.mean([drawn is not None and drawn.parent == hung.parent for drawn in again]))
        kind = "nearest" if hung.least is None else "inherits"
        reason = self._why(child, hung)
        return self._edge(
            child, hung.parent, kind, reason, distances, inheritance=hung.least, support=support
        )

    def _why(self, child: int, hung: Hung) -> Message:
        """Say why a member is attached where it is."""
        name = self.members[child].name
        held = [self.kept.get((name, member.name)) for member in self.members]
        mine = held[hung.parent]
        lost = [
            place for place, kept in enumerate(held) if self._accepted(child, place) and lost_rows(kept, mine)
        ]
        if mine is not None and lost:
            reason = say("tree-holds", n=mine.n)
        elif hung.least is None:
            reason = say("tree-nearest")
        else:
            reason = say("tree-inherits", share=f"{hung.least:.2f}")
        turned = self.members[child].turned
        return reason if turned is None else say("tree-turned", frame=say(f"frame.{turned}"), why=reason)

    def _accepted(self, first: int, second: int) -> bool:
        return frozenset((self.members[first].name, self.members[second].name)) in self.pairs

    def _reshaped(self, child: int, middle: int, barred: set[int], distances: Floats) -> TreeEdge | None:
        """Attach a member without measurable tensors to the relative with which it shares most."""
        able = set(range(len(self.members))) - barred - {child}

        def strength(place: int) -> tuple[float, bool]:
            pair = self.pairs[frozenset((self.members[child].name, self.members[place].name))]
            return -1.0 if pair.effect is None else round(pair.effect, 2), place == middle

        if not able:
            return None
        return self._edge(child, max(able, key=strength), "reshaped", say("tree-reshaped"), distances)

    def _edge(
        self,
        child: int,
        parent: int,
        kind: str,
        reason: Message,
        distances: Floats,
        *,
        facts: tuple[DirectionFact, ...] = (),
        inheritance: float | None = None,
        support: float | None = None,
        weight: float | None = None,
    ) -> TreeEdge:
        first, second = self.members[child].name, self.members[parent].name
        key = frozenset((first, second))
        said = (*facts, *self.facts.get(key, ()))
        away = float(distances[child, parent])
        return TreeEdge(
            first=first,
            second=second,
            kind=kind,  # type: ignore[arg-type]
            parent=agreed_parent(facts or said),
            facts=said,
            reason=reason,
            distance=away if np.isfinite(away) else None,
            inheritance=inheritance,
            support=support,
            weight=weight,
            pair=self.pairs.get(key),
        )

    def _off_the_line(self, edges: Sequence[TreeEdge], distances: Floats) -> set[str]:
        """Return members that hold the oldest rows, and cannot be where their relatives come from.

        Whoever left the rows untouched holds those of the parent, as a low-rank update of a missing parent
        does. A parent lies where the ways between its children meet. Seen from a sibling on a branch of its
        own, all changes begin with the way back along that branch, so they have nearly one direction.
        """
        number = {member.name: place for place, member in enumerate(self.members)}
        below: dict[str, list[int]] = {}
        for edge in edges:
            if edge.parent is not None and edge.child is not None and _by_rows_alone(edge):
                below.setdefault(edge.parent, []).append(number[edge.child])
        found = set()
        for name, children in below.items():
            away = distances[number[name]]
            near = sorted((one for one in children if away[one] > 0), key=away.__getitem__)
            cosines = [
                float(away[near[0]] + away[other] - distances[near[0], other])
                / (2 * math.sqrt(away[near[0]] * away[other]))
                for other in near[1:]
                if np.isfinite(distances[near[0], other])
            ]
            if max(cosines, default=0.0) >= _APART:
                found.add(name)
        return found

    # -- the tree of distances -------------------------------------------------------------------------

    def _joined(
        self, by_site: Floats, kept: list[int], draws: Sequence[NDArray[np.int64]]
    ) -> tuple[str | None, tuple[str, ...], float | None]:
        """Join the members whose distances are all known; those without a common shape are left out."""
        distances = mean_distances(by_site)
        while kept and not np.isfinite(distances[np.ix_(kept, kept)]).all():
            missing = [int((~np.isfinite(distances[place, kept])).sum()) for place in kept]
            kept = [place for number, place in enumerate(kept) if number != int(np.argmax(missing))]
        names = tuple(self.members[place].name for place in kept)
        if len(kept) < _FEWEST_JOINED:
            return None, names, None
        held = distances[np.ix_(kept, kept)]
        if len(kept) == _FEWEST_JOINED:
            return newick(join_two(float(held[0, 1])), names, {}), names, None
        tree = join_neighbours(held)
        counted: Counter[frozenset[int]] = Counter()
        used = 0
        for draw in draws:
            drawn = mean_distances(by_site[draw])[np.ix_(kept, kept)]
            if np.isfinite(drawn).all():
                counted.update(splits(join_neighbours(drawn), len(kept)))
                used += 1
        support = {split: counted[split] / max(1, used) for split in splits(tree, len(kept))}
        return newick(tree, names, support), names, four_point(held, self.seed)


def _by_rows_alone(edge: TreeEdge) -> bool:
    """Say whether nothing but rows names the direction of an edge."""
    return {fact.kind for fact in edge.facts} == {"decayed-rows"}


def _undirected(edge: TreeEdge) -> TreeEdge:
    """Take a direction back that rests on rows alone."""
    return replace(edge, parent=None, facts=()) if _by_rows_alone(edge) else edge


def _circle(above: Mapping[int, Sequence[int]], place: int) -> set[int]:
    """Return a member with all that it comes from and that come from it; nothing if there are none."""
    return {one for one in _line(above, place) if place in _line(above, one)}


def _line(above: Mapping[int, Sequence[int]], place: int) -> set[int]:
    """Return everything that a member comes from."""
    found: set[int] = set()
    left = [*above.get(place, ())]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += above.get(one, ())
    return found
