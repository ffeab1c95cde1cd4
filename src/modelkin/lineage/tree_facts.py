"""Which of two relatives came first: only from asymmetric facts, each named.

That one looks more trained, has heavier tails or a higher rank is not such a fact: when tried, it was a coin
toss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from modelkin.lineage.kept_rows import KeptRows
from modelkin.lineage.samples import Site
from modelkin.lineage.tree_result import DirectionFact, TreeEdge
from modelkin.lineage.tree_samples import ModelSample, distance, facing_layers
from modelkin.message import Message, say
from modelkin.tensors import decode, encode

Kept = Mapping[tuple[str, str], KeptRows | None]

# Squared distance over lengths, 2 for strangers: clearly the same tensor.
_NEAR = 0.5
# Share of zeros that training does not produce.
_MORE_ZEROS = 0.05
# Half of the last bit of bfloat16: rows that are shorter by less may be equal.
_SHORTER = 2e-3
# Formats by the numbers they can hold.
_WIDER = {"F64": 3, "F32": 2, "F16": 1, "BF16": 1}


def facts_of(
    first: ModelSample, second: ModelSample, dates: Mapping[str, str], kept: Kept
) -> tuple[DirectionFact, ...]:
    """Return everything that says which of two relatives came first.

    Parameters
    ----------
    first, second
        The relatives.
    dates
        Claimed dates of models.
    kept
        Rows that a model (first name) keeps of another one (second name).
    """
    found: list[DirectionFact] = []
    for parent, child in ((first, second), (second, first)):
        for kind, reason in _signs(parent, child, kept.get((child.name, parent.name))):
            found.append(DirectionFact(kind=kind, parent=parent.name, child=child.name, reason=reason))
        if parent.name in dates and child.name in dates and dates[parent.name] < dates[child.name]:
            reason = say("tree-dates", parent=dates[parent.name], child=dates[child.name])
            found.append(DirectionFact(kind="dates", parent=parent.name, child=child.name, reason=reason))
    return tuple(found)


def agreed_parent(facts: Sequence[DirectionFact]) -> str | None:
    """Return the parent if all facts name the same one."""
    parents = {fact.parent for fact in facts}
    return parents.pop() if len(parents) == 1 else None


def _signs(parent: ModelSample, child: ModelSample, kept: KeptRows | None) -> Iterator[tuple[str, Message]]:
    yield from _vocabulary(parent, child)
    yield from _numbers(parent, child)
    yield from _shape(parent, child)
    if kept is not None and kept.kept and kept.factor < 1 - _SHORTER:
        yield "decayed-rows", say("tree-decayed", n=kept.n, factor=f"{kept.factor:.4f}")


def _vocabulary(parent: ModelSample, child: ModelSample) -> Iterator[tuple[str, Message]]:
    n, m = parent.size("vocab"), child.size("vocab")
    if n is None or m is None or n >= m:
        return
    rows = [site for site in parent.values if site.group == "embedding" and site in child.values]
    for site in rows:
        a, b = parent.values[site], child.values[site]
        size = min(a.size, b.size)
        if parent.shapes[site][1:] == child.shapes[site][1:] and distance(a[:size], b[:size]) < _NEAR:
            yield "vocabulary-superset", say("tree-vocabulary", n=n, m=m)
            return


def _numbers(parent: ModelSample, child: ModelSample) -> Iterator[tuple[str, Message]]:
    if child.levels is not None and (parent.levels is None or parent.levels > child.levels):
        yield "quantised-grid", say("tree-grid", n=child.levels)
    elif child.zeros > _MORE_ZEROS + 2 * parent.zeros:
        yield "pruned-subset", say("tree-zeros", share=f"{child.zeros:.2f}", other=f"{parent.zeros:.2f}")
    yield from _precision(parent, child)


def _precision(parent: ModelSample, child: ModelSample) -> Iterator[tuple[str, Message]]:
    """Detect rounding, and its trail: values of a wider format that a narrower one could hold."""
    common = [
        site for site in parent.values if site in child.values and parent.dtypes[site] != child.dtypes[site]
    ]
    common = [site for site in common if parent.values[site].size == child.values[site].size]
    if not common or any(
        dtype not in _WIDER for site in common for dtype in (parent.dtypes[site], child.dtypes[site])
    ):
        return
    equal = all(np.array_equal(parent.values[site], child.values[site]) for site in common)
    wider = all(_WIDER[parent.dtypes[site]] > _WIDER[child.dtypes[site]] for site in common)
    if not equal and wider and all(_rounded(parent, child, site) for site in common):
        yield "rounded", say("tree-rounded", dtype=child.dtypes[common[0]])
    narrower = all(_WIDER[parent.dtypes[site]] < _WIDER[child.dtypes[site]] for site in common)
    if equal and narrower:
        yield "rounding-trail", say("tree-trail", dtype=parent.dtypes[common[0]])


def _rounded(parent: ModelSample, child: ModelSample, site: Site) -> bool:
    """Say whether all values are as close as the format allows; of two equally close, tools choose either."""
    values, dtype = parent.values[site], child.dtypes[site]
    nearest = decode(encode(values, dtype), dtype, values.size).reshape(-1)
    off = np.abs(child.values[site].astype(np.float64) - values)
    return bool(np.all(off <= np.abs(nearest.astype(np.float64) - values)))


def _shape(parent: ModelSample, child: ModelSample) -> Iterator[tuple[str, Message]]:
    if child.size("experts") and not parent.size("experts"):
        yield "experts", say("tree-experts", n=child.size("experts"))
        return
    if parent.size("experts") and not child.size("experts"):
        return
    n, m = len(parent.layers), len(child.layers)
    if m > n and _repeats(child, parent):
        yield "repeated-layers", say("tree-repeated", n=m, m=n)
    elif m < n and not _repeats(parent, child):
        yield "pruned-subset", say("tree-fewer-layers", n=m, m=n)
    for name in ("mlp", "residual"):
        mine, theirs = parent.size(name), child.size(name)
        if mine is not None and theirs is not None and theirs < mine:
            yield "pruned-subset", say("tree-narrower", n=theirs, m=mine)
            return


def _repeats(longer: ModelSample, shorter: ModelSample) -> bool:
    """Say whether two layers of the longer one come from the same layer of the shorter one."""
    facing = [layer for layer, away in facing_layers(longer, shorter).values() if away < 1.0]
    return len(set(facing)) < len(facing)


def frozen_facts(
    first: ModelSample,
    second: ModelSample,
    relatives: Sequence[ModelSample],
    older: Callable[[str, str], bool],
) -> tuple[DirectionFact, ...]:
    """Find tensors that one shares bit for bit with an outgroup, and the other has lost.

    What changed was not changed back. An outgroup is a relative that other facts put before both: that a
    descendant shares them too would say nothing.
    """
    found = []
    for parent, child in ((first, second), (second, first)):
        for third in relatives:
            if third.name in (parent.name, child.name) or not (
                older(third.name, parent.name) and older(third.name, child.name)
            ):
                continue
            if _holds(parent, child, third):
                reason = say("tree-frozen", model=third.name)
                found.append(
                    DirectionFact(
                        kind="frozen-with-outgroup", parent=parent.name, child=child.name, reason=reason
                    )
                )
                break
    return tuple(found)


def _holds(parent: ModelSample, child: ModelSample, third: ModelSample) -> bool:
    for site, held in parent.digests.items():
        if site not in child.digests or third.digests.get(site) != held or child.digests[site] == held:
            continue
        kept, lost = parent.values[site], child.values[site]
        if kept.size == lost.size and np.any(kept) and distance(kept, lost) < _NEAR:
            return True
    return False


def pairs_of(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return all pairs, the later one first: children are usually listed after their parents."""
    yield from ((second, first) for first, second in combinations(names, 2))


def follow(edges: Sequence[TreeEdge]) -> tuple[TreeEdge, ...]:
    """Add directions that follow from others: what is attached to a model that has a parent comes from it.

    Only if nothing else was said about an edge: contradictory facts stay contradictory.
    """
    found = list(edges)
    while True:
        above = {edge.child: edge.parent for edge in found if edge.parent is not None}
        changed = False
        for place, edge in enumerate(found):
            if edge.parent is not None or edge.facts:
                continue
            settled = [name for name in (edge.first, edge.second) if name in above]
            if len(settled) == 1:
                (parent,) = settled
                child = edge.first if parent == edge.second else edge.second
                reason = say("tree-one-parent", model=parent, parent=above[parent])
                fact = DirectionFact(kind="one-parent", parent=parent, child=child, reason=reason)
                found[place] = replace(edge, parent=parent, facts=(fact,))
                changed = True
                break
        if not changed:
            return tuple(found)
