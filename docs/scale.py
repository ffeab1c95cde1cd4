"""Runs rows of `make scale` that this code has not run yet, and writes what came out into ``docs/scale.md``.

``python docs/scale.py --minutes 8`` runs the widest rows first, and stops after that many minutes of CPU time;
the next run resumes there. ``python docs/scale.py`` runs none and writes the page. Measured facts are kept in
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
from tests.comparison.relation import Relation  # noqa: E402
from tests.scale import coordinates, matching  # noqa: E402
from tests.scale.families import rows_at  # noqa: E402
from tests.scale.guards import GUARDS  # noqa: E402
from tests.scale.lifelike import GROWN, SHAPES  # noqa: E402
from tests.scale.record import all_recorded, recorded  # noqa: E402
from tests.scale.relatives import measured_alone  # noqa: E402
from tests.scale.strangers import WANTED, compare_strangers  # noqa: E402

from modelkin.comparison.methods import load_cards  # noqa: E402

PAGE = ROOT / "docs" / "scale.md"
FACTS = ROOT / "docs" / "scale.json"
Row = Mapping[str, Any]
WIDTHS = (96, 256, 512, 1_024, 2_048, 4_096, 5_120)
ELSEWHERE = {
    "adapter-units": "reads adapters that come without their base, and was tried on small ones only",
    "same-names": "is for unknown architectures, and decides nothing",
}
"""Why a method has no cell at all."""


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
        if _is_asked(f"strangers {name}, {depth}", only)
    ]
    for row in relatives_wanted():
        if _is_asked(row.name, only) and recorded("relatives", row.name) is None:
            if time.process_time() > until:
                return
            found = measured_alone(row)
            print(
                row.name,
                found["outcome"],
                found["log10_p"],
                found["problems"],
                found["cpu_seconds"],
                flush=True,
            )
    for item in _searches(only):
        if time.process_time() > until:
            return
        print(*item())
    for name, depth in strangers:
        seen = compare_strangers(name, depth, again=False, until=until)
        print("strangers", name, depth, seen.pairs, seen.accused, seen.cpu_seconds, flush=True)


def _searches(only: Sequence[str]) -> Iterator[Callable[[], tuple[Any, ...]]]:
    """Yield what is missing of strangers for which something is looked for."""

    def told(table: str, made: Row) -> tuple[Any, ...]:
        return table, made["name"], made.get("problems", made.get("smallest_log10_p")), made["cpu_seconds"]

    for name, method in matching.WANTED:
        key = f"{name}, {method}"
        if _is_asked(f"matching {key}", only) and recorded("matching", key) is None:
            yield lambda name=name, method=method: told("matching", matching.compare_searched(name, method))
    for kind in coordinates.KINDS:
        for width in coordinates.SIZES:
            key = f"{kind}, {width:,}"
            if _is_asked(f"coordinates {key}", only) and recorded("coordinates", key) is None:
                yield lambda kind=kind, width=width: told("coordinates", coordinates.measure(kind, width))


def _is_asked(name: str, only: Sequence[str]) -> bool:
    return not only or any(name.startswith(item) for item in only)


# -- telling -------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """Return what is known: what the page had, and what was measured since."""
    known: dict[str, Any] = json.loads(FACTS.read_text()) if FACTS.exists() else {}
    for row in all_recorded():
        key = f"{row['table']}: {row['name']}"
        shorter = row["table"] == "strangers" and row["pairs"] < known.get(key, row)["pairs"]
        if row["table"] in ("relatives", "strangers"):  # how many results each gave is all that is told
            row["methods"] = {name: found["results"] for name, found in row.get("methods", {}).items()}
        if not shorter:  # an interrupted run does not replace a complete one
            known[key] = {name: value for name, value in row.items() if name not in ("scores", "code")}
        elif "methods" not in known[key]:
            known[key]["methods"] = row["methods"]
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


def searched(rows: Sequence[Row]) -> str:
    """Return the table of methods that match, with their first guard off."""
    order = [*matching.WANTED]

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    cells = [
        [
            row["method"],
            row["shape"],
            f"{row['pairs']}",
            f"{row['tests']}",
            number(row["root_mean_square_z"]),
            number(row["largest_z"]),
            f"{10 ** row['smallest_log10_p']:.2g}",
            f"{row['cpu_seconds']:.0f}",
        ]
        for row in sorted(rows, key=lambda row: order.index((row["shape"], row["method"])))
    ]
    columns = (
        "method",
        "shape",
        "pairs",
        "tests",
        "root mean square z",
        "largest \\|z\\|",
        "smallest p",
        "CPU s",
    )
    done = {(row["shape"], row["method"]) for row in rows}
    left = [f"{method} at {shape}" for shape, method in order if (shape, method) not in done]
    return Table([*columns], cells).markdown() + (f"\n\nNot run: {'; '.join(left)}." if left else "")


def taught(rows: Sequence[Row]) -> str:
    """Return the table of strangers in coordinates that they share."""
    found = {(row["kind"], row["width"]): row for row in rows}

    def cell(kind: str, width: int) -> str:
        row = found.get((kind, width))
        if row is None:
            return "not run"
        parts = []
        for method in coordinates.KINDS[kind].tried:
            made = row["methods"][method]
            results = f"{made['results']} results" if made["results"] else "nothing found"
            p = "" if made["smallest"] is None else f", p ≥ {10 ** made['smallest']:.2g}"
            parts.append(f"{method}: {results}{p}")
        return "; ".join([*parts, *row["problems"]])

    columns = ["what strangers share", *(f"{width:,}" for width in coordinates.SIZES)]
    cells = [
        [common.how, *(cell(kind, width) for width in coordinates.SIZES)]
        for kind, common in coordinates.KINDS.items()
    ]
    return Table(columns, cells).markdown()


def methods(known: Mapping[str, Row]) -> str:
    """Return the table of methods by width: results on relatives, and on strangers."""
    counts: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in known.values():
        of = 0 if row["table"] == "relatives" else 1
        if row["table"] == "matching":
            counts[row["method"], SHAPES[row["shape"]].hidden][of] += row["tests"]
        for name, found in row.get("methods", {}).items():
            counts[name, _width_of(row)][of] += found if isinstance(found, int) else found["results"]

    def cell(name: str, width: int) -> str:
        return " / ".join(f"{n:,}" for n in counts[name, width]) if any(counts[name, width]) else "–"

    names = [name for name in load_cards() if name not in ELSEWHERE]
    cells = [[name, *(cell(name, width) for width in WIDTHS)] for name in names]
    ends = [f"`{name}` {why}." for name, why in ELSEWHERE.items()]
    return f"{Table(['method', *(f'{width:,}' for width in WIDTHS)], cells).markdown()}\n\n{' '.join(ends)}"


def _width_of(row: Row) -> int:
    if row["table"] == "relatives":
        return GROWN[row["width"]].width
    return SHAPES[row["shape"]].hidden if row["table"] == "strangers" else int(row["width"])


def guards(rows: Sequence[Row]) -> str:
    """Return the table of guards by width: where they were seen to spring, and where to stay."""
    seen = {(row["guard"], row["width"], row["side"]) for row in rows}
    widths = sorted({row["width"] for row in rows})

    def cell(guard: str, width: int) -> str:
        return ", ".join(side for side in ("springs", "stays") if (guard, width, side) in seen) or "not run"

    cells = [[guard, *(cell(guard, width) for width in widths)] for guard in GUARDS]
    return Table(["guard", *(f"{width:,}" for width in widths)], cells).markdown()


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
    replace_section(PAGE, "methods", f"\n{methods(known)}\n")
    tables = {
        "strangers": strangers,
        "relatives": relatives,
        "matching": searched,
        "coordinates": taught,
        "guards": guards,
    }
    for name, table in tables.items():
        some = [row for row in known.values() if row["table"] == name]
        if some:
            replace_section(PAGE, name, f"\n{table(some)}\n")


if __name__ == "__main__":
    main()
