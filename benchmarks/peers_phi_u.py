"""phi_U of Zhu, Ahmed, Kuditipudi and Liang (ICML 2025) as a tool that reads whole tensors; needs scipy.

The test is `modelkin.reference.zhu`'s; measured here is the cost of fetching every up matrix with one
request.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_job import answer_job
from modelkin.message import Message
from modelkin.reference.tails import fisher_log10_p
from modelkin.reference.zhu import log10_p_of_order

Matrix = NDArray[np.float32]


def log10_p_of_match(candidate: Matrix, base: Matrix) -> float:
    """Return log10 of the p-value of one layer: match, then Spearman, one-sided."""
    found = log10_p_of_order(candidate, base)
    if isinstance(found, Message):
        raise TypeError(str(found))
    return found


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Read the up matrices of some layers of two models of a Hub as a whole, and test them."""
    models = [_Model(f"{job['endpoint']}/{job[side]}/resolve/main/") for side in ("candidate", "base")]
    found = [
        log10_p_of_match(*(model.matrix(f"model.layers.{layer}.mlp.up_proj.weight") for model in models))
        for layer in job["layers"]
    ]
    log10_p = fisher_log10_p(found)
    return {"verdict": "dependent" if log10_p < -6 else "no evidence", "strength": f"p {10**log10_p:.2g}"}


class _Model:
    """Whole tensors of a sharded model, over one request each."""

    def __init__(self, url: str) -> None:
        self._url = url
        index = json.loads(self._read("model.safetensors.index.json"))
        self._shards: dict[str, str] = index["weight_map"]
        self._headers: dict[str, tuple[int, dict[str, Any]]] = {}

    def matrix(self, name: str) -> Matrix:
        shard = self._shards[name]
        if shard not in self._headers:
            length = int.from_bytes(self._read(shard, 0, 8), "little")
            self._headers[shard] = 8 + length, json.loads(self._read(shard, 8, 8 + length))
        begin, header = self._headers[shard]
        start, stop = header[name]["data_offsets"]
        data = self._read(shard, begin + start, begin + stop)
        if header[name]["dtype"] == "F16":
            values = np.frombuffer(data, "<f2").astype(np.float32)
        else:
            values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return values.reshape(header[name]["shape"])

    def _read(self, file: str, start: int | None = None, stop: int | None = None) -> bytes:
        headers = {} if start is None or stop is None else {"Range": f"bytes={start}-{stop - 1}"}
        request = urllib.request.Request(self._url + file, headers=headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            data: bytes = answer.read()
        return data


if __name__ == "__main__":
    answer_job(work)
