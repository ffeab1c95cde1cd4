"""modelkin against other tools on one emulated Hub: bytes, requests, seconds, memory, smallest effect.

``python -m benchmarks.peers [SECTION ...] [--quick] [--modeldna-python PATH] [--write docs/peers.md]``. The
other tools are not dependencies: ``python -m venv .venv/peers``, then
``.venv/peers/bin/pip install modeldna==0.1.0``, then ``--modeldna-python .venv/peers/bin/python``. Without it
only modelkin is measured. phi_U needs the extra ``bench``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support import HubProcess, RequestRecord, VirtualFile

from benchmarks.peers_job import run_job
from benchmarks.peers_subject import (
    SEVEN_B,
    SEVENTY_B,
    Files,
    MixtureShape,
    llama,
    mixture,
    stored_bytes,
)
from benchmarks.subject import USUAL, Network
from benchmarks.tables import Table, megabytes, replace_section, seconds, times
from benchmarks.worker import environment

BASE, CANDIDATE = "bench/base", "bench/candidate"
CEILING = 20_000_000
"""Bytes of a model that a comparison at standard depth may read."""
REPEATS = 3
"""Runs of modelkin and modelDNA, taking turns; the one of median time is shown, and the range of all."""

LABELS = {
    "modelkin": "modelkin compare, standard depth",
    "modeldna": "modelDNA 0.1.0 compare, fast mode",
    "phi_u": "phi_U, all up matrices",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One tool on one pair of models."""

    tool: str
    verdict: str
    strength: str
    n_bytes: float
    """Of the model of which more was read; the server's count, including listings."""
    requests: float
    """For both models together."""
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    range: tuple[float, float]
    """Seconds of the fastest and of the slowest run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pair of models and what is true of it."""

    name: str
    repos: Mapping[str, Files]

    @property
    def model_bytes(self) -> int:
        """Size of the base."""
        return stored_bytes(self.repos[BASE])


def strangers() -> Case:
    """Return two 7B models with nothing in common but three quarters of their tokens."""
    repos = {
        BASE: llama(SEVEN_B, seed=1, vocabulary=1),
        CANDIDATE: llama(SEVEN_B, seed=2, vocabulary=2),
    }
    return Case(name="7B, strangers with different tokenizers", repos=repos)


def copies() -> Case:
    """Return a 7B model and its copy in another precision."""
    repos = {
        BASE: llama(SEVEN_B, seed=1, vocabulary=1),
        CANDIDATE: llama(SEVEN_B, seed=1, vocabulary=1, half=True),
    }
    return Case(name="7B, a copy in another precision (F16 of BF16)", repos=repos)


def mixtures() -> Case:
    """Return two mixtures of experts of 110 billion weights with nothing in common."""
    repos = {
        BASE: mixture(MixtureShape(), seed=1, vocabulary=1),
        CANDIDATE: mixture(MixtureShape(), seed=2, vocabulary=2),
    }
    return Case(name="110B mixture of 128 experts, strangers", repos=repos)


def large() -> Case:
    """Return two 70B models with nothing in common."""
    repos = {
        BASE: llama(SEVENTY_B, seed=1, vocabulary=1),
        CANDIDATE: llama(SEVENTY_B, seed=2, vocabulary=2),
    }
    return Case(name="70B, strangers", repos=repos)


def bytes_by_repo(log: Sequence[RequestRecord], repos: Mapping[str, Files]) -> dict[str, int]:
    """Return the bytes of bodies that a test Hub sent of each repository.

    The Hub's own paths hold the name of the repository, those of its storage hold the digest of a file.
    """
    digests = {
        file.sha256: name
        for name, files in repos.items()
        for file in files.values()
        if isinstance(file, VirtualFile)
    }
    sent = dict.fromkeys(repos, 0)
    for record in log:
        owner = next((name for name in repos if name in record.path), None)
        if owner is None:
            owner = next((name for digest, name in digests.items() if digest in record.path), None)
        if owner is not None:
            sent[owner] += record.bytes_sent
    return sent


def measure(
    case: Case, tools: Sequence[str], *, python: str | None, network: Network, repeats: int = 1
) -> list[Measured]:
    """Run tools in turn, in fresh processes with empty caches; return the run of median time of each."""
    runs: dict[str, list[Measured]] = {tool: [] for tool in tools}
    with HubProcess(dict(case.repos), network.options()) as hub:
        for _ in range(repeats):
            for tool in tools:
                runs[tool].append(_measure_once(case, tool, hub, python=python))
    return [_median_run(runs[tool]) for tool in tools]


