"""Every value of two models, counted in one pass, against a plain read of the same bytes in the same run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
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
PIECE = 8 << 20


def run(*, quick: bool = False) -> str:
    """Measure each way of counting; return it as Markdown."""
    layers, repeats = (4, 2) if quick else (16, 5)
    with tempfile.TemporaryDirectory() as place:
        folders = [_written(Path(place) / name, layers, changed=name == "b") for name in ("a", "b")]
        n_bytes = sum((folder / "model.safetensors").stat().st_size for folder in folders)
        plain = _best(lambda: _read(folders), repeats)
        rows = [_row("plain read", plain, plain, n_bytes)]
        for name, kernel in kernels().items():
            work = partial(_counted, folders, kernel)
            work()  # numba compiles
            rows.append(_row(f"counted, {name}", _best(work, repeats), plain, n_bytes))
    columns = ["", "GB/s", "of the plain read", "CPU s a GB", "of the plain read's CPU"]
    note = (
        f"Two models of {layers} BF16 matrices of {SHAPE[0]} by {SHAPE[1]}, {n_bytes / 1e9:.1f} GB together, "
        f"in the cache of the system; {os.cpu_count()} cores, best of {repeats} runs; three of four layers "
        "differ everywhere. A plain read is both files into one buffer each, side by side."
    )
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def _written(folder: Path, layers: int, *, changed: bool) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    tensors = {}
    for layer in range(layers):
        values = rng.standard_normal(SHAPE, dtype=np.float32) * np.float32(0.02)
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        bits = bits + np.uint16(layer % 4) if changed else bits
        tensors[f"model.layers.{layer}.self_attn.q_proj.weight"] = RawTensor("BF16", SHAPE, bits.tobytes())
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    (folder / "config.json").write_text("{}")
    return folder


def _read(folders: list[Path]) -> None:
    def one(folder: Path) -> None:
        buffer = bytearray(PIECE)
        with (folder / "model.safetensors").open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(one, folders))


def _counted(folders: list[Path], kernel: Kernel) -> None:
    with (
        patch("modelkin.comparison.relation.counts.kernels", lambda: {"chosen": kernel}),
        open_model(str(folders[0])) as mine,
        open_model(str(folders[1])) as theirs,
    ):
        count_tensors(mine, theirs)


def _best(work: Callable[[], None], repeats: int) -> tuple[float, float]:
    took = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        took.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in took), min(cpu for _, cpu in took)


def _row(name: str, took: tuple[float, float], plain: tuple[float, float], n_bytes: int) -> list[str]:
    return [
        name,
        f"{n_bytes / took[0] / 1e9:.2f}",
        f"{plain[0] / took[0]:.0%}",
        f"{took[1] / n_bytes * 1e9:.3f}",
        f"{took[1] / plain[1]:.1f}x",
    ]
