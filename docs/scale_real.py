"""Compares what was derived from published weights at real width, and writes the results.

``make scale-real``: every row of `tests/scale/real_rows.py` whose weights are here (`make scale-weights`
fetches them), at standard and deep, each in a process of its own. Results are kept in
``.cache/scale_real.jsonl``, so that a stopped run resumes; results of other code are recomputed.
Writes the facts to ``docs/scale_real.json`` and their table into ``docs/scale.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402
from tests.scale.measured import measure, problems  # noqa: E402
from tests.scale.real_rows import DEPTHS, Row, folder_of, models, rows_of  # noqa: E402
from tests.scale.record import code_digest  # noqa: E402

PAGE = ROOT / "docs" / "scale.md"
FACTS = ROOT / "docs" / "scale_real.json"
KEPT = ROOT / ".cache" / "scale_real.jsonl"
BEGIN, END = "<!-- begin: real -->", "<!-- end: real -->"
NAMES = {
    "codellama": "CodeLlama-13B, layers 11 to 14 of 40: 5,120 wide, 13,824 units, 40 heads, bfloat16",
    "tinyllama": "TinyLlama-1.1B, layers 0 to 3 of 22: 2,048 wide, 5,632 units, 32 heads on 4, from IQ2_XXS",
    "smollm2": "SmolLM2-135M, layers 0 to 3 of 30: 576 wide, 1,536 units, 9 heads on 3, from Q4_1",
    "gemma3": "Gemma-3-270M, layers 0 to 3 of 18: 640 wide, 2,048 units, 4 heads on 1, from Q4_K_M",
}
Fact = dict[str, Any]


def jobs() -> list[tuple[str, Row, str]]:
    """Return everything that can be compared with the weights that are here, cheap depths first."""
    found = []
    for model in models():
        for row in rows_of(model):
            try:
                for needed in {model, row.of or model}:
                    folder_of(needed)
            except pytest.skip.Exception as reason:
                print(f"{model} {row.name}: {reason}")
                continue
            found += [(model, row, depth) for depth in DEPTHS]
    return sorted(found, key=lambda job: DEPTHS.index(job[2]))


def key_of(model: str, row: str, depth: str) -> str:
    """Return the key of a stored result."""
    return f"{model}|{row}|{depth}"


def is_stranger(key: str) -> bool:
    """Say whether the candidate of a result shares nothing with the base."""
    model, name, _ = key.split("|")
    return any(row.name == name and not row.expected["deep"].related for row in rows_of(model))


def kept(code: str | None) -> dict[str, Fact]:
    """Read the results of earlier runs: of the same code, or of any, those of the page among them."""
    found: dict[str, Fact] = json.loads(FACTS.read_text()) if code is None and FACTS.exists() else {}
    lines = [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []
    return found | {line["key"]: line for line in lines if code in (None, line["code"])}


def run(only: Sequence[str], *, processes: int, any_code: bool) -> dict[str, Fact]:
    """Compare what is not there yet."""
    code = code_digest()
    facts = kept(None if any_code else code)
    KEPT.parent.mkdir(exist_ok=True)
    missing = [
        job
        for job in jobs()
        if key_of(job[0], job[1].name, job[2]) not in facts
        and (not only or any(key_of(job[0], job[1].name, job[2]).startswith(item) for item in only))
    ]
    with ThreadPoolExecutor(processes) as pool, KEPT.open("a") as file:
        running = {
            pool.submit(measure, model, row.name, depth): (model, row, depth) for model, row, depth in missing
        }
        for future in as_completed(running):
            model, row, depth = running[future]
            found = future.result()
            key = key_of(model, row.name, depth)
            facts[key] = {
                "key": key,
                "code": code,
                "problems": problems(row.expected[depth], found),
                **found,
            }
            file.write(json.dumps(facts[key]) + "\n")
            file.flush()
            print(
                key, found["conclusion"], found["log10_p"], facts[key]["problems"], found["cpu_seconds"], "s"
            )
    return facts


# -- telling -------------------------------------------------------------------------------------------


def table(facts: dict[str, Fact]) -> str:
    """Return the tables of all bases, and their totals."""
    lines = [*_summary(facts)]
    for model in models():
        lines += [
            "",
            f"**{NAMES[model]}**",
            "",
            "| candidate | depth | verdict | log10 p | effect | MB | CPU s | peak MB |",
        ]
        lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for row in rows_of(model):
            lines += _lines(model, row, facts)
    return "\n".join(lines)


def _summary(facts: dict[str, Fact]) -> Iterator[str]:
    wanted = [(model, row, depth) for model in models() for row in rows_of(model) for depth in DEPTHS]
    made = [
        (row, facts[key]) for model, row, depth in wanted if (key := key_of(model, row.name, depth)) in facts
    ]
    wrong = sum(bool(fact["problems"]) for _, fact in made)
    strangers = [fact for row, fact in made if not row.expected["deep"].related]
    accused = sum(bool(fact["related"]) for fact in strangers)
    yield (
        f"{len(made)} of {len(wanted)} comparisons were made; {len(made) - wrong} gave what the truth table "
        f"says. {accused} of {len(strangers)} comparisons of strangers ended in an accusation."
    )
    for row, fact in made:
        if fact["problems"]:
            where, what = fact["key"].replace("|", ", "), "; ".join(fact["problems"])
            yield f"- not as expected: {where} ({row.what}): {what}."


def _lines(model: str, row: Row, facts: dict[str, Fact]) -> Iterator[str]:
    for number, depth in enumerate(DEPTHS):
        what = row.what if number == 0 else ""
        fact = facts.get(key_of(model, row.name, depth))
        if fact is None:
            yield f"| {what} | {depth} | not measured | | | | | |"
            continue
        effect = "" if fact["effect"] is None else f"{fact['effect']:.2f}"
        p = "" if fact["log10_p"] is None else f"{fact['log10_p']:,.0f}"
        peak = "" if fact["peak_mb"] is None else f"{fact['peak_mb']:,}"
        yield (
            f"| {what} | {depth} | {fact['conclusion']} | {p} | {effect} | {fact['bytes'] / 1e6:,.0f} | "
            f"{fact['cpu_seconds']:,.0f} | {peak} |"
        )


def written(page: str, block: str) -> str:
    """Return the page with its block replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def main() -> None:
    """Compare, and write facts and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="beginnings of BASE|ROW|DEPTH")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--any-code", action="store_true", help="take results of other code as well")
    parser.add_argument("--write-only", action="store_true", help="compare nothing")
    chosen = parser.parse_args()
    if chosen.write_only:
        facts = kept(None if chosen.any_code else code_digest())
    else:
        facts = run(chosen.only, processes=chosen.processes, any_code=chosen.any_code)
    expected = {
        key_of(model, row.name, depth): row.expected[depth]
        for model in models()
        for row in rows_of(model)
        for depth in DEPTHS
    }
    chosen_facts = {
        key: {**{k: v for k, v in fact.items() if k != "code"}, "problems": problems(expected[key], fact)}
        for key, fact in sorted(facts.items())
        if key in expected
    }
    FACTS.write_text(json.dumps(chosen_facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), table(chosen_facts)), encoding="utf-8")


if __name__ == "__main__":
    main()
