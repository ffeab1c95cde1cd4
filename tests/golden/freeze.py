"""Freeze the code's output, to compare it with that of other code: nothing may change by accident.

``python -m tests.golden.freeze OUT [--part NAME ...]`` writes one file for each thing that is said: whole
comparisons of the zoo, of disguised relatives and strangers and of the format fixtures, the six studies, the
replay, and what the commands print. Seconds, places on this machine and versions are taken out.
``python -m tests.golden.differ BEFORE AFTER`` compares two such folders. The code that is frozen is whatever
`PYTHONPATH` finds first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.places import FORMATS, ZOO

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

STRANGERS = 160
_PLACES = re.compile(r"(/[\w.-]+)*/(tests/zoo|tests/data|demo/zoo|modelkin-frozen-\w+)")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_SECONDS = {"seconds", "elapsed", "made", "started", "finished"}


def plain(value: Any) -> Any:
    """Take out what differs from run to run and from machine to machine."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if key not in _SECONDS}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return plain_text(value) if isinstance(value, str) else value


def plain_text(text: str) -> str:
    """Take places and ports out of a text."""
    return _PORT.sub("127.0.0.1:0", _PLACES.sub(r"\2", text))


def plain_comparison(text: str) -> dict[str, Any]:
    """Take out what differs, and sort the ranges, which are read side by side."""
    found: dict[str, Any] = plain(json.loads(text))
    found["ledger"]["ranges"].sort(key=lambda item: (item["model"], item["file"], item["start"]))
    found["ledger"].pop("requests")
    return found


# -- comparisons ---------------------------------------------------------------------------------------


def zoo() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Compare the pairs of the zoo at standard depth."""
    from tests.comparison.zoo_pairs import independent_pairs, members

    pairs = independent_pairs() + [(m.name, m.parent) for m in members().values() if m.parent is not None]
    for candidate, base in pairs:
        yield (
            f"{candidate}~{base}",
            partial(_compared, members()[candidate].path, members()[base].path),
        )


def _compared(candidate: str, base: str, depth: Any = "standard") -> Any:
    import modelkin as mk

    options = mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False))
    return plain_comparison(mk.compare(candidate=candidate, base=base, options=options).to_json())


def disguises() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Compare every row of the truth table and some strangers under disguises, at deep depth."""
    from tests.comparison.expectations import compared, compared_strangers
    from tests.comparison.relations import relations, strangers

    for row in relations():
        yield row.name, partial(_written, compared, row)
    rng = random.Random(20)
    for pair in rng.sample(strangers(), STRANGERS):
        worn = rng.choice(((), *((name,) for name in pair.disguises())))
        yield (
            f"{pair.name} {' '.join(worn)}",
            partial(_written, compared_strangers, pair, *worn, seed=20),
        )


