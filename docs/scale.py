"""Runs rows of `make scale` that this code has not run yet, and writes what came out into ``docs/scale.md``.

``python docs/scale.py --minutes 8`` runs the widest rows first, and stops after that many minutes of CPU time; the
next run resumes there. ``python docs/scale.py`` runs none and writes the page. Measured facts are kept in
``docs/scale.json``; the page says which rows have not been run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.tables import Table, replace_section  # noqa: E402
from tests.comparison.relation import Relation, forget_built  # noqa: E402
from tests.scale.families import rows_at  # noqa: E402
from tests.scale.lifelike import GROWN, SHAPES  # noqa: E402
from tests.scale.record import all_recorded, recorded  # noqa: E402
from tests.scale.relatives import measure  # noqa: E402
from tests.scale.strangers import WANTED, compare_strangers  # noqa: E402

PAGE = ROOT / "docs" / "scale.md"
FACTS = ROOT / "docs" / "scale.json"
Row = Mapping[str, Any]


# -- running -------------------------------------------------------------------------------------------


def relatives_wanted() -> list[Relation]:
    """Return all rows, the widest first."""
    return [
        row for key in sorted(GROWN, key=lambda key: GROWN[key].width, reverse=True) for row in rows_at(key)
    ]


def run(minutes: float, only: Sequence[str]) -> None:
    """Run what is missing until the time is up; `only` gives prefixes of rows or shapes."""
    until = time.process_time() + 60 * minutes
    strangers = [
        (name, depth)
        for name, depth in sorted(WANTED, key=lambda item: list(SHAPES).index(item[0]), reverse=True)
        if not only or any(f"strangers {name}, {depth}".startswith(item) for item in only)
    ]
    for row in relatives_wanted():
        asked = not only or any(row.name.startswith(item) for item in only)
        if asked and recorded("relatives", row.name) is None:
            if time.process_time() > until:
                return
            found = measure(row)
            print(
                row.name,
                found["outcome"],
                found["log10_p"],
                found["problems"],
                found["cpu_seconds"],
                flush=True,
            )
            forget_built()  # at the widths of large models each is gigabytes
    for name, depth in strangers:
        seen = compare_strangers(name, depth, again=False, until=until)
        print("strangers", name, depth, seen.pairs, seen.accused, seen.cpu_seconds, flush=True)


# -- telling -------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """Return what is known: what the page had, and what was measured since."""
    known: dict[str, Any] = json.loads(FACTS.read_text()) if FACTS.exists() else {}
    for row in all_recorded():
        key = f"{row['table']}: {row['name']}"
        shorter = row["table"] == "strangers" and row["pairs"] < known.get(key, row)["pairs"]
        if not shorter:  # an interrupted run does not replace a complete one
            known[key] = {name: value for name, value in row.items() if name not in ("scores", "code")}
    return dict(sorted(known.items()))


def strangers(rows: Sequence[Row]) -> str:
    """Return the table of unrelated models."""
    order = [*SHAPES]
    cells = [
        [
            row["shape"],
            row["depth"],
            f"{row['pairs']:,} of {WANTED[row['shape'], row['depth']]:,}",
            f"{len(row['accused'])}",
            f"{row['not_testable']}",
            f"{row['tests']:,}",
            f"{row['root_mean_square_z']:.3f}",
            f"{row['largest_z']:.2f}",
            f"{10 ** row['smallest_log10_p']:.1e}",
            f"{row['cpu_seconds'] / row['pairs']:.1f}",
        ]
        for row in sorted(rows, key=lambda row: (row["depth"] != "standard", order.index(row["shape"])))
    ]
    pairs, accused = sum(row["pairs"] for row in rows), sum(len(row["accused"]) for row in rows)
    columns = [
        *("shape", "depth", "pairs", "accused", "not testable", "tests"),
        *("root mean square z", "largest \\|z\\|", "smallest p", "CPU s a pair"),
    ]
    run_so_far = {(row["shape"], row["depth"]) for row in rows}
    left = [
        f"{name} ({depth}, {n})" for (name, depth), n in WANTED.items() if (name, depth) not in run_so_far
    ]
    end = f"\n\nNot run: {'; '.join(left)}." if left else ""
    return (
        f"{pairs:,} of {sum(WANTED.values()):,} comparisons: **{accused} accused**.\n\n"
        f"{Table(columns, cells).markdown()}{end}"
    )


def relatives(rows: Sequence[Row]) -> str:
    """Return the table of relatives."""
    sizes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        sizes[row["width"]].append(row)

    def count(some: Iterable[Row], what: Callable[[Row], bool]) -> str:
        return f"{sum(map(what, some))}"

    cells = [
        [
            key,
            f"{len(some)} of {len(rows_at(key))}",
            count(some, lambda row: row["outcome"] == "exact"),
            count(some, lambda row: row["outcome"] == "own-layers"),
            count(some, lambda row: row["outcome"] in ("flagged", "missed")),
            count(some, lambda row: bool(row["problems"])),
            f"{max((row['log10_p'] for row in some if row['outcome'] == 'exact'), default=math.nan):.0f}",
            f"{sum(row['making_seconds'] for row in some) / len(some):.0f}",
            f"{sum(row['cpu_seconds'] - row['making_seconds'] for row in some) / len(some):.0f}",
        ]
        for key, some in sorted(sizes.items(), key=lambda item: list(GROWN).index(item[0]))
    ]
    columns = [
        *("size", "rows", "exact test", "own layers", "missed", "wrong"),
        *("weakest log10 p of exact tests", "CPU s to make a row", "CPU s to compare it"),
    ]
    return "\n".join([Table(columns, cells).markdown(), *_wrong(rows), *_not_run(rows)])


def _wrong(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["problems"]:
            yield f"\nNot as it should be: {row['name']}: {'; '.join(row['problems'])}."


def _not_run(rows: Sequence[Row]) -> Iterator[str]:
    done = {row["name"] for row in rows}
    for key in GROWN:
        left = [row.name.partition(": ")[2] for row in rows_at(key) if row.name not in done]
        if left:
            which = "; ".join(left) if len(left) < len(rows_at(key)) else f"all {len(left)} rows"
            yield f"\nNot run at {key}: {which}."


def main() -> None:
    """Run for some minutes, and write facts and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", help="beginnings of the names of rows, or of 'strangers SHAPE, DEPTH'"
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="of CPU, for rows that are missing")
    chosen = parser.parse_args()
    if chosen.minutes:
        run(chosen.minutes, chosen.only)
    known = facts()
    FACTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name, table in (("strangers", strangers), ("relatives", relatives)):
        some = [row for row in known.values() if row["table"] == name]
        if some:
            replace_section(PAGE, name, f"\n{table(some)}\n")


if __name__ == "__main__":
    main()
