"""Grows the forest of a collection with known ancestry and writes what came out: ``make forest``, some minutes.

Writes the tables of ``docs/lineage.md``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from math import comb
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.lineage.collection import Truth, truths, write_collection  # noqa: E402

from modelkin import CompareOptions, FamilyForest, family_forest  # noqa: E402
from modelkin.lineage.growing import components_of, judge_pair, pair_memory  # noqa: E402
from modelkin.lineage.tree_result import JudgedPair  # noqa: E402
from modelkin.model import Model, open_model  # noqa: E402

PAGE = ROOT / "docs" / "lineage.md"
_OPENED: dict[str, Model] = {}


def judged(job: tuple[str, str, str, str]) -> JudgedPair:
    """Compare one pair."""
    first, second, here, there = job
    for name, place in ((first, here), (second, there)):
        if name not in _OPENED:
            _OPENED[name] = open_model(place)
    said = judge_pair(_OPENED[first], _OPENED[second], CompareOptions(), pair_memory())
    conclusion, related, effect, log10_p = said
    return JudgedPair(
        first=first, second=second, conclusion=conclusion, related=related, effect=effect, log10_p=log10_p
    )


def adjusted_rand(found: Mapping[str, int], known: Mapping[str, str]) -> float:
    """Return the agreement of two partitions, 0 by chance and 1 if they are the same."""
    cells: dict[tuple[int, str], int] = {}
    for name in known:
        key = found[name], known[name]
        cells[key] = cells.get(key, 0) + 1

    def pairs(side: Mapping[str, object]) -> int:
        values = list(side.values())
        return sum(comb(values.count(value), 2) for value in set(values))

    both = sum(comb(count, 2) for count in cells.values())
    mine, theirs, every = pairs(found), pairs(known), comb(len(known), 2)
    expected = mine * theirs / every
    largest = (mine + theirs) / 2
    return 1.0 if largest == expected else (both - expected) / (largest - expected)


def scores(found: set[object], known: set[object]) -> str:
    """Return precision, recall and F1 as cells of a table."""
    right = len(found & known)
    precision, recall = right / max(1, len(found)), right / max(1, len(known))
    f1 = 2 * right / max(1, len(found) + len(known))
    return f"{len(found)} | {right} | {precision:.3f} | {recall:.3f} | **{f1:.3f}**"


def report(plain: FamilyForest, dated: FamilyForest, known: Mapping[str, Truth]) -> str:
    """Write the tables."""
    true = {(parent, name) for name, truth in known.items() for parent in truth.parents}
    lines = [
        "| edges | said | right | precision | recall | F1 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for label, found in (("", plain), (", with claimed dates", dated)):
        lines.append(f"| undirected{label} | {scores(undirected(found), {frozenset(e) for e in true})} |")
        lines.append(f"| directed{label} | {scores(directed(found), set(true))} |")
    cluster = {name: n for n, members in enumerate(components_of(plain)) for name in members}
    rand = adjusted_rand(cluster, {name: truth.cluster for name, truth in known.items()})
    accused = [
        pair
        for pair in plain.pairs
        if pair.related and known[pair.first].cluster != known[pair.second].cluster
    ]
    apart = sorted(name for name, truth in known.items() if truth.parents and name in plain.alone)
    reverse = {(child, parent) for parent, child in true}
    lines += [
        "",
        f"{len(known)} models in {len({truth.cluster for truth in known.values()})} clusters, {len(true)} true edges; "
        f"{len(plain.pairs)} pairs compared at standard depth. Clusters: adjusted Rand index **{rand:.3f}**, "
        f"**{len(accused)}** unrelated pairs accepted, relatives found alone: {', '.join(apart) or 'none'}. "
        f"Directions named the wrong way round on true edges: {len(directed(plain) & reverse)}.",
        "",
        "| edge that is wrong | kind | true parents |",
        "| --- | --- | --- |",
    ]
    for edge in plain.edges:
        if frozenset((edge.first, edge.second)) not in {frozenset(pair) for pair in true}:
            parents = ", ".join(known[edge.first].parents) or "none"
            lines.append(f"| {edge.first} on {edge.second} | {edge.kind} | {parents} |")
    return "\n".join(lines)


def undirected(found: FamilyForest) -> set[object]:
    """Return edges without their direction."""
    return {frozenset((edge.first, edge.second)) for edge in found.edges}


def directed(found: FamilyForest) -> set[object]:
    """Return (parent, child) of the edges whose direction is named."""
    return {
        (edge.parent, edge.first if edge.parent == edge.second else edge.second)
        for edge in found.edges
        if edge.parent is not None
    }


def written(text: str, content: str) -> str:
    """Put content between the markers."""
    begin, end = "<!-- begin: forest -->", "<!-- end: forest -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def grown(places: Mapping[str, str], pairs: list[JudgedPair]) -> str:
    """Grow both forests and report on them."""
    known = truths()
    # Dates as cards would claim them: parents before their children.
    dates = {name: f"2024-{1 + number // 28:02d}-{1 + number % 28:02d}" for number, name in enumerate(known)}
    plain = family_forest(dict(places), known=pairs)
    return report(plain, family_forest(dict(places), known=pairs, dates=dates), known)


def main() -> int:
    """Compare everything and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        places = {name: str(place) for name, place in write_collection(Path(folder)).items()}
        jobs = [(b, a, places[b], places[a]) for a, b in combinations(places, 2)]
        with ProcessPoolExecutor(2) as pool:
            pairs = list(pool.map(judged, jobs, chunksize=16))
        PAGE.write_text(written(PAGE.read_text(), grown(places, pairs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
