"""Compares relatives and strangers under disguises at deep depth and writes what came out.

``make disguises``: every row of the truth table (`tests/comparison/relations.py`), every pair of strangers of
one shape, plain and under a random disguise, and a sample of the other strangers. Two processes,
half an hour or so. Each result is kept as a line of ``.cache/disguises.jsonl``, so that a stopped run
resumes where it left off; results of other code are recomputed. Writes the facts to ``docs/disguises.json`` and
their tables into ``docs/disguises.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.comparison.expectations import (  # noqa: E402
    compared,
    compared_strangers,
    kind_of,
    outcome,
    problems,
    shape_of,
)
from tests.comparison.relations import Relation, Strangers, relations, strangers  # noqa: E402

from modelkin import Comparison, __version__  # noqa: E402
from modelkin.comparison.controls import LEAST_AGREEMENT, agreement_score, measured  # noqa: E402
from modelkin.comparison.verdict import load_rule  # noqa: E402

PAGE = ROOT / "docs" / "disguises.md"
FACTS = ROOT / "docs" / "disguises.json"
KEPT = ROOT / ".cache" / "disguises.jsonl"
FEWEST_STRANGERS = 1_000
SEED = 20
_CODE = ("src/modelkin", "tests/comparison")
_NO_CODE = ("document", "cli", "figures")
"""Parts of the package that cannot change a result; tests cannot either."""
OUTCOMES = ("exact", "own-layers", "ranked", "flagged", "missed")

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Job:
    """One comparison: a row of the truth table, or strangers and a disguise (or none)."""

    kind: str
    name: str
    disguise: str = ""

    @property
    def key(self) -> str:
        """Return the key of its stored result."""
        return f"{self.kind}|{self.name}|{self.disguise}"


# -- what is compared ----------------------------------------------------------------------------------


def relation_jobs() -> list[Job]:
    """Return all rows."""
    return [Job("relation", relation.name) for relation in relations()]


def stranger_jobs() -> list[Job]:
    """Return pairs of one shape, plain and disguised, and a sample of the others under a disguise."""
    rng = random.Random(SEED)  # noqa: S311
    pairs = strangers()
    alike = [pair for pair in pairs if shape_of(pair.candidate) == shape_of(pair.base)]
    others = [pair for pair in pairs if shape_of(pair.candidate) != shape_of(pair.base)]
    sampled = rng.sample(others, max(0, FEWEST_STRANGERS - len(alike)))
    jobs = []
    for pair in alike:
        jobs += [Job("strangers", pair.name), Job("strangers", pair.name, rng.choice(pair.disguises()))]
    jobs += [Job("strangers", pair.name, rng.choice(("", *pair.disguises()))) for pair in sampled]
    return jobs


@cache
def _relation(name: str) -> Relation:
    return next(relation for relation in relations() if relation.name == name)


@cache
def _strangers(name: str) -> Strangers:
    return next(pair for pair in strangers() if pair.name == name)


def run(job: Job) -> Row:
    """Make one comparison and keep what the tables need."""
    start = time.process_time()
    if job.kind == "relation":
        relation = _relation(job.name)
        result = compared(relation)
        more = {"problems": problems(relation, result)}
    else:
        result = compared_strangers(
            _strangers(job.name), *([job.disguise] if job.disguise else []), seed=SEED
        )
        more = {"problems": ["strangers were accused"] if result.verdict.related else []}
    return {**_row(job, result), **more, "cpu_seconds": round(time.process_time() - start, 2)}


def _row(job: Job, result: Comparison) -> Row:
    verdict = result.verdict
    return {
        "kind": job.kind,
        "name": job.name,
        "disguise": job.disguise,
        "outcome": outcome(result),
        "conclusion": verdict.conclusion.value,
        "log10_p": None if verdict.log10_p is None else round(verdict.log10_p, 2),
        "components": {name: item.conclusion.value for name, item in verdict.components.items()},
        "layers": [[layer, facing] for layer, facing, _ in result.alignment.layers],
        "residual": result.alignment.residual,
        "units": result.alignment.units,
        "agreement": _agreement(result),
        "rule": str(verdict.rule),
    }


def _agreement(result: Comparison) -> Row | None:
    """Return how much the units agree, and what the largest control pair shows if controls were read."""
    found = measured(result.evidence)
    if not found:
        return None
    rank = found[0].rank
    return {
        "score": round(agreement_score(found), 4),
        "control_pairs": rank.control_pairs if rank else 0,
        "largest_control": rank.largest_control if rank else None,
    }


# -- running, and resuming ------------------------------------------------------------------------------


def code_digest() -> str:
    """Return a digest of everything that can change a result."""
    digest = hashlib.sha256()
    for folder in _CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT / folder).parts
            if inside[0] in _NO_CODE or path.name.startswith("test_"):
                continue
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def kept_rows(jobs: Iterable[Job], code: str | None) -> dict[str, Row]:
    """Read the results of earlier runs, of the same code unless that is None."""
    if not KEPT.exists():
        return {}
    wanted = {job.key for job in jobs}
    rows = (json.loads(line) for line in KEPT.read_text().splitlines())
    return {row["key"]: row for row in rows if row["key"] in wanted and code in (None, row["code"])}


def run_all(jobs: Sequence[Job], *, processes: int, any_code: bool) -> dict[str, Row]:
    """Run what is missing, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    code = code_digest()
    rows = kept_rows(jobs, None if any_code else code)
    KEPT.parent.mkdir(exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar, ProcessPoolExecutor(processes) as pool, KEPT.open("a") as file:
        task = bar.add_task("comparing", total=len(jobs), completed=len(rows))
        running = {pool.submit(run, job): job for job in jobs if job.key not in rows}
        try:
            for future in as_completed(running):
                job = running[future]
                rows[job.key] = {"key": job.key, "code": code, **future.result()}
                file.write(json.dumps(rows[job.key]) + "\n")
                file.flush()
                bar.advance(task)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows


# -- facts ----------------------------------------------------------------------------------------------


def facts_of(rows: Iterable[Row]) -> dict[str, Any]:
    """Summarise the results."""
    held = sorted(rows, key=lambda row: row["key"])
    relatives = [row for row in held if row["kind"] == "relation"]
    others = [row for row in held if row["kind"] == "strangers"]
    return {
        "schema": "modelkin.disguises/1",
        "modelkin": __version__,
        "rules": sorted({row["rule"] for row in held}),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in held)),
        "relations": {
            "rows": len(relations()),
            "compared": len(relatives),
            "right": sum(not row["problems"] for row in relatives),
            "kinds": dict(_by_kind(relatives)),
            "problems": {row["name"]: row["problems"] for row in relatives if row["problems"]},
        },
        "strangers": {
            "pairs": len({row["name"] for row in others}),
            "comparisons": len(others),
            "accused": sorted(
                f"{row['name']} {row['disguise']}".strip() for row in others if row["problems"]
            ),
            "agreement": _agreement_of_strangers(others),
            "kinds": dict(_strangers_by_kind(others)),
        },
    }


