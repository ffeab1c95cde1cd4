"""Grows forests of collections with known ancestry and writes what came out: ``make forest``.

Writes the tables of ``docs/lineage.md``. ``python docs/forest.py [--held-out FOLDER] [--modeldna-python PATH]
[--disguises]``: the held-out collection is trained into the folder if it is not there yet, which needs torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.peers_job import run_job  # noqa: E402
from tests.lineage.collection import DEVELOPMENT, DISGUISES, Collection, Truth, write_disguised  # noqa: E402

from modelkin import FamilyForest, family_forest  # noqa: E402

PAGE = ROOT / "docs" / "lineage.md"
DISGUISED = ("base", "finetune-light", "finetune-heavy", "finetune-sibling", "grandchild", "twin-1")
"""Models that are disguised: pairs in other coordinates are found only at depth ``deep``, in seconds each."""

Edges = set[object]


@dataclass(frozen=True)
class Grown:
    """A collection and its forest."""

    title: str
    known: Mapping[str, Truth]
    plain: FamilyForest
    dated: FamilyForest

    @property
    def true(self) -> set[tuple[str, str]]:
        """(parent, child) of every edge."""
        return {(parent, name) for name, truth in self.known.items() for parent in truth.parents}


def components_of(found: FamilyForest) -> list[tuple[str, ...]]:
    """Return every cluster of a forest, including models that are alone."""
    return [*(family.members for family in found.families), *((name,) for name in found.alone)]


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


def clusters_right(groups: Iterable[Sequence[str]], known: Mapping[str, Truth]) -> float:
    """Return the adjusted Rand index of groups of names."""
    cluster = {name: number for number, members in enumerate(groups) for name in members}
    return adjusted_rand(cluster, {name: truth.cluster for name, truth in known.items()})


def scores(found: Edges, known: Edges) -> str:
    """Return precision, recall and F1 as cells of a table."""
    right = len(found & known)
    precision, recall = right / max(1, len(found)), right / max(1, len(known))
    f1 = 2 * right / max(1, len(found) + len(known))
    return f"{len(found)} | {right} | {precision:.3f} | {recall:.3f} | **{f1:.3f}**"


def undirected(found: FamilyForest) -> Edges:
    """Return edges without their direction."""
    return {frozenset((edge.first, edge.second)) for edge in found.edges}


def directed(found: FamilyForest) -> Edges:
    """Return (parent, child) of the edges whose direction is named."""
    return {(edge.parent, edge.child) for edge in found.edges if edge.parent is not None}


def grown(title: str, places: Mapping[str, Path], known: Mapping[str, Truth]) -> Grown:
    """Grow the forest of a collection from what fingerprints propose, without and with claimed dates."""
    models = {name: str(place) for name, place in places.items()}
    plain = family_forest(models, pairs="proposed")
    # As cards would claim them: parents before their children.
    dates = {name: f"2024-{1 + number // 28:02d}-{1 + number % 28:02d}" for number, name in enumerate(known)}
    dated = family_forest(models, pairs="proposed", known=plain.pairs, dates=dates, relations=False)
    return Grown(title, known, plain, dated)


def edge_rows(item: Grown) -> list[str]:
    """Return the scores of one collection."""
    plain, dated = item.plain, item.dated
    both: Edges = {frozenset(edge) for edge in item.true}
    true: Edges = set(item.true)
    return [
        f"| {item.title} | undirected | {scores(undirected(plain), both)} |",
        f"| {item.title} | directed | {scores(directed(plain), true)} |",
        f"| {item.title} | undirected, with claimed dates | {scores(undirected(dated), both)} |",
        f"| {item.title} | directed, with claimed dates | {scores(directed(dated), true)} |",
    ]


def cluster_row(item: Grown) -> str:
    """Return what became of the clusters of one collection."""
    known, plain = item.known, item.plain
    accused = [
        pair
        for pair in plain.pairs
        if pair.related and known[pair.first].cluster != known[pair.second].cluster
    ]
    apart = sorted(name for name, truth in known.items() if truth.parents and name in plain.alone)
    return (
        f"| {item.title} | {len(known)} | {len({truth.cluster for truth in known.values()})} | {len(item.true)} | "
        f"{comb(len(known), 2)} | {len(plain.pairs)} | {sum(pair.depth == 'deep' for pair in plain.pairs)} | "
        f"**{clusters_right(components_of(plain), known):.3f}** | {len(accused)} | {', '.join(apart) or 'none'} |"
    )


def fact_rows(items: Sequence[Grown]) -> list[str]:
    """Return, by fact, how often it named a direction correctly, wrongly, and for an edge that does not exist."""
    counts: dict[str, dict[str, list[int]]] = {}
    for item in items:
        for edge in item.plain.edges:
            said = {fact.kind for fact in edge.facts if fact.parent == edge.parent}
            place = (
                0
                if (edge.parent, edge.child) in item.true
                else 1
                if (edge.child, edge.parent) in item.true
                else 2
            )
            for kind in said if edge.parent is not None else ():
                counts.setdefault(kind, {}).setdefault(item.title, [0, 0, 0])[place] += 1
    return [
        f"| `{kind}` | "
        + " | ".join(" / ".join(map(str, found.get(item.title, [0, 0, 0]))) for item in items)
        + " |"
        for kind, found in sorted(counts.items())
    ]


def wrong_rows(items: Sequence[Grown]) -> list[str]:
    """Return the edges that do not exist in truth."""
    rows = []
    for item in items:
        both = {frozenset(edge) for edge in item.true}
        rows += [
            f"| {item.title} | {edge.first} on {edge.second} | {edge.kind} | "
            f"{', '.join(item.known[edge.first].parents) or 'none'} |"
            for edge in item.plain.edges
            if frozenset((edge.first, edge.second)) not in both
        ]
    return rows


def kind_rows(items: Sequence[Grown]) -> list[str]:
    """Return how often each kind was named on true edges."""
    counts: dict[str, int] = {}
    for item in items:
        both = {frozenset(edge) for edge in item.true}
        for edge in item.plain.edges:
            if frozenset((edge.first, edge.second)) in both:
                word = "merge" if edge.kind == "merge" else str(edge.relation)
                counts[word] = counts.get(word, 0) + 1
    return [f"{word} {count}" for word, count in sorted(counts.items(), key=lambda pair: -pair[1])]


def report(items: Sequence[Grown]) -> str:
    """Write the tables."""
    titles = " | ".join(item.title for item in items)
    return "\n".join(
        [
            "| collection | edges | said | right | precision | recall | F1 |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
            *(row for item in items for row in edge_rows(item)),
            "",
            "| collection | models | clusters | true edges | pairs of fingerprints | compared | of these deep | "
            "adjusted Rand index | unrelated pairs accepted | relatives found alone |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *map(cluster_row, items),
            "",
            f"What was done along true edges: {', '.join(kind_rows(items))}.",
            "",
            "Directions that a fact named: right / the wrong way round / on an edge that is none.",
            "",
            f"| fact | {titles} |",
            "| --- |" + " ---: |" * len(items),
            *fact_rows(items),
            "",
            "| collection | edge that is wrong | kind | true parents |",
            "| --- | --- | --- | --- |",
            *wrong_rows(items),
        ]
    )


def peer_report(items: Sequence[tuple[Grown, Mapping[str, Path]]], python: str) -> str:
    """Write what modelDNA says about the same models."""
    lines = [
        "| collection | tool | undirected F1 | directed F1 | adjusted Rand index | unrelated pairs accepted |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for item, places in items:
        job = {"models": {name: str(place) for name, place in places.items()}}
        said = run_job("benchmarks.forest_modeldna", job, environment=dict(os.environ), python=python)
        both: Edges = {frozenset(edge) for edge in item.true}
        groups = {name: {name} for name in item.known}
        for first, second in said["related"]:
            joined = groups[first] | groups[second]
            groups.update(dict.fromkeys(joined, joined))
        accused = {
            frozenset(pair)
            for pair in said["related"]
            if item.known[pair[0]].cluster != item.known[pair[1]].cluster
        }
        rows: tuple[tuple[str, Edges, Edges, float, int], ...] = (
            (
                "modelkin",
                undirected(item.plain),
                directed(item.plain),
                clusters_right(components_of(item.plain), item.known),
                sum(
                    bool(pair.related) and item.known[pair.first].cluster != item.known[pair.second].cluster
                    for pair in item.plain.pairs
                ),
            ),
            (
                "modelDNA 0.1.0",
                {frozenset(edge) for edge in said["best"].items()},
                {(parent, child) for child, parent in said["best"].items()},
                clusters_right({frozenset(group) for group in groups.values()}, item.known),  # type: ignore[arg-type]
                len(accused),
            ),
        )
        for tool, edges, arrows, rand, wrong in rows:
            cells = [scores(edges, both).split(" | ")[-1], scores(arrows, set(item.true)).split(" | ")[-1]]
            lines.append(f"| {item.title} | {tool} | {cells[0]} | {cells[1]} | {rand:.3f} | {wrong} |")
    return "\n".join(lines)


def disguise_report(collection: Collection, places: Mapping[str, Path], folder: Path) -> str:
    """Write what is found when every model with a parent is disguised."""
    known = {name: truth for name, truth in collection.truths().items() if name in DISGUISED}
    lines = [
        "| every child | undirected F1 | directed F1 | adjusted Rand index | unrelated pairs accepted |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for how in (None, *DISGUISES):
        kept = {name: places[name] for name in known}
        where = kept if how is None else write_disguised(kept, known, how, folder / how)
        plain = family_forest(
            {name: str(place) for name, place in where.items()}, pairs="proposed", relations=False
        )
        item = Grown(how or "as it is", known, plain, plain)
        rows = [row.split(" | ")[-1].rstrip(" |") for row in edge_rows(item)[:2]]
        accused = sum(
            bool(pair.related) and known[pair.first].cluster != known[pair.second].cluster
            for pair in plain.pairs
        )
        rand = clusters_right(components_of(plain), known)
        lines.append(f"| {item.title} | {rows[0]} | {rows[1]} | {rand:.3f} | {accused} |")
    return "\n".join(lines)


def written(text: str, content: str, key: str) -> str:
    """Put content between the markers."""
    begin, end = f"<!-- begin: {key} -->", f"<!-- end: {key} -->"
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"{PAGE.name} has no {begin}")
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def put(content: str, key: str) -> None:
    """Write one part of the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), content, key), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Grow everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--held-out", type=Path, metavar="FOLDER", help="of the held-out zoo; built if need be"
    )
    parser.add_argument("--modeldna-python", metavar="PATH", help="interpreter with modeldna 0.1.0")
    parser.add_argument("--disguises", action="store_true", help="disguises alone")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        collections = {"development": DEVELOPMENT}
        if asked.held_out is not None:
            from tests.lineage.held_out import build_held_out, held_out

            build_held_out(asked.held_out, full=True)
            collections["held out"] = held_out(asked.held_out)
        places = {title: item.write(folder / title.replace(" ", "-")) for title, item in collections.items()}
        put(disguise_report(DEVELOPMENT, places["development"], folder), "forest-disguises")
        if asked.disguises:
            return 0
        items = [grown(title, places[title], item.truths()) for title, item in collections.items()]
        put(report(items), "forest")
        if asked.modeldna_python is not None:
            put(
                peer_report([(item, places[item.title]) for item in items], asked.modeldna_python),
                "forest-peer",
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
