"""Writes what `make scale` measured into ``docs/scale.md``."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.tables import Table, replace_section  # noqa: E402
from tests.scale.lifelike import SHAPES  # noqa: E402
from tests.scale.record import RECORDS  # noqa: E402

PAGE = ROOT / "docs" / "scale.md"
Row = Mapping[str, Any]


def strangers(rows: Sequence[Row]) -> str:
    """Return the table of unrelated models."""
    order = [*SHAPES]
    cells = [
        [
            row["shape"],
            row["depth"],
            f"{row['pairs']:,}",
            f"{row['accused']}",
            f"{row['not_testable']}",
            f"{row['tests']:,}",
            f"{row['root_mean_square_z']:.3f}",
            f"{row['largest_z']:.2f}",
            f"{10 ** row['smallest_log10_p']:.1e}",
            f"{row['cpu_seconds'] / row['pairs']:.1f}",
        ]
        for row in sorted(rows, key=lambda row: (row["depth"] != "standard", order.index(row["shape"])))
    ]
    pairs, accused = (sum(row[key] for row in rows) for key in ("pairs", "accused"))
    columns = [
        *("shape", "depth", "pairs", "accused", "not testable", "tests"),
        *("root mean square z", "largest \\|z\\|", "smallest p", "CPU s a pair"),
    ]
    return f"{pairs:,} comparisons: **{accused} accused**.\n\n{Table(columns, cells).markdown()}"


def relatives(rows: Sequence[Row]) -> str:
    """Return the table of relatives."""
    widths: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        widths[row["width"]].append(row)

    def count(some: Iterable[Row], what: Callable[[Row], bool]) -> str:
        return f"{sum(map(what, some))}"

    cells = [
        [
            width,
            f"{len(some)}",
            count(some, lambda row: row["outcome"] == "exact"),
            count(some, lambda row: row["outcome"] == "own-layers"),
            count(some, lambda row: row["outcome"] in ("flagged", "missed")),
            count(some, lambda row: bool(row["problems"])),
            f"{max(row['log10_p'] for row in some if row['outcome'] == 'exact'):.0f}",
            f"{sum(row['cpu_seconds'] for row in some) / len(some):.0f}",
        ]
        for width, some in sorted(widths.items(), key=lambda item: int(item[0].split()[-1].replace(",", "")))
    ]
    columns = [
        *("width", "rows", "exact test", "own layers", "missed", "wrong"),
        *("weakest log10 p of exact tests", "CPU s a row, with making it"),
    ]
    return Table(columns, cells).markdown()


def main() -> None:
    """Read what was kept and write the tables of what is there."""
    rows = [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]
    for name, table in (("strangers", strangers), ("relatives", relatives)):
        some = [row for row in rows if row["table"] == name]
        if some:
            replace_section(PAGE, name, f"\n{table(some)}\n")


if __name__ == "__main__":
    main()
