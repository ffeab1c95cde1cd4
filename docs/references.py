"""Runs published methods and ours on relatives and strangers of the zoo, and writes the results.

``make references``: of every kind of row of the truth table (`tests/comparison/relations.py`) at most three, of
other families where there are some; 80 pairs of strangers of one shape, and half of those again under a disguise.
Two processes, an hour or so. Each result is kept as a line of ``.cache/references.jsonl``, so that a stopped run
goes on where it was. Writes the facts to ``docs/reference.json`` and their tables into ``docs/reference.md``.

``--part weights`` and ``--part running`` ask only methods that read weights (ours among them), or only those that
run models (they need the extra ``repr``); the facts of the others stay.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.comparison.expectations import controls_of, kind_of, shape_of  # noqa: E402
from tests.comparison.relations import FAMILIES, relations, strangers  # noqa: E402
from tests.places import ZOO  # noqa: E402

import modelkin as mk  # noqa: E402
from modelkin import MemorySource, __version__  # noqa: E402
from modelkin.casework.lab.checkpoint import Checkpoint  # noqa: E402
from modelkin.model import Model  # noqa: E402
from modelkin.reference import RunMemory, each_reference_score, load_reference_cards  # noqa: E402
from modelkin.reference.running import shipped_prompts  # noqa: E402

PAGE = ROOT / "docs" / "reference.md"
FACTS = ROOT / "docs" / "reference.json"
KEPT = ROOT / ".cache" / "references.jsonl"
SEED = 13
ROWS_OF_A_KIND = 3
STRANGERS = 80
FEWEST_STRANGERS = 20
"""Of a family, for a threshold of its own; other families take that of all strangers."""
OURS = ("modelkin standard", "modelkin deep")
PARTS = ("weights", "running")
N_PROMPTS = 40
"""Every fifth of those that come with the package: models of four layers answer all of them alike."""
FETCH = mk.FetchOptions(use_store=False)

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Job:
    """One pair: a row of the truth table, or strangers and a disguise (or none); and what is asked about it."""

    kind: str
    name: str
    disguise: str = ""
    part: str = PARTS[0]

    @property
    def key(self) -> str:
        """Return the key of its stored result."""
        return f"{self.kind}|{self.name}|{self.disguise}|{self.part}"


def jobs() -> list[Job]:
    """Return some rows of every kind, strangers of one shape, and every second of these under a disguise."""
    rng = random.Random(SEED)  # noqa: S311
    by_kind: dict[str, list[Any]] = {}
    for relation in relations():
        by_kind.setdefault(kind_of(relation), []).append(relation)
    found = []
    for rows in by_kind.values():
        chosen = {row.family: row for row in reversed(rows)}.values()
        rest = [row for row in rows if row not in chosen]
        found += [Job("relation", row.name) for row in [*reversed(chosen), *rest][:ROWS_OF_A_KIND]]
    for place, pair in enumerate(rng.sample(_alike(), STRANGERS)):
        found.append(Job("strangers", pair.name))
        if place % 2:
            found.append(Job("strangers", pair.name, rng.choice(pair.disguises())))
    return found


@cache
def _alike() -> list[Any]:
    return [pair for pair in strangers() if shape_of(pair.candidate) == shape_of(pair.base)]


def run(job: Job) -> Row:
    """Run all methods on one pair."""
    if job.kind == "relation":
        relation = next(item for item in relations() if item.name == job.name)
        models, group = (relation.candidate(), relation.base()), kind_of(relation)
        family = FAMILIES[relation.family]
        controls = controls_of(family.base, family.stranger)
    else:
        pair = next(item for item in _alike() if item.name == job.name)
        models = pair.models(*([job.disguise] if job.disguise else []), seed=SEED)
        group = f"strangers: {pair.kind}" + (", disguised" if job.disguise else "")
        controls = controls_of(pair.base, pair.candidate)
    return {
        "key": job.key,
        "version": _version(job.part),
        "group": group,
        "related": job.kind == "relation",
        "family": models[1].family,
        "methods": _answers(*models) if job.part == "weights" else _run_answers(*models, controls),
    }


def _sources(candidate: Checkpoint, base: Checkpoint) -> list[MemorySource]:
    named = ((candidate, "candidate"), (base, "base"))
    return [MemorySource(model.files("F32"), name=name) for model, name in named]


def _run_answers(candidate: Checkpoint, base: Checkpoint, controls: Sequence[str]) -> dict[str, Row]:
    """Ask methods that run models; behaviour is ranked among models of other lineages."""
    cards = load_reference_cards()
    names = tuple(name for name, card in cards.items() if card.needs == "running")
    prompts = shipped_prompts()[:: len(shipped_prompts()) // N_PROMPTS]
    asked = mk.ReferenceOptions(methods=names, byte_limit=None, prompts=prompts)
    found: dict[str, Row] = {}
    with ExitStack() as stack:
        mine, theirs = (stack.enter_context(mk.open_model(item)) for item in _sources(candidate, base))
        others = [_control(name) for name in controls]
        for score in each_reference_score(mine, theirs, asked, controls=others, of_controls=_controls_seen()):
            found[score.method] = _told(score)
            if "p" in score.details:
                # First of all: no control agrees as much with the base.
                found[score.method]["first"] = score.details["p"] * (score.details["controls"] + 1) < 1.5
                found[score.method]["controls"] = int(score.details["controls"])
    return found


@cache
def _control(name: str) -> Model:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(mk.open_model(str(ZOO / name)))


@cache
def _controls_seen() -> RunMemory:
    return RunMemory()


def _told(score: mk.ReferenceScore) -> Row:
    return {
        "says": None if score.says is None else score.says == "related",
        "score": None if score.score is None else round(score.score, 6),
        "seconds": round(score.seconds, 3),
    }


def _answers(candidate: Checkpoint, base: Checkpoint) -> dict[str, Row]:
    sources = _sources(candidate, base)
    found: dict[str, Row] = {}
    for depth in ("standard", "deep"):
        begun = time.process_time()
        options = mk.CompareOptions(depth=depth, fetch=FETCH)  # type: ignore[arg-type]
        result = mk.compare(candidate=sources[0], base=sources[1], options=options)
        found[f"modelkin {depth}"] = {
            "says": result.verdict.related,
            "score": None if result.verdict.log10_p is None else round(-result.verdict.log10_p, 3),
            "seconds": round(time.process_time() - begun, 3),
        }
    for score in mk.reference_scores(
        sources[0], sources[1], mk.ReferenceOptions(byte_limit=None), fetch=FETCH
    ):
        found[score.method] = _told(score)
    return found


@cache
def _version(part: str) -> str:
    cards = load_reference_cards().values()
    return f"{__version__} " + " ".join(f"{card.name}:{card.version}" for card in cards if card.needs == part)


# -- running, and resuming ------------------------------------------------------------------------------


def run_all(wanted: Sequence[Job], *, processes: int) -> list[Row]:
    """Run what is not there yet."""
    kept: dict[str, Row] = {}
    if KEPT.exists():
        for line in KEPT.read_text().splitlines():
            row = json.loads(line)
            if row["version"] == _version(row["key"].rpartition("|")[2]):
                kept[row["key"]] = row
    KEPT.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(processes) as pool, KEPT.open("a") as file:
        running = {pool.submit(run, job): job for job in wanted if job.key not in kept}
        for future in as_completed(running):
            row = future.result()
            kept[row["key"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
            if len(kept) % 50 == 0:
                print(f"{len(kept)} of {len(wanted)} pairs", file=sys.stderr, flush=True)
    return [kept[job.key] for job in wanted]


# -- facts ----------------------------------------------------------------------------------------------


def facts_of(rows: Iterable[Row]) -> Row:
    """Summarise: hits above every stranger of the base's family, hits and false accusations at own levels."""
    held = sorted(rows, key=lambda row: row["key"])
    methods = list(held[0]["methods"])
    highest = _thresholds([row for row in held if not row["related"]], methods)
    groups: dict[str, Row] = {}
    for row in held:
        group = groups.setdefault(
            row["group"],
            {"related": row["related"], "pairs": 0, "methods": {name: _nothing() for name in methods}},
        )
        group["pairs"] += 1
        for name in methods:
            answer, counted = row["methods"][name], group["methods"][name]
            counted["scored"] += answer["score"] is not None
            counted["at_level"] += answer["says"] is True
            least = highest.get((name, row["family"]), highest.get((name, ""), float("inf")))
            counted["above"] += answer["score"] is not None and answer["score"] > least
            if "first" in answer:
                counted["first"] = counted.get("first", 0) + answer["first"]
                counted["by_chance"] = round(counted.get("by_chance", 0.0) + 1 / (answer["controls"] + 1), 3)
    return {
        "schema": "modelkin.references/1",
        "modelkin": __version__,
        "pairs": {
            "relatives": sum(row["related"] for row in held),
            "strangers": sum(not row["related"] for row in held),
        },
        "has_level": {
            name: any(row["methods"][name]["says"] is not None for row in held) for name in methods
        },
        "groups": groups,
    }


