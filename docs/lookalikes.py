"""Compares models that look related and are not, as well as partial copies, and writes the readings.

``make lookalikes``: the kept models of ``tests/lookalikes`` and partial copies of the zoo, at standard and
deep depth; some minutes. ``--train DIR`` trains the lookalikes anew first (needs the extra ``lab``) and reads
them from there. Writes the facts to ``docs/lookalikes.json`` and their table into ``docs/verdicts.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.places import LOOKALIKES, ZOO  # noqa: E402

import modelkin as mk  # noqa: E402
from modelkin.options import Depth  # noqa: E402

PAGE, FACTS = ROOT / "docs" / "verdicts.md", ROOT / "docs" / "lookalikes.json"
BEGIN, END = "<!-- begin lookalikes -->", "<!-- end lookalikes -->"
DEPTHS: tuple[Depth, ...] = ("standard", "deep")
ALIKE = [
    ("masked-2", "masked-1", "trained under the same mask"),
    ("begun-2", "begun-1", "begun from the same public matrix"),
    ("student-last", "teacher", "student of the last hidden states"),
    ("student-all", "teacher", "student of all hidden states"),
    ("student-sibling", "teacher", "student of all hidden states, other text"),
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
        }
    print(row, flush=True)
    return row


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
    chosen = parser.parse_args()
    if not chosen.table:
        folder = chosen.train or LOOKALIKES
        if chosen.train:
            from tests.casework.lab.lookalikes import build_lookalikes

            build_lookalikes(folder)
        pairs = [(folder, *row) for row in ALIKE] + [(ZOO, *row) for row in PARTIAL]
        rows = [compared(place / mine, place / theirs, how) for place, mine, theirs, how in pairs]
        FACTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    rows = json.loads(FACTS.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(f"{page[:start]}\n{table(rows)}\n{page[stop:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
