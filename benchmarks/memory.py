"""Peak memory in fresh processes: streaming over models of growing size, and a look into a huge one."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import HubProcess, LlamaShape, VirtualFile, virtual_llama

from benchmarks.peers_job import peak_bytes
from benchmarks.subject import DIRECT, REPO
from benchmarks.tables import Table, times
from benchmarks.worker import environment
from modelkin.formats.safetensors.writing import safetensors_head

LAYER = LlamaShape(layers=1, hidden=2048, mlp=5632, heads=16, kv_heads=2, vocab=16_000)
LARGEST_LOCAL = 2e9
"""Reading holes of a sparse file is slow on some systems, and larger models show nothing new."""
_BYTES_A_LAYER = 2 * sum(math.prod(extent) for name, extent in LAYER.tensors() if ".layers." in name)


def llama_of(n_bytes: float) -> LlamaShape:
    """Return a Llama of about this size in BF16: more layers of the same kind."""
    n_layers = max(1, round(n_bytes / _BYTES_A_LAYER))
    return LlamaShape(layers=n_layers, hidden=2048, mlp=5632, heads=16, kv_heads=2, vocab=16_000)


def mixture(
    *, n_layers: int = 60, n_experts: int = 332, expert: int = 820, hidden: int = 2048, n_shards: int = 48
) -> dict[str, bytes | VirtualFile]:
    """Return a mixture of experts of 200 GB in 60 thousand tensors, which exists only as headers."""
    groups: dict[str, dict[str, tuple[str, tuple[int, ...], int]]] = {}
    weight_map: dict[str, str] = {}
    for layer in range(n_layers):
        shard = f"model-{layer * n_shards // n_layers + 1:05d}-of-{n_shards:05d}.safetensors"
        for number in range(n_experts):
            for part in ("gate_proj", "up_proj", "down_proj"):
                extent = (hidden, expert) if part == "down_proj" else (expert, hidden)
                name = f"model.layers.{layer}.mlp.experts.{number}.{part}.weight"
                groups.setdefault(shard, {})[name] = ("BF16", extent, 2 * expert * hidden)
                weight_map[name] = shard
    files: dict[str, bytes | VirtualFile] = {
        "config.json": json.dumps({"model_type": "qwen3_moe", "num_hidden_layers": n_layers}).encode(),
        "model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": weight_map}).encode(),
    }
    for shard, layout in groups.items():
        head, _ = safetensors_head(layout)
        size = len(head) + sum(n_bytes for _, _, n_bytes in layout.values())
        files[shard] = VirtualFile(size=size, head=head)
    return files


def run(*, quick: bool = False) -> str:
    """Measure streaming and inspecting; return it as Markdown."""
    sizes = (0.25e9, 1e9) if quick else (0.5e9, 2e9, 8e9)
    rows: list[list[str]] = []
    peaks: dict[str, list[float]] = {"Hub": [], "local": []}
    totals: list[int] = []
    for size in sizes:
        files = virtual_llama(llama_of(size), n_shards=4)
        total = sum(_size(file) for file in files.values())
        totals.append(total)
        with HubProcess({REPO: files}, DIRECT.options()) as hub, tempfile.TemporaryDirectory() as folder:
            write_sparse(Path(folder) / "model", files)
            places = {"Hub": REPO, "local": str(Path(folder) / "model")}
            for place, model in places.items():
                if place == "local" and size > LARGEST_LOCAL:
                    continue
                found = _in_process("stream", model=model, endpoint=hub.url, home=Path(folder))
                peaks[place].append(found["peak_bytes"])
                rows.append(_row(f"stream, {place}", total, found))
    files = mixture(n_layers=6 if quick else 60)
    total = sum(_size(file) for file in files.values())
    with HubProcess({REPO: files}, DIRECT.options()) as hub, tempfile.TemporaryDirectory() as folder:
        found = _in_process("inspect", model=REPO, endpoint=hub.url, home=Path(folder))
        rows.append(_row(f"inspect, Hub, {found['n_tensors']:,} tensors", total, found))
    columns = ["pass", "model GB", "peak MB", "over imports MB", "seconds", "CPU s"]
    ratios = ", ".join(f"{place} {times(max(some) / min(some))}" for place, some in peaks.items())
    note = f"Largest peak over smallest: {ratios}. Largest model over smallest: {totals[-1] / totals[0]:.0f}."
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def write_sparse(folder: Path, files: Mapping[str, bytes | VirtualFile]) -> None:
    """Write a model whose data are holes: it has its size, and takes no room on the disk."""
    folder.mkdir()
    for name, file in files.items():
        with (folder / name).open("wb") as out:
            out.write(file if isinstance(file, bytes) else file.head)
            out.truncate(_size(file))


def _size(file: bytes | VirtualFile) -> int:
    return len(file) if isinstance(file, bytes) else file.size


def _row(name: str, total: int, found: Mapping[str, Any]) -> list[str]:
    return [
        name,
        f"{total / 1e9:.2f}",
        f"{found['peak_bytes'] / 1e6:.0f}",
        f"{(found['peak_bytes'] - found['base_bytes']) / 1e6:.0f}",
        f"{found['seconds']:.2f}",
        f"{found['cpu_seconds']:.2f}",
    ]


def _in_process(work: str, *, model: str, endpoint: str, home: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", work, model, endpoint, str(home)],
        capture_output=True,
        text=True,
        env=environment(home, endpoint),
        cwd=Path(__file__).parents[1],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{work} {model} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(work: str, model: str, endpoint: str, home: str) -> dict[str, Any]:
    import huggingface_hub.utils  # noqa: F401

    from modelkin import FetchOptions, inspect_model, open_model

    options = FetchOptions(endpoint=endpoint, token=False, store_dir=Path(home) / "store")
    base, began, began_cpu = peak_bytes(), time.perf_counter(), time.process_time()
    n_elements, n_tensors = 0, 0
    with open_model(model, options) as opened:
        if work == "stream":
            for chunk in opened.chunks():
                n_elements += chunk.values.size
        else:
            inspect_model(opened)
        n_tensors = len(opened.index)
    return {
        "base_bytes": base,
        "peak_bytes": peak_bytes(),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "n_elements": n_elements,
        "n_tensors": n_tensors,
    }


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:5])))