def merged(facts: Iterable[Row]) -> Row:
    """Put the facts of several parts together: the same pairs, other methods."""
    first, *others = facts
    for other in others:
        if other["pairs"] != first["pairs"] or other["groups"].keys() != first["groups"].keys():
            raise ValueError("the parts are of other pairs: run both")
        first["has_level"] |= other["has_level"]
        for name, group in other["groups"].items():
            first["groups"][name]["methods"] |= group["methods"]
    return first


def _part(facts: Row, part: str) -> Row:
    """Return the facts of one part alone."""
    cards = load_reference_cards()
    names = [
        name for name in facts["has_level"] if (cards[name].needs if name in cards else "weights") == part
    ]
    groups = {
        group: {**row, "methods": {name: row["methods"][name] for name in names}}
        for group, row in facts["groups"].items()
    }
    levels = {name: facts["has_level"][name] for name in names}
    return {**facts, "has_level": levels, "groups": groups}


def _thresholds(strangers: list[Row], methods: list[str]) -> dict[tuple[str, str], float]:
    """Return the highest score of strangers: of each family of which there are enough, and of all (no name)."""
    by_family: dict[str, list[Row]] = {"": strangers}
    for row in strangers:
        by_family.setdefault(row["family"], []).append(row)
    return {
        (name, family): max(scores)
        for family, rows in by_family.items()
        if len(rows) >= FEWEST_STRANGERS
        for name in methods
        if (
            scores := [
                row["methods"][name]["score"] for row in rows if row["methods"][name]["score"] is not None
            ]
        )
    }


