"""modelDNA on a test Hub, in a process of an interpreter that has it (``pip install modeldna==0.1.0``).

It takes file lists from ``HF_ENDPOINT`` but files from a fixed address. Two things are changed while it runs:
that address, and the size of the connection pool for http, which it sets for https only. Its own settings
(32 connections, 64 KiB gaps, fast mode) stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.peers_job import answer_job

source = import_module("modeldna.io.source")
scan = import_module("modeldna.scan")
calibration = import_module("modeldna.calibration")
verdicts = import_module("modeldna.verdict")
import_module("huggingface_hub").HfApi()
import_module("requests")


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two models of a Hub, as ``modeldna compare`` does, or ask for its rule."""
    if job.get("ask") == "rule":
        others = dict.fromkeys(("sigma_r", "vector_cos", "spectra_r"), 1.0)
        return {"alone": _least_cosine({}), "with_others": _least_cosine(others)}
    made = source.HubSource.__init__

    def init(self: Any, *arguments: object, **options: object) -> None:  # noqa: ANN401  its class
        made(self, *arguments, **options)
        self._session.mount("http://", self._session.get_adapter("https://"))

    source.HubSource.__init__ = init
    source.HubSource._url = lambda self, file: f"{job['endpoint']}/{self.repo_id}/resolve/main/{file}"
    suspect, candidate, _, verdict = scan.compare_pair(job["candidate"], job["base"])
    probability = verdict.probability
    return {
        "verdict": verdict.verdict.value,
        "strength": None if probability is None else f"probability {probability:.3f}",
        "own_count": max(suspect.bytes_read, candidate.bytes_read),
        "roles": sorted(suspect.sigma_curves),
    }


def _least_cosine(others: Mapping[str, float]) -> float:
    """Return the sampled cosine from which on its rule calls a pair related, by bisection."""
    rule, level = calibration.DEFAULT_CALIBRATOR, verdicts.Thresholds().positive
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if rule.predict({**others, "pcs_cos": middle}) >= level:
            high = middle
        else:
            low = middle
    return high


if __name__ == "__main__":
    answer_job(work)
