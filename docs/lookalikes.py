"""Compares models that look related and are not, as well as partial copies, and writes the readings.

``make lookalikes``: the kept models of ``tests/lookalikes`` and partial copies of the zoo, at standard and
deep depth; some minutes. ``--train DIR`` trains the lookalikes anew first (needs the extra ``lab``) and reads
them from there. ``--kinds DIR`` trains several students and partial copies of every kind at two widths, half
an hour on one core, and compares those too; a stopped run resumes. Writes the facts to
``docs/lookalikes.json`` and their tables into ``docs/verdicts.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.places import LOOKALIKES, ZOO  # noqa: E402

import modelkin as mk  # noqa: E402
from modelkin.comparison.methods import load_cards  # noqa: E402
from modelkin.comparison.verdict import load_rule  # noqa: E402
from modelkin.options import Depth  # noqa: E402

PAGE, FACTS = ROOT / "docs" / "verdicts.md", ROOT / "docs" / "lookalikes.json"
N_OF_KIND = 3
STREAM = {"embedding", "head", "norms", "residual"}
"""What a student shares with its teacher."""
COORDINATES = ("coordinates-only", "coordinates-and-heads")
"""How pairs are read at deep depth that share coordinates and no units."""
SIBLINGS = ("last", "all")
"""Kinds of students that are also compared with each other."""
DEPTHS: tuple[Depth, ...] = ("standard", "deep")
ALIKE = [
    ("masked-2", "masked-1", "trained under the same mask"),
    ("begun-2", "begun-1", "begun from the same public matrix"),
    ("student-last", "teacher", "student of the last hidden states"),
    ("student-all", "teacher", "student of all hidden states"),
    ("student-sibling", "teacher", "student of all hidden states, other text"),
    ("student-blocks", "teacher", "student of every block, other text"),
    ("student-activations", "teacher", "student of the activations inside MLPs, other text"),
    ("student-embedding", "teacher", "student of the last hidden states, started from the embedding"),
    ("student-sibling", "student-all", "two students of one teacher"),
    ("student-logits", "teacher", "student of predictions alone"),
    ("started", "teacher", "started from the embedding, layers new"),
    ("frozen-1", "teacher", "body around the frozen embedding"),
    ("frozen-2", "frozen-1", "two bodies around one frozen embedding"),
]
PARTIAL = [
    ("embeddings-only", "base", "partial copy: embedding and head, trained on"),
    ("norms-only", "base", "partial copy: norm gains"),
    ("new-attention", "base", "partial copy: all but attention"),
    ("new-tokenizer", "base", "partial copy: all but token rows"),
    ("half-of-layers", "base", "partial copy: half of the layers"),
    ("third-of-layers", "deep-1", "partial copy: a third of the layers and nothing else"),
    ("mlps-only", "deep-1", "partial copy: MLPs and nothing else"),
]


def compared(candidate: Path, base: Path, how: str) -> dict[str, Any]:
    """Return the reading of a pair at each depth."""
    row: dict[str, Any] = {"pair": f"{candidate.name}, {base.name}", "how": how}
    for depth in DEPTHS:
        options = mk.CompareOptions(depth=depth)
        verdict = mk.compare(candidate=str(candidate), base=str(base), options=options).verdict
        row[depth] = {
            "conclusion": verdict.conclusion.value,
            "reading": verdict.reading,
            "log10_p": verdict.log10_p,
            "shared": sorted(name for name, item in verdict.components.items() if item.conclusion.related),
            "untested": sorted(
                name for name, item in verdict.components.items() if item.conclusion.related is None
            ),
        }
    print(row, flush=True)
    return row


def of_kinds(folder: Path) -> Iterator[tuple[dict[str, Any], Path, Path]]:
    """Train several models of each kind at both widths, and yield what to compare."""
    from tests.casework.lab.lookalikes import build, load_kinds, model_of_kind, teacher_of_kinds

    for wide in (False, True):
        teacher = teacher_of_kinds(wide=wide)
        build(teacher, folder)
        for name, kind in load_kinds().items():
            made = [model_of_kind(name, seed, wide=wide) for seed in range(N_OF_KIND)]
            facts = {
                "kind": name,
                "how": kind.how,
                "student": kind.student,
                "width": teacher.name.split("-")[1],
            }
            for recipe in made:
                build(recipe, folder)
                yield facts, folder / recipe.name, folder / teacher.name
            if name in SIBLINGS:
                facts |= {"kind": f"siblings-{name}", "how": f"two of one teacher: {kind.how}"}
                for one, two in combinations(made, 2):
                    yield facts, folder / two.name, folder / one.name


def measured(folder: Path, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Compare the models of all kinds; those that were compared before are taken as they are."""
    known = {row["pair"]: row for row in rows}
    for facts, candidate, base in of_kinds(folder):
        pair = f"{candidate.name}, {base.name}"
        yield known.get(pair) or {**compared(candidate, base, facts["how"]), **facts}