def _nothing() -> Row:
    return {"scored": 0, "at_level": 0, "above": 0}


# -- tables ---------------------------------------------------------------------------------------------


def total_table(facts: Row) -> str:
    """Write how many relatives each method finds, and whom it accuses falsely."""
    lines = [
        f"{facts['pairs']['relatives']} relatives and {facts['pairs']['strangers']} comparisons of strangers of one shape, "
        "a third of them under a disguise. *Above strangers*: relatives that score higher than every stranger of the "
        f"base's family (of all families, where there are fewer than {FEWEST_STRANGERS}), a threshold that nobody "
        "knows beforehand. *At own level*: at the threshold of the publication; "
        "for modelkin, its verdict.",
        "",
        "| method | relatives above strangers | relatives at own level | strangers accused at own level | no score |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, has_level in facts["has_level"].items():
        related = [group for group in facts["groups"].values() if group["related"]]
        others = [group for group in facts["groups"].values() if not group["related"]]
        n, m = (sum(group["pairs"] for group in side) for side in (related, others))

        def counted(side: list[Row], what: str, name: str = name) -> int:
            return sum(group["methods"][name][what] for group in side)

        cells = [
            f"{counted(related, 'above')} of {n}",
            f"{counted(related, 'at_level')} of {n}" if has_level else "-",
            f"{counted(others, 'at_level')} of {m}" if has_level else "-",
            str(n + m - counted(related, "scored") - counted(others, "scored")),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, *_ranked(facts)])


