"""`modelkin.compare` at standard depth, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import huggingface_hub.utils  # noqa: F401  imports are not counted, ours as little as the others'

import modelkin as mk
import modelkin.comparison.stages
import modelkin.model
from benchmarks.peers_job import answer_job


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Compare two models of a Hub."""
    fetch = mk.FetchOptions(endpoint=job["endpoint"], token=False, store_dir=Path(job["home"]) / "store")
    comparison = mk.compare(
        candidate=job["candidate"], base=job["base"], options=mk.CompareOptions(fetch=fetch)
    )
    verdict = comparison.verdict
    return {
        "verdict": verdict.conclusion.value,
        "strength": None if verdict.log10_p is None else _p_value(verdict.log10_p),
    }


def _p_value(log10_p: float) -> str:
    return f"p <= {10**log10_p:.2g}" if log10_p > -4 else f"p <= 1e{log10_p:.0f}"


if __name__ == "__main__":
    answer_job(work)