def _written(compared: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return plain_comparison(compared(*arguments, **options).to_json())


def formats() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Inspect every fixture and compare each with its neighbour."""
    files = sorted(
        p for p in FORMATS.iterdir() if p.is_dir() or p.suffix in (".bin", ".onnx", ".safetensors", ".pt")
    )
    files += sorted(p for folder in files if folder.is_dir() for p in folder.iterdir())
    for one, two in zip(files, files[1:] + files[:1], strict=True):
        name = str(one.relative_to(FORMATS))
        yield f"inspect {name}", partial(_printed, "inspect", str(one), "--json")
        yield f"compare {name}", partial(_or_error, one, two)


def _or_error(one: Path, two: Path) -> Any:
    from modelkin.errors import ModelkinError

    try:
        return _compared(str(one), str(two))
    except ModelkinError as error:
        return {"error": type(error).__name__, "says": plain_text(str(error))}


# -- commands ------------------------------------------------------------------------------------------


def _printed(*arguments: str, env: Mapping[str, str] | None = None) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "modelkin", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120", "HF_ENDPOINT": "http://127.0.0.1:9", **(env or {})},
        check=False,
    )
    out = done.stdout
    if "--json" in arguments and out.startswith("{"):
        out = plain(json.loads(out))
    return {
        "exit": done.returncode,
        "out": plain_text(out) if isinstance(out, str) else out,
        "err": plain_text(done.stderr),
    }


def _folder(*arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a command with ``--out`` and return everything that it wrote."""
    with tempfile.TemporaryDirectory(prefix="modelkin-frozen-") as folder:
        out = Path(folder, "out")
        said = _printed(*arguments, "--out", str(out), env=env)
        return {
            "said": said,
            "files": {str(p.relative_to(out)): _content(p) for p in sorted(out.rglob("*")) if p.is_file()},
        }


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        found = plain(json.loads(path.read_text()))
        if isinstance(found, dict) and "ledger" in found and "ranges" in found["ledger"]:
            return plain_comparison(path.read_text())
        return found
    if path.suffix in (".md", ".csv", ".html", ".svg", ".txt", ".yaml"):
        return plain_text(path.read_text())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def commands() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Run every command on models that are at hand."""
    base, tuned, twin = (str(ZOO / name) for name in ("base", "finetune-light", "twin-1"))
    moe, moe_tuned = (str(ZOO / name) for name in ("moe-base", "moe-tuned"))
    yield "help", lambda: {" ".join(c): _printed(*c, "--help") for c in _all_commands()}
    for lang in ("en", "ko"):
        yield f"compare {lang}", partial(_folder, "compare", tuned, base, "--lang", lang)
        yield (
            f"deep {lang}",
            partial(_folder, "compare", twin, base, "--depth", "deep", "--lang", lang),
        )
        yield (
            f"moe {lang}",
            partial(_folder, "compare", moe_tuned, moe, "--control", base, "--lang", lang),
        )
        yield f"demo {lang}", partial(_folder, "demo", "--lang", lang)
        yield f"replay {lang}", partial(_folder, "study", "replay", "solar-glm", "--lang", lang)
        yield f"matrix {lang}", partial(_folder, "matrix", base, tuned, twin, "--lang", lang)
    for name, arguments in {
        "replay text": ("study", "replay", "solar-glm", "-v"),
        "compare text": ("compare", tuned, base, "--control", twin),
        "compare full": ("compare", tuned, base, "--depth", "full"),
        "compare quick": ("compare", tuned, base, "--depth", "quick"),
        "dry run": ("compare", tuned, base, "--depth", "deep", "--dry-run"),
        "dry run json": ("compare", tuned, base, "--depth", "deep", "--dry-run", "--json"),
        "inspect": ("inspect", moe),
        "inspect json": ("inspect", moe, "--json"),
        "inspect plan": ("inspect", moe, "--plan", "norms"),
        "matrix": ("matrix", base, tuned, twin),
        "matrix json": ("matrix", base, tuned, twin, "--json"),
        "tokenizers": ("tokenizers", tuned, base),
        "tokenizers json": ("tokenizers", tuned, base, "--json"),
        "methods": ("methods",),
        "methods json": ("methods", "--json"),
        "demo": ("demo",),
        "study list": ("study", "list"),
        "no such folder": ("compare", "./nowhere", base),
        "no such method": ("methods", "nothing"),
        "fail on": ("compare", tuned, base, "--fail-on", "shared"),
    }.items():
        yield name, partial(_printed, *arguments)


def _all_commands() -> list[tuple[str, ...]]:
    import click

    from modelkin.cli.app import app

    def below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, (*path, name))

    return list(below(app, ()))


def studies() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Run the six studies by their plain command, on a Hub with tiny models under the real names."""
    for name in (
        "additional-experiments",
        "baseline-critique",
        "centred-review",
        "original-claim",
        "sanity-check",
        "three-models",
    ):
        yield name, partial(_study, name)


def _study(name: str) -> Any:
    from tests.casework.studies.conftest import _FEWER, repositories
    from tests.support import HubServer

    from modelkin.casework.studies import load_study

    text = load_study(name).text
    for pattern, fewer in _FEWER:
        text = pattern.sub(fewer, text)
    swaps = (
        ("--model", "glm=test/glm-bf16", "--model", "intellect=test/intellect-bf16")
        if name == "centred-review"
        else ()
    )
    with HubServer(repositories()) as hub, tempfile.TemporaryDirectory(prefix="modelkin-frozen-") as folder:
        path = Path(folder, f"{name}.yaml")
        path.write_text(text)
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": folder, "MODELKIN_CACHE": folder + "/store"}
        return _folder("study", "run", str(path), "--dpi", "30", *swaps, env=env)


PARTS = {"commands": commands, "studies": studies, "zoo": zoo, "formats": formats, "disguises": disguises}


def _freeze(job: tuple[str, str, str]) -> str:
    part, name, out = job
    path = Path(out, part, re.sub(r"[^\w.~-]+", "_", name) + ".json")
    if not path.exists():
        made = dict(PARTS[part]())[name]()
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False))
        draft.rename(path)
    return name


def main() -> None:
    """Freeze the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="take only every Nth case of zoo and disguises")
    wanted = parser.parse_args()
    jobs = []
    for part in wanted.part or PARTS:
        names = [name for name, _ in PARTS[part]()]
        step = wanted.every if part in ("zoo", "disguises") else 1
        jobs += [(part, name, wanted.out) for name in names[::step]]
    with ProcessPoolExecutor(wanted.processes) as pool:
        for number, name in enumerate(pool.map(_freeze, jobs), 1):
            print(f"{number}/{len(jobs)} {name}", flush=True)


if __name__ == "__main__":
    main()