def _ranked(facts: Row) -> list[str]:
    """Say how often behaviour ranks first among its controls, and how often chance would."""
    sides: dict[str, list[Row]] = {"relatives": [], "strangers": [], "students": []}
    for group, row in facts["groups"].items():
        counted = row["methods"].get("behaviour", {})
        side = "relatives" if row["related"] else "students" if "distilled" in group else "strangers"
        if "first" in counted:
            sides[side].append(counted)
    if not any(sides.values()):
        return []
    told = [
        f"{sum(item['first'] for item in held)} of {sum(item['scored'] for item in held)} {side} "
        f"({sum(item['by_chance'] for item in held):.1f} by chance)"
        for side, held in sides.items()
    ]
    return [
        "",
        "`behaviour` names no level. First among its controls, of which none agrees as much with the base: "
        f"{', '.join(told)}. Students learned the base's answers and have none of its weights. "
        "Where strangers are first more often than chance allows, the controls are less like the base than they are.",
    ]


def relation_table(facts: Row) -> str:
    """Write what each method finds of each relation, and of each kind of strangers."""
    names = list(facts["has_level"])
    lines = [
        "Relatives: how many are above every stranger of the family; for modelkin, how many its verdict calls related. "
        "Strangers: how many are accused at the method's own level, `-` where it has none.",
        "",
        "| what was done | pairs | " + " | ".join(names) + " |",
        "| --- | ---: |" + " ---: |" * len(names),
    ]
    for group, row in sorted(facts["groups"].items(), key=lambda item: (not item[1]["related"], item[0])):
        cells = []
        for name in names:
            counted = row["methods"][name]
            if not row["related"] and not facts["has_level"][name]:
                cells.append("-")
            else:
                cells.append(str(counted["at_level" if name in OURS or not row["related"] else "above"]))
        best = max(row["methods"][name]["at_level"] for name in OURS)
        shown = [
            f"**{cell}**" if row["related"] and name not in OURS and int(cell) > best else cell
            for name, cell in zip(names, cells, strict=True)
        ]
        lines.append(f"| {group} | {row['pairs']} | {' | '.join(shown)} |")
    return "\n".join(lines)


def better(facts: Row, *ours: str) -> dict[str, list[str]]:
    """Return relation -> published methods that find more of it than any of ours does."""
    found = {}
    for group, row in facts["groups"].items():
        if not row["related"]:
            continue
        best = max(row["methods"][name]["at_level"] for name in ours)
        names = [n for n in facts["has_level"] if n not in OURS and row["methods"][n]["above"] > best]
        if names:
            found[group] = names
    return found


def better_text(facts: Row) -> str:
    """Say where a published method beats ours, with a threshold known only from these strangers."""
    lines = [
        "Relations for which a published method finds more than ours does, given the best threshold for these strangers, "
        "which is not known in advance. At deep depth:",
        "",
    ]
    deep, standard = better(facts, *OURS), better(facts, "modelkin standard")
    lines += [f"- {group}: {', '.join(names)}" for group, names in deep.items()] or ["- none"]
    lines += [
        "",
        "At standard depth, which compares only parts with the same number and reads at most 20 MB:",
        "",
    ]
    by_methods: dict[str, list[str]] = {}
    for group, names in standard.items():
        by_methods.setdefault(", ".join(names), []).append(group)
    lines += [f"- {names}: {'; '.join(groups)}" for names, groups in by_methods.items()] or ["- none"]
    return "\n".join(lines)


def rendered(text: str, facts: Row) -> str:
    """Put the tables between their markers."""
    parts = {"totals": total_table(facts), "relations": relation_table(facts), "better": better_text(facts)}
    for name, content in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"no markers for {name!r}")
        text = f"{before}{begin}\n{content}\n{end}{after}"
    return text


def main() -> int:
    """Run, summarise, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--part", choices=PARTS, help="ask only these methods; the facts of the others stay")
    parser.add_argument("--most", type=int, help="only so many pairs, drawn by chance; writes nothing")
    given = parser.parse_args()
    parts = PARTS if given.part is None else (given.part,)
    made = {}
    for part in parts:
        wanted = [replace(job, part=part) for job in jobs()]
        if given.most is not None:
            wanted = random.Random(SEED).sample(wanted, given.most)  # noqa: S311
        rows = run_all(wanted, processes=given.processes)
        if given.most is None:
            made[part] = facts_of(rows)
    if given.most is not None:
        return 0
    kept = json.loads(FACTS.read_text()) if len(made) < len(PARTS) else {}
    facts = merged(made[part] if part in made else _part(kept, part) for part in PARTS)
    FACTS.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(rendered(PAGE.read_text(), facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
