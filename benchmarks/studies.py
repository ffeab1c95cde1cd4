"""What the shipped studies and deep comparisons cost on models of true size.

``python -m benchmarks studies`` runs all of them; ``python -m benchmarks.studies NAME ...`` runs some;
``python -m benchmarks.studies serve`` starts the emulated Hub and waits, to try any command on it by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import HubServer

from benchmarks.emulated import MODELS
from benchmarks.peers_job import run_job
from benchmarks.subject import DIRECT
from benchmarks.tables import Table
from benchmarks.worker import environment

STUDIES = (
    "original-claim",
    "three-models",
    "centred-review",
    "baseline-critique",
    "additional-experiments",
    "sanity-check",
    "layer-zero",
)
SOLAR, GLM = "upstage/Solar-Open-100B", "zai-org/GLM-4.5-Air"
COMPARISONS: Mapping[str, tuple[str, str]] = {
    "100B strangers": (SOLAR, GLM),
    "100B fine-tune": ("PrimeIntellect/INTELLECT-3", GLM),
    "7B strangers": ("mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen1.5-7B-Chat"),
    "7B fine-tune": ("lmsys/vicuna-7b-v1.5", "meta-llama/Llama-2-7b-hf"),
}
QUICK = ("sanity-check", "7B strangers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one command took."""

    name: str
    result: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    n_requests: int
    bytes_sent: int

    def row(self) -> list[str]:
        """Return it as a row of the table."""
        return [
            self.name,
            f"{self.seconds:.0f}",
            f"{self.cpu_seconds:.0f}",
            f"{self.peak_bytes / 1e6:.0f}",
            f"{self.n_requests:,}",
            f"{self.bytes_sent / 1e6:.0f}",
            self.result,
        ]


COLUMNS = ["run", "wall s", "CPU s", "peak MB", "requests", "MB", "result"]


def arguments(name: str, out: Path) -> list[str]:
    """Return the plain command of a run."""
    if name in STUDIES:
        return ["study", "run", name, "--out", str(out), "--json"]
    candidate, base = COMPARISONS[name]
    return ["compare", candidate, base, "--depth", "deep", "--json"]


def measure(hub: HubServer, name: str, kept: Path | None = None) -> Cost:
    """Run a command in a fresh process with an empty store; with `kept`, what a study writes stays there."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        surroundings = {**environment(home, hub.url), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
        hub.reset()
        job = {"arguments": arguments(name, kept / name if kept else home / "out")}
        found = run_job("benchmarks.studies_job", job, environment=surroundings)
    return Cost(
        name=f"study {name}" if name in STUDIES else f"compare --depth deep, {name}",
        result=outcome(name, found),
        seconds=found["seconds"],
        cpu_seconds=found["cpu_seconds"],
        peak_bytes=found["peak_bytes"],
        n_requests=hub.n_requests(),
        bytes_sent=hub.bytes_sent(),
    )


def outcome(name: str, found: Mapping[str, Any]) -> str:
    """Return the outcome in a word."""
    printed = json.loads(found["printed"])
    if name not in STUDIES:
        return str(printed["verdict"]["conclusion"])
    steps = [*printed["experiments"], *printed["figures"]]
    done = sum(step["status"] == "done" for step in steps)
    return f"{done} of {len(steps)} parts"


def measured(names: Iterable[str], kept: Path | None = None) -> list[Cost]:
    """Measure runs one after another on one Hub."""
    with emulated_hub() as hub:
        costs = []
        for name in names:
            costs.append(measure(hub, name, kept))
            print(" | ".join(costs[-1].row()), flush=True)
    return costs


def emulated_hub() -> HubServer:
    """Start a Hub with all models."""
    return HubServer({name: model.files() for name, model in MODELS.items()}, DIRECT.options())


def run(*, quick: bool = False) -> str:
    """Measure everything; return it as Markdown."""
    names: Sequence[str] = QUICK if quick else (*STUDIES, *COMPARISONS)
    return Table(COLUMNS, [cost.row() for cost in measured(names)]).markdown()


def main() -> None:
    """Run what was requested, or serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies", description=__doc__)
    parser.add_argument("names", nargs="+", choices=["serve", *STUDIES, *COMPARISONS])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep what studies write, in folders of it.")
    given = parser.parse_args()
    asked = given.names
    if asked != ["serve"]:
        measured(asked, given.keep and given.keep.resolve())
        return
    with emulated_hub() as hub:
        print(f"HF_ENDPOINT={hub.url}", flush=True)
        input(f"process {os.getpid()} serves until a line comes in\n")


if __name__ == "__main__":
    main()
