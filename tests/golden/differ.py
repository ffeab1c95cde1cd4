"""Compare two folders that `freeze` wrote: ``python -m tests.golden.differ BEFORE AFTER [--show N]``.

Added keys are not a difference; everything else is, including a file that one side lacks. Where texts differ,
the lines that differ are shown. Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OF_THE_MACHINE = {"etag"}
"""A file of this machine has its time in it."""


def differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, what differs)."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in _OF_THE_MACHINE:
                continue
            if key in after:
                yield from differences(value, after[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}", "gone"
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield place, f"{len(before)} items, now {len(after)}"
        for number, (one, two) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, two, f"{place}[{number}]")
    elif before != after:
        yield place, _shown(before, after)


def _shown(before: Any, after: Any) -> str:
    if isinstance(before, str) and isinstance(after, str) and ("\n" in before or len(before) > 200):
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        return "\n".join(line[:300] for line in lines if not line.startswith(("---", "+++", "@@")))
    return f"- {before!r}\n+ {after!r}"


def main() -> None:
    """Print what differs, file by file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--show", type=int, default=5, help="differences shown of each file")
    wanted = parser.parse_args()
    seen: Counter[str] = Counter()
    names = {
        path.relative_to(side) for side in (wanted.before, wanted.after) for path in side.rglob("*.json")
    }
    for name in sorted(names):
        old, new = wanted.before / name, wanted.after / name
        if not (old.exists() and new.exists()):
            seen["only after" if new.exists() else "only before"] += 1
            continue
        found = list(differences(json.loads(old.read_text()), json.loads(new.read_text())))
        seen["differ" if found else "equal"] += 1
        if found:
            print(f"== {name}: {len(found)} differences")
        for place, what in found[: wanted.show]:
            print(f"  {place}\n    " + what.replace("\n", "\n    "))
    print(", ".join(f"{n} {word}" for word, n in seen.items()))
    sys.exit(seen["equal"] != len(names))


if __name__ == "__main__":
    main()
