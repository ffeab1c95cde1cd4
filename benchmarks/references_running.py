"""What published methods that run models cost: CPU seconds of one and two layers of a 7B model.

``OMP_NUM_THREADS=1 python -m benchmarks.references_running FOLDER`` writes models of random weights into the
folder, asks a twentieth of the prompts of the package, and prints a table. Needs the extra ``repr``.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.places import ZOO

import modelkin as mk
from benchmarks.peers_subject import SEVEN_B
from benchmarks.references import written
from benchmarks.tables import Table, seconds
from modelkin.reference.running import shipped_prompts

METHODS = ("reef", "logits", "phi-h", "phi-match-activations")
"""`behaviour` runs what `logits` does, for controls as well."""
EVERY = 20
"""One in this many prompts is used: all of them take an hour."""


def run(folder: Path) -> str:
    """Measure and return the table."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(name, *(seconds(_spent(folder, name, layers)) for layers in (1, 2))) for name in METHODS]
    return Table(("method", "CPU s, one layer", "two layers"), rows).markdown()


def _spent(folder: Path, name: str, layers: int) -> float:
    shape = replace(SEVEN_B, layers=layers)
    places = [written(folder / f"run-{layers}-{seed}", shape, seed=seed, empty=False) for seed in (0, 1)]
    for place in places:
        # Tokenizers of `written` only name tokens; this one reads text. The folders are not those of
        # `benchmarks.references`, which would find other tokenizers in them than it wrote.
        (place / "tokenizer.json").write_bytes((ZOO / "base" / "tokenizer.json").read_bytes())
    options = mk.ReferenceOptions(methods=(name,), byte_limit=None, prompts=shipped_prompts()[::EVERY])
    began = time.process_time()
    (score,) = mk.reference_scores(str(places[0]), str(places[1]), options)
    if score.score is None:
        raise ValueError(f"{name}: {score.reason}")
    return time.process_time() - began


if __name__ == "__main__":
    print(run(Path(sys.argv[1])))