def _agreement_of_strangers(rows: Sequence[Row]) -> Row:
    """Summarise what decides where no exact test can: how much strangers agree, and relative to controls."""
    found = [row["agreement"] for row in rows if row["agreement"] is not None]
    ranked = [item for item in found if item["largest_control"] is not None]
    return {
        "measured": len(found),
        "largest": max((item["score"] for item in found), default=None),
        "beside_controls": len(ranked),
        "above_all_controls": sum(item["score"] > item["largest_control"] for item in ranked),
    }


def _by_kind(rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the outcome for each kind of row, in the order of the truth table."""
    made = {row["name"]: row for row in rows}
    kinds: dict[str, list[Relation]] = {}
    for relation in relations():
        if relation.name in made:
            kinds.setdefault(kind_of(relation), []).append(relation)
    for kind, members in kinds.items():
        found = [made[relation.name] for relation in members]
        exact = [row["log10_p"] for row in found if row["outcome"] == "exact" and row["log10_p"] is not None]
        yield (
            kind,
            {
                "how": members[0].how,
                "compared": len(found),
                **{word: sum(row["outcome"] == word for row in found) for word in OUTCOMES},
                "wrong": sum(bool(row["problems"]) for row in found),
                "weakest_log10_p": max(exact, default=None),
            },
        )


def _strangers_by_kind(rows: Sequence[Row]) -> Iterator[tuple[str, dict[str, Row]]]:
    kinds: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        sides = kinds.setdefault(_strangers(row["name"]).kind, {})
        sides.setdefault("disguised" if row["disguise"] else "plain", []).append(row)
    for kind in sorted(kinds):
        yield (
            kind,
            {
                how: {
                    "comparisons": len(found),
                    "accused": sum(bool(row["problems"]) for row in found),
                    "flagged": sum(row["outcome"] == "flagged" for row in found),
                    "not_testable": sum(row["conclusion"] == "not-testable" for row in found),
                    "smallest_log10_p": min(
                        (row["log10_p"] for row in found if row["log10_p"] is not None), default=None
                    ),
                }
                for how, found in sorted(kinds[kind].items(), reverse=True)
            },
        )


# -- tables ---------------------------------------------------------------------------------------------

ALIKE = {
    "twins": "config, data and order of the data",
    "same-config": "config",
    "same-family": "family",
    "other-family": "nothing",
    "distilled": "one learned the other's predictions",
}


def relation_table(facts: dict[str, Any]) -> str:
    """Write the outcome for relatives."""
    part = facts["relations"]
    lines = [
        f"{part['compared']} of {part['rows']} rows were compared; in **{part['right']}** everything is as "
        "it should be: a common origin found where it can be, in the right parts and layers and no others.",
        "",
        "| what was done | rows | exact test | own layers | rank among controls | worth a closer look | missed "
        "| wrong | weakest log10 p of exact tests |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, row in part["kinds"].items():
        counts = [row["compared"], *(row.get(word, 0) for word in OUTCOMES), row["wrong"]]
        weakest = "" if row["weakest_log10_p"] is None else f"{row['weakest_log10_p']:.0f}"
        lines.append(f"| **{kind}.** {row['how']} | {' | '.join(map(str, counts))} | {weakest} |")
    if part["problems"]:
        lines += ["", "What went wrong:", ""]
        lines += [f"- {name}: {'; '.join(found)}" for name, found in part["problems"].items()]
    return "\n".join(lines)


def stranger_table(facts: dict[str, Any]) -> str:
    """Write the outcome for strangers."""
    part = facts["strangers"]
    lines = [
        f"{part['comparisons']} comparisons of {part['pairs']} pairs of models that share no weight: "
        f"**{len(part['accused'])} false accusations**. Many pairs have a model in common, so they are "
        "not as many independent samples.",
        "",
        "| what they have in common | candidate | comparisons | accused | worth a closer look | not testable "
        "| smallest p |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, sides in part["kinds"].items():
        for how, row in sides.items():
            counts = [row[key] for key in ("comparisons", "accused", "flagged", "not_testable")]
            smallest = row["smallest_log10_p"]
            p = "" if smallest is None else f"{10**smallest:.1e}"
            lines.append(f"| {ALIKE[kind]} | {how} | {' | '.join(map(str, counts))} | {p} |")
    lines += [f"- accused: {name}" for name in part["accused"]]
    seen = part["agreement"]
    if seen["measured"]:
        lines += [
            "",
            "Agreement of units, which decides where no exact test can, was measured in "
            f"{seen['measured']} of them: {seen['largest']:.1%} at most, where the rule asks for more than "
            f"{load_rule().agreement['floor']:.0%}. The {seen['beside_controls']} with more than "
            f"{LEAST_AGREEMENT:.0%} were compared with controls; {seen['above_all_controls']} of these were "
            "above all control pairs, which is not enough by itself.",
        ]
    return "\n".join(lines)


def rendered(text: str, facts: dict[str, Any]) -> str:
    """Put the tables between their markers."""
    for name, content in (("relations", relation_table(facts)), ("strangers", stranger_table(facts))):
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"no markers for {name!r}")
        text = f"{before}{begin}\n{content}\n{end}{after}"
    return text


def main() -> int:
    """Compare, summarise, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--relations", type=int, help="only so many rows, drawn by chance")
    parser.add_argument(
        "--strangers", type=int, help="only so many comparisons of strangers, drawn by chance"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--any-code", action="store_true", help="take kept results of other code as well")
    given = parser.parse_args()
    jobs = []
    for all_jobs, most in ((relation_jobs(), given.relations), (stranger_jobs(), given.strangers)):
        drawn = all_jobs if most is None else random.Random(SEED).sample(all_jobs, most)  # noqa: S311
        jobs += drawn
    rows = run_all(jobs, processes=given.processes, any_code=given.any_code)
    facts = facts_of(rows[job.key] for job in jobs)
    FACTS.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(rendered(PAGE.read_text(), facts))
    wrong = {row["name"]: row["problems"] for row in rows.values() if row["problems"]}
    for name, found in wrong.items():
        print(f"{name}: {'; '.join(found)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
