"""Every value of two models, counted in one pass, against a plain read of the same bytes in the same run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.tables import Table
from modelkin.comparison.relation import count_tensors
from modelkin.comparison.relation.tally import Kernel, kernels
from modelkin.formats.safetensors import RawTensor, safetensors_bytes
from modelkin.model import open_model

SHAPE = (4096, 4096)
PIECES = 1 << 20, 8 << 20
"""Buffers of the plain read: the faster one counts."""


def run(*, quick: bool = False) -> str:
    """Measure each way of counting, on a copy and on a model that differs everywhere, as Markdown."""
    layers, repeats = (4, 2) if quick else (16, 7)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        base, copy, tuned = (_written(Path(place) / name, layers, name) for name in ("base", "copy", "tuned"))
        n_bytes = 2 * (base / "model.safetensors").stat().st_size
        for pair, other in (("a copy", copy), ("all values differ", tuned)):
            folders = [other, base]
            works: dict[str, Callable[[], None]] = {
                f"{pair}: plain read, {piece >> 20} MiB": partial(_read, folders, piece) for piece in PIECES
            }
            for name, kernel in kernels().items():
                works[f"{pair}: counted, {name}"] = partial(_counted, folders, kernel)
            took = _best(works, repeats)
            plain = min(took[name] for name in list(works)[: len(PIECES)])
            least_cpu = min(took[name][1] for name in list(works)[: len(PIECES)])
            rows += [_row(name, took[name], (plain[0], least_cpu), n_bytes) for name in works]
    columns = ["", "GB/s", "of the plain read", "CPU s a GB", "of the plain read's CPU"]
    note = (
        f"Two models of {layers} BF16 matrices of {SHAPE[0]} by {SHAPE[1]}, {n_bytes / 1e9:.1f} GB together, "
        f"in the cache of the system; {os.cpu_count()} cores, each way in turn, best of {repeats} rounds. "
        "A plain read is both files into one buffer each, side by side; the faster one is 100%."
    )
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def _written(folder: Path, layers: int, name: str) -> Path:
    """Write drawn weights; ``tuned`` differs from them by a few steps nearly everywhere."""
    folder.mkdir()
    rng, other = np.random.default_rng(0), np.random.default_rng(1)
    tensors = {}
    for layer in range(layers):
        values = rng.standard_normal(SHAPE, dtype=np.float32) * np.float32(0.02)
        if name == "tuned":
            values += other.standard_normal(SHAPE, dtype=np.float32) * np.float32(0.001)
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        tensors[f"model.layers.{layer}.self_attn.q_proj.weight"] = RawTensor("BF16", SHAPE, bits.tobytes())
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    (folder / "config.json").write_text("{}")
    return folder


def _read(folders: list[Path], piece: int) -> None:
    def one(folder: Path) -> None:
        buffer = bytearray(piece)
        with (folder / "model.safetensors").open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(one, folders))


def _counted(folders: list[Path], kernel: Kernel) -> None:
    with (
        patch("modelkin.comparison.relation.counts.chosen_kernel", lambda n_bytes: kernel),
        open_model(str(folders[0])) as mine,
        open_model(str(folders[1])) as theirs,
    ):
        count_tensors(mine, theirs)


def _best(works: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, tuple[float, float]]:
    """Take turns, so that other load on the machine affects all alike; the first round compiles."""
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            took[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: (min(wall for wall, _ in times[1:]), min(cpu for _, cpu in times[1:]))
        for name, times in took.items()
    }


def _row(name: str, took: tuple[float, float], plain: tuple[float, float], n_bytes: int) -> list[str]:
    return [
        name,
        f"{n_bytes / took[0] / 1e9:.2f}",
        f"{plain[0] / took[0]:.0%}",
        f"{took[1] / n_bytes * 1e9:.3f}",
        f"{took[1] / plain[1]:.1f}x",
    ]
