"""Contrasts layers of unrelated models and writes how much they agree: ``make own-layers``.

Every pair of strangers of one width in the zoo, plain and under disguises, and those that
``own_layers_train.py`` trained for it, if they exist. Only this one test is made. Each result is kept
as a line of ``.cache/own-layers/pairs.jsonl``, so that a stopped run resumes where it left off. Writes the table
of ``docs/verdicts.md`` and the archive that comes with the package; with ``--so-far`` of what is there.
``--other-widths`` does the same for strangers whose residual streams differ in width, and writes a table of
its own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.comparison.disguises import disguised, suitable, zoo_model  # noqa: E402
from tests.comparison.strangers import strangers  # noqa: E402

from modelkin import CompareOptions, FetchOptions  # noqa: E402
from modelkin.casework.lab import derive  # noqa: E402
from modelkin.casework.lab.checkpoint import Checkpoint  # noqa: E402
from modelkin.comparison.deep import contrasts  # noqa: E402
from modelkin.comparison.methods import Contrast, Skipped  # noqa: E402
from modelkin.comparison.pair import ModelPair  # noqa: E402
from modelkin.comparison.tokens import UNREAD, pair_tokens  # noqa: E402
from modelkin.comparison.verdict import decide, load_rule  # noqa: E402
from modelkin.model import Model, open_model  # noqa: E402
from modelkin.source import MemorySource  # noqa: E402

PAGE = ROOT / "docs" / "verdicts.md"
ARCHIVE = ROOT / "src" / "modelkin" / "comparison" / "methods" / "data" / "strangers.csv"
KEPT = ROOT / ".cache" / "own-layers" / "pairs.jsonl"
TRAINED = ROOT / ".cache" / "own-layers" / "models"
OPTIONS = CompareOptions(depth="deep", fetch=FetchOptions(use_store=False))
SEED = 7
DISGUISES_EACH = 2
"""Drawn for each pair of strangers, besides the plain pair and one that was rounded or has doubled layers."""
_CODE = (
    "comparison/alignment/contrast.py",
    "comparison/alignment/coordinates.py",
    "comparison/alignment/keys.py",
    "comparison/alignment/layer_units.py",
    "comparison/methods/own_layers.py",
    "comparison/methods/_gains.py",
    "comparison/methods/_layer_choice.py",
    "comparison/methods/_layer_parts.py",
)

Row = dict[str, Any]


def jobs() -> list[tuple[str, str, str, str]]:
    """Return (kind, candidate, base, what is done to the candidate) of every comparison."""
    rng = random.Random(SEED)
    made = []
    if "--other-widths" in sys.argv:
        return [
            (f"{pair.kind}, other width", pair.candidate, pair.base, done)
            for pair in strangers()
            if _width(pair.candidate) != _width(pair.base)
            for done in ("", rng.choice(suitable(zoo_model(pair.candidate))))
        ]
    for pair in strangers():
        if _width(pair.candidate) != _width(pair.base):
            continue
        drawn = rng.sample(suitable(zoo_model(pair.candidate)), DISGUISES_EACH)
        for done in ("", *drawn, rng.choice(("int8", "int4", "repeated"))):
            made.append((pair.kind, pair.candidate, pair.base, done))
    for first, second in itertools.combinations(sorted(_trained()), 2):
        kinds, seeds = ({name.rpartition("-")[at] for name in (first, second)} for at in (0, 2))
        # Models of two kinds start from the same numbers if their seeds are the same: not strangers.
        if _width(first) == _width(second) and (len(kinds) == 1 or len(seeds) == 2):
            kind = f"trained: {kinds.pop()}" if len(kinds) == 1 else "trained: of two kinds"
            made += [
                (kind, second, first, done) for done in ("", "units", "residual-permutation", "repeated")
            ]
    return made


@cache
def _trained() -> dict[str, Path]:
    return {folder.name: folder for folder in sorted(TRAINED.glob("*")) if (folder / "config.json").exists()}


@cache
def _load(name: str) -> Checkpoint:
    return Checkpoint.read(_trained()[name]) if name in _trained() else zoo_model(name)


@cache
def _width(name: str) -> int:
    config = _load(name).config
    return int(config.get("hidden_size") or config.get("n_embd"))


@cache
def _opened(name: str) -> Model:
    return _memory(_load(name))


def _memory(model: Checkpoint) -> Model:
    return open_model(MemorySource(model.files("F32"), name="model"))


def _done(name: str, done: str) -> Model:
    model = _load(name)
    match done:
        case "":
            return _opened(name)
        case "int8":
            return _memory(derive.round_to_int8(model))
        case "int4":
            return _memory(derive.round_to_int4(model))
        case "repeated":
            n = len({key.split(".")[2] for key in model.tensors if ".layers." in key}) or 3
            return _memory(derive.reorder_layers(model, [layer for layer in range(n) for _ in (0, 1)]))
        case _:
            return _memory(disguised(model, done))


def measured(kind: str, candidate: str, base: str, done: str) -> Row:
    """Contrast the layers of one pair."""
    pair = ModelPair(candidate=_done(candidate, done), base=_opened(base), options=OPTIONS)
    tokens = pair_tokens(*pair.models) if kind != "no tokens" else UNREAD
    found = contrasts(pair, tokens)
    verdict = decide(found, load_rule(), candidate="B", base="A", stage="deep")
    row: Row = {
        "kind": kind,
        "candidate": candidate,
        "base": base,
        "done": done,
        "accused": bool(verdict.related),
    }
    row["skipped"] = [item.reason.code for item in found if isinstance(item, Skipped)]
    for part, components in (("units", ("mlp", "experts")), ("heads", ("attention",))):
        items = [item for item in found if isinstance(item, Contrast) and item.component in components]
        if items:
            row[part] = {
                "n": min(item.n for item in items),
                "facing": [round(item.statistic, 4) for item in items],
                "mismatched": round(max(item.mismatched.largest for item in items), 4),
                "limit": round(max(item.mismatched.limit for item in items), 4),
                "log10_p": round(min(item.log10_p for item in items), 2),
            }
    return row


def run() -> list[Row]:
    """Measure what was not measured by this code."""
    code = hashlib.sha256()
    for place in _CODE:
        code.update((ROOT / "src" / "modelkin" / place).read_bytes())
    stamp = code.hexdigest()[:12]
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if KEPT.exists():
        for line in KEPT.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["code"] == stamp:
                known[tuple(row["job"])] = row
    rows = []
    with KEPT.open("a", encoding="utf-8") as file:
        order = jobs()[:: -1 if "--backwards" in sys.argv else 1]
        for number, job in enumerate(order):
            if job not in known:
                if "--so-far" in sys.argv:
                    continue
                row = {**measured(*job), "job": job, "code": stamp}
                file.write(json.dumps(row) + "\n")
                file.flush()
                known[job] = row
                if row["accused"]:
                    print("ACCUSED", row, flush=True)
            rows.append(known[job])
            if number % 200 == 0:
                print(number, flush=True)
    return rows


def table(rows: list[Row]) -> str:
    """Summarise by what strangers have in common."""
    lines = [
        "| strangers | comparisons | facing, mean | 99 % | **largest facing** | mismatched, 99 % | largest mismatched | accused |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for part in ("units", "heads"):
        for kind in dict.fromkeys(row["kind"] for row in rows):
            lines += _line(f"{kind}, {part}", [row for row in rows if row["kind"] == kind], part)
        lines += _line(f"**all, {part}**", rows, part)
    made = [row for row in rows if "units" in row]
    lines += [
        "",
        f"{len(rows):,} comparisons of unrelated models, {len(made):,} of them measured, the others not testable "
        f"({_reasons(rows)}): **{sum(row['accused'] for row in rows)} accused**. The smallest log10 p was "
        f"{min(row['units']['log10_p'] for row in made):.1f}. The largest agreement of a facing layer above "
        f"the limit of its own mismatched layers was {_most_above(made):.3f}.",
    ]
    return "\n".join(lines)


def _line(name: str, rows: list[Row], part: str) -> Iterator[str]:
    held = [row for row in rows if part in row]
    if not held:
        return
    facing = sorted(share for row in held for share in row[part]["facing"])
    other = sorted(row[part]["mismatched"] for row in held)
    mean = sum(facing) / len(facing)
    accused = sum(row["accused"] for row in held)
    yield (
        f"| {name} | {len(held):,} | {mean:.4f} | {_quantile(facing):.3f} | {facing[-1]:.3f} "
        f"| {_quantile(other):.3f} | {other[-1]:.3f} | {accused} |"
    )


def _quantile(values: list[float]) -> float:
    return values[min(len(values) - 1, int(0.99 * len(values)))]


def _reasons(rows: list[Row]) -> str:
    codes = [code for row in rows if "units" not in row for code in row["skipped"]]
    return ", ".join(f"{code} {codes.count(code):,}" for code in sorted(set(codes))) or "none"


def _most_above(rows: list[Row]) -> float:
    return max(max(row["units"]["facing"]) - row["units"]["limit"] for row in rows)


def archive(rows: list[Row]) -> str:
    """Write the numbers of all pairs: what was compared, units, mean and largest facing, largest mismatched."""
    lines = ["part,units,mean_facing,largest_facing,largest_mismatched"]
    for part in ("units", "heads"):
        found = sorted(
            (
                row[part]["n"],
                round(sum(row[part]["facing"]) / len(row[part]["facing"]), 4),
                max(row[part]["facing"]),
                row[part]["mismatched"],
            )
            for row in rows
            if part in row
        )
        lines += [f"{part},{n},{mean:.4f},{most:.4f},{other:.4f}" for n, mean, most, other in found]
    return "\n".join(lines) + "\n"


def written(text: str, name: str, content: str) -> str:
    """Put content between the markers of a part."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


if __name__ == "__main__":
    found = run()
    other_widths = "--other-widths" in sys.argv
    part = "own layers of other widths" if other_widths else "own layers"
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), part, table(found)), encoding="utf-8")
    if not other_widths:
        ARCHIVE.write_text(archive(found), encoding="utf-8")
    print(table(found))
