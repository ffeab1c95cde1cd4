"""Speed of turning stored bytes into float32, compared with ml_dtypes and a plain copy, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.machine import touch_memory
from benchmarks.tables import Table, times
from modelkin.tensors import decode

_TYPES: dict[str, Any] = {
    "BF16": ml_dtypes.bfloat16,
    "F16": np.float16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F4": ml_dtypes.float4_e2m1fn,
}
CHUNK = 8 << 20
"""Stored bytes of a piece, as a streaming pass has them."""


def best_cpu(work: Callable[[], object], *, repeats: int) -> float:
    """Return the smallest CPU time of several runs."""
    took: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def run(*, quick: bool = False) -> str:
    """Measure each format; return it as Markdown."""
    repeats = 3 if quick else 15
    touch_memory(1 << 28)
    rows = [_row(dtype, repeats=repeats) for dtype in _TYPES]
    columns = [
        "format",
        "GB/s stored",
        "million weights/s",
        "faster than astype by",
        "time / copy of the float32",
    ]
    note = f"One thread, pieces of {CHUNK >> 20} MiB, least CPU time of {repeats} runs."
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def _row(dtype: str, *, repeats: int) -> list[str]:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, CHUNK, dtype=np.uint8).tobytes()
    if dtype == "F4":
        # ml_dtypes keeps one code per byte: it skips the unpacking that ours does.
        codes = rng.integers(0, 16, 2 * CHUNK, dtype=np.uint8).view(_TYPES[dtype])
    else:
        codes = np.frombuffer(data, _TYPES[dtype])
    wide = np.zeros(codes.size, np.float32)
    ours = best_cpu(lambda: decode(data, dtype, codes.size), repeats=repeats)
    theirs = best_cpu(lambda: codes.astype(np.float32), repeats=repeats)
    copy = best_cpu(wide.copy, repeats=repeats)
    return [
        dtype,
        f"{CHUNK / ours / 1e9:.2f}",
        f"{codes.size / ours / 1e6:.0f}",
        times(theirs / ours),
        times(ours / copy),
    ]
