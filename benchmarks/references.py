"""What published methods cost at the shape of a 7B model: bytes from headers, CPU seconds of one layer.

Bytes are exact: what each method would read of a model of 32 layers that exists only as a header. Seconds are
those of the processor on a model of one such layer (three for curves, which need them, two for HuRef, which
takes as many), with random weights: the hardest input for a matching, as nothing in it is clear. What is done
for every layer is multiplied by 32, with what is done once. Set ``OMP_NUM_THREADS=1`` to keep to one core.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.support import LlamaShape
from tests.support.models import llama_config

import modelkin as mk
from benchmarks.peers_subject import SEVEN_B, tokenizer_json
from benchmarks.tables import Table, megabytes, seconds
from modelkin.formats.safetensors.writing import safetensors_head
from modelkin.message import Message
from modelkin.reference import load_reference_cards, reference_costs

SMALL = LlamaShape(layers=32, hidden=256, mlp=688, heads=4, kv_heads=4, vocab=2_000)
PER_LAYER = ("awm", "phi-u", "phi-match", "pdf", "spectra", "sampled-cosine", "huref-pcs")
"""Methods whose work grows with the number of layers; the others look at embeddings, or at two layers."""
LAYERS = {"pdf": 3, "huref-ics": 2}
"""Layers of the models that are measured, where one is not enough."""
_CHUNK = 8_000_000

Prices = Mapping[str, tuple[int, int] | Message]
"""Method -> bytes of both models, or why it would read none."""


def run(*, quick: bool, folder: Path | None = None) -> str:
    """Measure and return the table.

    Parameters
    ----------
    quick
        Small matrices, to see that it works.
    folder
        Where models and seconds are kept, so that a stopped run resumes; by default a temporary one.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="modelkin-") as made:
            return run(quick=quick, folder=Path(made))
    whole = SMALL if quick else SEVEN_B
    names = [name for name, card in load_reference_cards().items() if card.needs == "weights"]
    return as_table(whole, _prices(folder, whole, names), _seconds(folder, whole, names))


def as_table(shape: LlamaShape, prices: Prices, found: Mapping[str, float]) -> str:
    """Return the table; a method without seconds was not measured, which is not a number."""
    rows = []
    for name, price in prices.items():
        spent, layers = found.get(name), LAYERS.get(name, 1)
        told = str(price) if isinstance(price, Message) else megabytes(max(price))
        if spent is None:
            rows.append((name, told, "not measured", "-", "-"))
            continue
        scaled = spent * shape.layers / layers if name in PER_LAYER else spent
        rows.append((name, told, seconds(spent), str(layers), seconds(scaled)))
    columns = ("method", "MB a model", "CPU s measured", "layers measured", "CPU s a pair, computed")
    return Table(columns, rows).markdown()


def _prices(folder: Path, shape: LlamaShape, names: list[str]) -> Prices:
    """Price all methods on files of headers and zeros, which take no disk space."""
    places = [written(folder / f"whole-{seed}", shape, seed=seed, empty=True) for seed in (0, 1)]
    with ExitStack() as stack:
        mine, theirs = (stack.enter_context(mk.open_model(str(place))) for place in places)
        return reference_costs(mine, theirs, names)


def _seconds(folder: Path, shape: LlamaShape, names: list[str]) -> dict[str, float]:
    kept = folder / "seconds.json"
    found: dict[str, float] = json.loads(kept.read_text()) if kept.exists() else {}
    for name in sorted(names, key=lambda name: LAYERS.get(name, 1)):
        if name in found:
            continue
        part = replace(shape, layers=LAYERS.get(name, 1))
        places = [
            written(folder / f"part-{part.layers}-{seed}", part, seed=seed, empty=False) for seed in (0, 1)
        ]
        began = time.process_time()
        (score,) = mk.reference_scores(
            str(places[0]), str(places[1]), mk.ReferenceOptions(methods=(name,), byte_limit=None)
        )
        if score.score is None:
            raise ValueError(f"{name}: {score.reason}")
        found[name] = round(time.process_time() - began, 3)
        kept.write_text(json.dumps(found))
        print(f"{name}: {found[name]} s, score of strangers {score.score:.6g}", file=sys.stderr, flush=True)
    return found


def written(folder: Path, shape: LlamaShape, *, seed: int, empty: bool) -> Path:
    """Write a model whose tokenizer shares three quarters of its tokens with that of another seed."""
    if folder.exists():
        return folder
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(llama_config(shape, dtype="BF16")))
    (folder / "tokenizer.json").write_bytes(tokenizer_json(shape.vocab, seed=seed))
    head, size = _head(shape)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(head)
        if empty:
            file.truncate(len(head) + size)
            return folder
        rng = np.random.default_rng(seed)
        for start in range(0, size // 2, _CHUNK):
            drawn = rng.standard_normal(min(_CHUNK, size // 2 - start), dtype=np.float32) * np.float32(0.02)
            file.write((drawn.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return folder


def _head(shape: LlamaShape) -> tuple[bytes, int]:
    layout = {}
    size = 0
    for name, extent in shape.tensors():
        n_bytes = 2 * int(np.prod(extent))
        layout[name] = ("BF16", extent, n_bytes)
        size += n_bytes
    return safetensors_head(layout)[0], size


if __name__ == "__main__":
    print(run(quick=False, folder=Path(sys.argv[1])))