def kinds_table(rows: list[dict[str, Any]]) -> str:
    """Write how often models of each kind are read as students, and how all others are read."""
    lines = [
        "| what it has of the other | width | pairs | `coordinates-so-far` at standard depth | "
        + " | ".join(f"`{reading}`" for reading in COORDINATES)
        + " at deep depth | otherwise at deep depth |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = sorted(rows, key=lambda row: not row["student"])
    for _, group in groupby(rows, key=lambda row: (row["kind"], row["width"])):
        pairs = list(group)
        how = pairs[0]["how"] if pairs[0]["student"] else f"partial copy: {pairs[0]['how']}"
        other = Counter(told(row) for row in pairs if row["deep"]["reading"] not in COORDINATES)
        counts = [n_read(pairs, "standard", "coordinates-so-far")]
        counts += [n_read(pairs, "deep", reading) for reading in COORDINATES]
        lines.append(
            f"| {how} | {pairs[0]['width']} | {len(pairs)} | {' | '.join(map(str, counts))} | "
            f"{'; '.join(f'{n} {what}' for what, n in other.most_common())} |"
        )
    return "\n".join(lines)


def rates(rows: list[dict[str, Any]], versions: dict[str, str]) -> str:
    """Say how many students are named as such at deep depth, and how many partial copies."""
    students = [row for row in rows if row["student"]]
    started = [row for row in rows if row["kind"] == "embedding"]
    copies = [row for row in rows if not row["student"] and row["kind"] != "embedding"]
    only, heads = COORDINATES
    accused = [row for row in students if row["deep"]["reading"] not in COORDINATES]
    lines = [
        f"At deep depth, {n_read(students, 'deep', only)} of {len(students)} pairs with a student are named as "
        f"such, and {n_read(students, 'deep', heads)} as that or a copy of attention that was trained on. "
        f"{n_read(copies, 'deep', only)} of {len(copies)} partial copies are read as the first, and "
        f"{n_read(copies, 'deep', heads)} as the second.",
        f"Of the {len(started)} models that started from the embedding and learned the text, "
        f"{n_read(started, 'deep', only)} have the first reading, which says so.",
    ]
    where = sorted({part for row in accused for part in row["deep"]["shared"]} - STREAM)
    lines.append(f"{len(accused)} pairs with a student were said to share {', '.join(where) or 'layers'}.")
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    return " ".join([*lines, f"Measured by {told}."])


def n_read(rows: list[dict[str, Any]], depth: Depth, reading: str) -> int:
    """Count the rows with a reading."""
    return sum(row[depth]["reading"] == reading for row in rows)


def told(row: dict[str, Any]) -> str:
    """Name what a comparison concluded at deep depth, and in what."""
    deep = row["deep"]
    shared = f" ({', '.join(deep['shared'])})" if deep["reading"] is None and deep["shared"] else ""
    return f"`{deep['reading'] or deep['conclusion']}`{shared}"


def table(rows: list[dict[str, Any]]) -> str:
    """Write rows as a table in Markdown."""
    lines = [
        "| what was done | shared at deep depth | log10 p | reading at standard depth | at deep depth |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        standard, deep = row["standard"], row["deep"]
        p = "" if deep["log10_p"] is None else f"{round(deep['log10_p'])}"
        told = [f"`{side['reading'] or side['conclusion']}`" for side in (standard, deep)]
        lines.append(f"| {row['how']} | {', '.join(deep['shared'])} | {p} | {told[0]} | {told[1]} |")
    return "\n".join(lines)


def main() -> None:
    """Compare, or write the table of what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, help="train the models anew into this folder")
    parser.add_argument("--table", action="store_true", help="write the table from the kept facts")
    parser.add_argument("--kinds", type=Path, help="train students and partial copies here, and compare them")
    chosen = parser.parse_args()
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    if not chosen.table:
        folder = chosen.train or LOOKALIKES
        if chosen.train:
            from tests.casework.lab.lookalikes import build_lookalikes

            build_lookalikes(folder)
        pairs = [(folder, *row) for row in ALIKE] + [(ZOO, *row) for row in PARTIAL]
        facts["pairs"] = [compared(place / mine, place / theirs, how) for place, mine, theirs, how in pairs]
        save(facts)
    if chosen.kinds:
        progress = chosen.kinds / "measured.json"
        rows = json.loads(progress.read_text(encoding="utf-8")) if progress.exists() else []
        facts["kinds"] = []
        for row in measured(chosen.kinds, rows):
            facts["kinds"].append(row)
            progress.write_text(json.dumps(facts["kinds"]), encoding="utf-8")
        facts["versions"] = {
            "rule": load_rule().version,
            **{name: load_cards()[name].version for name in ("head-matching", "own-layers")},
        }
        save(facts)
    put("lookalikes", table(facts["pairs"]))
    text = f"{kinds_table(facts['kinds'])}\n\n{textwrap.fill(rates(facts['kinds'], facts['versions']), 118)}"
    put("kinds of lookalikes", text)


def save(facts: dict[str, Any]) -> None:
    """Keep the facts."""
    FACTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def put(name: str, text: str) -> None:
    """Write a part of the page."""
    page, begin, end = PAGE.read_text(encoding="utf-8"), f"<!-- begin {name} -->", f"<!-- end {name} -->"
    start, stop = page.index(begin) + len(begin), page.index(end)
    PAGE.write_text(f"{page[:start]}\n{text}\n{page[stop:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