def _measure_once(case: Case, tool: str, hub: HubProcess, *, python: str | None) -> Measured:
    hub.reset()
    with tempfile.TemporaryDirectory() as home:
        job = {
            "endpoint": hub.url,
            "home": home,
            "candidate": CANDIDATE,
            "base": BASE,
            "layers": [SEVEN_B.layers // 2],
        }
        options = {"python": python} if python is not None and tool == "modeldna" else {}
        where = environment(Path(home), hub.url)
        found = run_job(f"benchmarks.peers_{tool}", job, environment=where, **options)
    return Measured(
        tool=tool,
        verdict=found["verdict"],
        strength=found["strength"] or "",
        n_bytes=max(bytes_by_repo(hub.log, case.repos).values()),
        requests=hub.n_requests(),
        seconds=found["seconds"],
        cpu_seconds=found["cpu_seconds"],
        peak_bytes=found["peak_bytes"],
        range=(found["seconds"], found["seconds"]),
    )


def _median_run(runs: Sequence[Measured]) -> Measured:
    ordered = sorted(runs, key=lambda run: run.seconds)
    return replace(ordered[len(runs) // 2], range=(ordered[0].seconds, ordered[-1].seconds))


def scaled(measured: Measured, factor: int) -> Measured:
    """Return what this many layers cost, each like the measured one."""
    return replace(
        measured,
        n_bytes=measured.n_bytes * factor,
        requests=measured.requests * factor,
        seconds=measured.seconds * factor,
        cpu_seconds=measured.cpu_seconds * factor,
        range=(measured.range[0] * factor, measured.range[1] * factor),
    )


def _cost(*, quick: bool, python: str | None) -> str:
    return "\n\n".join(_compared(case, quick=quick, python=python) for case in (strangers(), copies()))


def _compared(case: Case, *, quick: bool, python: str | None) -> str:
    tools = ["modelkin"] if python is None else ["modelkin", "modeldna"]
    found = measure(case, tools, python=python, network=USUAL, repeats=1 if quick else REPEATS)
    ours = found[0]
    if python is not None:
        one_layer = measure(case, ["phi_u"], python=python, network=USUAL)
        found.append(scaled(one_layer[0], SEVEN_B.layers))
    rows = [
        [
            LABELS[one.tool],
            megabytes(one.n_bytes),
            f"{one.requests:,.0f}",
            _seconds(one),
            seconds(one.cpu_seconds),
            f"{one.peak_bytes / 1e6:.0f}",
            *(_ratio(one, ours) if one is not ours else ("", "", "")),
            _answer(one),
        ]
        for one in found
    ]
    columns = ["tool", "MB a model", "requests", "seconds", "CPU s", "peak MB"]
    columns += ["bytes / ours", "seconds / ours", "peak / ours", "its answer"]
    title = f"### {case.name} ({case.model_bytes / 1e9:.1f} GB each)"
    return f"{title}\n\n{Table(columns, rows).markdown()}\n\n{_promises(found).markdown()}"


def _promises(found: Sequence[Measured]) -> Table:
    """Return the promised byte limits, and whether they were kept."""
    ours, *others = found
    limits = {"bytes of a model": float(CEILING)}
    for one in others:
        if one.tool == "modeldna":
            limits["bytes of a model: a fifth of modelDNA's"] = one.n_bytes / 5
    return Table(
        ["promise", "measured", "limit", "kept"],
        [
            [name, f"{ours.n_bytes:,.0f}", f"{limit:,.0f}", "yes" if ours.n_bytes <= limit else "NO"]
            for name, limit in limits.items()
        ],
    )


def _answer(one: Measured) -> str:
    if one.tool == "phi_u":
        return "(cost only)"  # the fake weights repeat, which a match over a whole matrix would notice
    return f"{one.verdict} ({one.strength})" if one.strength else one.verdict


def _seconds(one: Measured) -> str:
    low, high = one.range
    return seconds(one.seconds) + (f" ({seconds(low)} to {seconds(high)})" if low < high else "")


def _ratio(one: Measured, ours: Measured) -> tuple[str, str, str]:
    return (
        times(one.n_bytes / ours.n_bytes),
        times(one.seconds / ours.seconds),
        times(one.peak_bytes / ours.peak_bytes),
    )


def _shapes(*, quick: bool, python: str | None) -> str:
    rows: list[list[str]] = []
    for case in (strangers(), mixtures()) if quick else (strangers(), large(), mixtures()):
        both = python is not None and case.name.startswith("110B")
        tools = ("modelkin", "modeldna") if both else ("modelkin",)
        for one in measure(case, tools, python=python, network=USUAL):
            kept = "yes" if one.n_bytes <= CEILING else "NO"
            rows.append(
                [
                    f"{case.name} ({case.model_bytes / 1e9:.0f} GB)",
                    LABELS[one.tool],
                    megabytes(one.n_bytes),
                    f"{one.requests:,.0f}",
                    seconds(one.seconds),
                    f"{one.peak_bytes / 1e6:.0f}",
                    kept if one.tool == "modelkin" else "",
                    one.verdict,
                ]
            )
    columns = ["pair", "tool", "MB a model", "requests", "seconds", "peak MB", "at most 20 MB", "its answer"]
    return Table(columns, rows).markdown()


POWER_CASES = (
    {"layers": 4, "rows": 196, "width": 4096},
    {"layers": 4, "rows": 512, "width": 4096},
    {"layers": 1, "rows": 2048, "width": 4096},
)
"""What is read of each model: 196 rows are the gate rows that standard depth takes of a 7B layer."""


def _power(*, quick: bool, python: str | None) -> str:
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as home:
        for case in POWER_CASES[:1] if quick else POWER_CASES:
            job = {**case, "pairs": 5 if quick else 10}
            found: dict[str, dict[str, Any]] = {}
            for test in ("modelkin",) if python is None else ("modelkin", "phi_u"):
                found[test] = run_job(
                    "benchmarks.peers_power",
                    {**job, "test": test},
                    environment=environment(Path(home)),
                )
            n_bytes = 2 * case["layers"] * case["rows"] * case["width"]
            ours, theirs = found["modelkin"], found.get("phi_u", {})
            both = ours["cosine"] is not None and theirs.get("cosine") is not None
            rows.append(
                [
                    f"{case['layers']} x {case['rows']} rows of {case['width']}",
                    megabytes(n_bytes),
                    _cosine(ours),
                    _cosine(theirs),
                    times(theirs["cosine"] / ours["cosine"]) if both else "",
                    f"{ours['found_of_strangers']:.0%} / {theirs.get('found_of_strangers', 0.0):.0%}",
                ]
            )
    columns = ["read", "MB", "modelkin's axis test", "phi_U's match and Spearman", "ratio", "strangers found"]
    return "\n\n".join([Table(columns, rows).markdown(), *_modeldna_needs(python)])


def _modeldna_needs(python: str | None) -> list[str]:
    if python is None:
        return []
    with tempfile.TemporaryDirectory() as home:
        where = environment(Path(home))
        found = run_job("benchmarks.peers_modeldna", {"ask": "rule"}, environment=where, python=python)
    return [
        f"modelDNA's rule calls a pair related from a sampled cosine of **{found['alone']:.2f}** on when its "
        f"other three measures are as between strangers, and of {found['with_others']:.3f} when all are 1. "
        "This does not depend on how much is read. It is computed with its own rule, not simulated."
    ]


def _cosine(found: Mapping[str, Any]) -> str:
    if not found:
        return ""
    return "above 0.5" if found["cosine"] is None else f"{found['cosine']:.2g}"


SECTIONS = {"cost": _cost, "shapes": _shapes, "power": _power}


def main() -> None:
    """Run, print, and write where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(SECTIONS)}; by default all"
    )
    parser.add_argument("--quick", action="store_true", help="one run each, fewer cases")
    parser.add_argument("--modeldna-python", metavar="PATH", help="interpreter with modeldna")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.sections) - set(SECTIONS)):
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    for name in asked.sections or SECTIONS:
        text = SECTIONS[name](quick=asked.quick, python=asked.modeldna_python)
        print(f"## {name}\n\n{text}\n", flush=True)
        if asked.write is not None:
            replace_section(asked.write, name, text)


if __name__ == "__main__":
    main()
