"""Changes every family of the zoo in every way and writes what was said about it: ``make kinds``, some minutes.

Writes ``docs/kinds.json``, one fact for each row, and the tables of ``docs/relations.md``. With names of families as
arguments only those are run again; the others keep their facts. ``held-out`` runs the rows that no border was chosen on
(``docs/kinds_held_out.json``; those of width 4,096 take 4 GB), ``held-out NAME ...`` those whose names begin with it;
``page`` only writes the tables.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.comparison.kinds import AFTER, KindRow, kind_rows  # noqa: E402
from tests.comparison.kinds_held_out import HeldOutRow, held_out_rows  # noqa: E402

from modelkin import CompareOptions, FetchOptions, compare  # noqa: E402
from modelkin.source import MemorySource  # noqa: E402

PAGE = ROOT / "docs" / "relations.md"
FACTS = ROOT / "docs" / "kinds.json"
HELD_OUT = ROOT / "docs" / "kinds_held_out.json"
_DEEP = ("depth-change", "width-change", "moe-upcycling")


def run(name: str) -> dict[str, object]:
    """Compare the models of one row."""
    row = next(row for row in kind_rows() if row.name == name)
    deep = row.after in ("permuted", "rotated") or row.kind in _DEEP
    result = compare(
        candidate=MemorySource(row.make().files("F32"), name="candidate"),
        base=MemorySource(row.base().files("F32"), name="base"),
        options=CompareOptions(depth="deep" if deep else "standard", fetch=FetchOptions(use_store=False)),
    )
    return {
        "name": name,
        "kind": result.relation.kind,
        "findings": [item.kind for item in result.relation.findings],
        "conclusion": result.verdict.conclusion.value,
    }


def run_held_out(name: str) -> dict[str, object]:
    """Compare the models of one row that was held out."""
    row = next(row for row in held_out_rows() if row.name == name)
    result = compare(
        candidate=MemorySource(row.make().files(row.stored[0]), name="candidate"),
        base=MemorySource(row.base().files(row.stored[1]), name="base"),
        options=CompareOptions(depth="deep" if row.deep else "standard", fetch=FetchOptions(use_store=False)),
    )
    told = {item.kind: item.numbers for item in result.relation.findings}
    wrong = [
        f"{key} {told.get(finding, {}).get(key, 'not told')} instead of {value}"
        for finding, numbers in row.numbers.items()
        for key, value in numbers.items()
        if told.get(finding, {}).get(key) != value
    ]
    return {
        "name": name,
        "kind": result.relation.kind,
        "missing": sorted(row.findings - set(told)),
        "wrong": wrong,
        "conclusion": result.verdict.conclusion.value,
    }


def is_right(row: KindRow, fact: dict[str, object]) -> bool:
    """Say whether the kind and all required findings were reported."""
    findings = fact["findings"]
    assert isinstance(findings, list)
    return fact["kind"] == row.kind and row.findings <= {*findings}


def confusion(facts: dict[str, dict[str, object]]) -> str:
    """Write how often each true kind was given each name."""
    rows = [row for row in kind_rows() if row.name in facts]
    said = Counter((row.kind, str(facts[row.name]["kind"])) for row in rows)
    kinds = sorted({kind for kind, _ in said})
    names = sorted({kind for _, kind in said})
    lines = [
        "| true kind | pairs | " + " | ".join(names) + " | right |",
        "| --- | ---: |" + " ---: |" * (len(names) + 1),
    ]
    for kind in kinds:
        total = sum(said[kind, name] for name in names)
        cells = [str(said[kind, name]) if said[kind, name] else "" for name in names]
        lines.append(f"| {kind} | {total} | {' | '.join(cells)} | {said[kind, kind] / total:.1%} |")
    right = sum(count for (kind, name), count in said.items() if kind == name)
    told = sum(is_right(row, facts[row.name]) for row in rows)
    lines += [
        "",
        f"{len(rows)} pairs: the kind is right in **{right / len(rows):.1%}**, kind and findings in "
        f"{told / len(rows):.1%}.",
    ]
    return "\n".join(lines)


def by_storage(facts: dict[str, dict[str, object]]) -> str:
    """Write the same by what was done to the models afterwards."""
    words = {"": "as made", "bf16": "then BF16", "int8": "then int8", "permuted": "then renumbered"}
    words["rotated"] = "then rotated"
    lines = ["| | pairs | kind right | kind and findings right |", "| --- | ---: | ---: | ---: |"]
    for after in AFTER:
        rows = [row for row in kind_rows() if row.after == after and row.name in facts]
        if not rows:
            continue
        kind = sum(facts[row.name]["kind"] == row.kind for row in rows)
        told = sum(is_right(row, facts[row.name]) for row in rows)
        lines.append(f"| {words[after]} | {len(rows)} | {kind / len(rows):.1%} | {told / len(rows):.1%} |")
    return "\n".join(lines)


def mistakes(facts: dict[str, dict[str, object]]) -> str:
    """List every pair that was judged differently."""
    lines = ["| pair | true kind | said | verdict |", "| --- | --- | --- | --- |"]
    for row in kind_rows():
        fact = facts.get(row.name)
        if fact is not None and not is_right(row, fact):
            findings = fact["findings"]
            assert isinstance(findings, list)
            missing = sorted(row.findings - {*findings}) if fact["kind"] == row.kind else []
            said = f"{fact['kind']}, without {', '.join(missing)}" if missing else str(fact["kind"])
            lines.append(f"| {row.name} | {row.kind} | {said} | {fact['conclusion']} |")
    return "\n".join(lines) if len(lines) > 2 else "None."


def held_out(_: dict[str, dict[str, object]]) -> str:
    """Write how often the kind of rows that were held out is right, and what is wrong with the others."""
    facts = {fact["name"]: fact for fact in json.loads(HELD_OUT.read_text())}
    rows = [row for row in held_out_rows() if row.name in facts]
    lines = ["| true kind | pairs | kind right | numbers right, too |", "| --- | ---: | ---: | ---: |"]

    def line(name: str, of: list[HeldOutRow]) -> str:
        kind = sum(facts[row.name]["kind"] == row.kind for row in of)
        told = sum(
            facts[row.name]["kind"] == row.kind
            and not facts[row.name]["missing"]
            and not facts[row.name]["wrong"]
            for row in of
        )
        return f"| {name} | {len(of)} | {kind / len(of):.1%} | {told / len(of):.1%} |"

    for kind in sorted({row.kind for row in rows}):
        lines.append(line(kind, [row for row in rows if row.kind == kind]))
    lines += [line("all", rows), "", "| pair | true kind | said | wrong |", "| --- | --- | --- | --- |"]
    for row in rows:
        fact = facts[row.name]
        wrong = [*(f"no finding {name}" for name in fact["missing"]), *fact["wrong"]]
        if fact["kind"] != row.kind or wrong:
            lines.append(f"| {row.name} | {row.kind} | {fact['kind']} | {'; '.join(wrong)} |")
    return "\n".join(lines)


PARTS = {"confusion": confusion, "storage": by_storage, "mistakes": mistakes, "held-out": held_out}


def rendered(text: str, facts: dict[str, dict[str, object]]) -> str:
    """Return the page with its tables made of the facts."""
    for name, make in PARTS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if pattern.search(text) is None:
            raise ValueError(f"no markers for {name!r}")
        made = make(facts)
        text = pattern.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text)  # type: ignore[misc]
    return text


def main() -> None:
    """Run the rows that were asked for and write facts and page."""
    families = sys.argv[1:]
    if families[:1] == ["held-out"]:
        _run_held_out(tuple(families[1:]))
        families = ["page"]
    facts = {fact["name"]: fact for fact in json.loads(FACTS.read_text())} if FACTS.exists() else {}
    names = [row.name for row in kind_rows() if not families or row.name.partition(":")[0] in families]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, fact in enumerate(pool.map(run, names), start=1):
            facts[str(fact["name"])] = fact
            if done % 20 == 0 or done == len(names):
                kept = [facts[row.name] for row in kind_rows() if row.name in facts]
                FACTS.write_text(json.dumps(kept, indent=1) + "\n")
                print(f"{done} of {len(names)}", file=sys.stderr)
    PAGE.write_text(rendered(PAGE.read_text(), facts))


def _run_held_out(begin: tuple[str, ...]) -> None:
    facts = {fact["name"]: fact for fact in json.loads(HELD_OUT.read_text())} if HELD_OUT.exists() else {}
    names = [row.name for row in held_out_rows() if not begin or row.name.startswith(begin)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for fact in pool.map(run_held_out, names):
            facts[str(fact["name"])] = fact
            kept = [facts[row.name] for row in held_out_rows() if row.name in facts]
            HELD_OUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
