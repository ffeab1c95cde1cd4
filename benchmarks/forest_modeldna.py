"""modelDNA on a collection, in a process of an interpreter that has it (``pip install modeldna==0.1.0``).

It has no trees. What its users have is a scan: each model against all others, and the best of those that its
rule calls related. Clusters are what related pairs connect; the edge of a model is its best candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.peers_job import answer_job

source = import_module("modeldna.io.source")
fingerprint = import_module("modeldna.fingerprint.extract")
compare = import_module("modeldna.compare")
calibration = import_module("modeldna.calibration")
verdicts = import_module("modeldna.verdict")


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Fingerprint all models in its fast mode and judge every pair."""
    made, refused = {}, {}
    for name, place in job["models"].items():
        try:
            made[name] = fingerprint.extract_fingerprint(
                source.LocalSource(place), mode="fast", model_id=name
            )
        except Exception as error:  # whatever it raises for a model is its answer
            refused[name] = str(error)
    least = verdicts.Thresholds().positive
    scores: dict[str, dict[str, float]] = {}
    for first, mine in made.items():
        for second, theirs in made.items():
            if first != second:
                judged = verdicts.judge([(compare.compare_fingerprints(mine, theirs), second)])
                if judged.best is not None and judged.best.probability is not None:
                    scores.setdefault(first, {})[second] = float(judged.best.probability)
    return {
        "refused": refused,
        "related": [
            [first, second] for first, of in scores.items() for second, score in of.items() if score >= least
        ],
        "best": {
            first: max(of, key=lambda name: of[name])
            for first, of in scores.items()
            if max(of.values()) >= least
        },
    }


if __name__ == "__main__":
    answer_job(work)
