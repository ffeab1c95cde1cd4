"""Ways to read some tensors of a sharded model from a Hub. Each returns the same numbers.

The rivals are written as their users write them; none is slowed down on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

INDEX = "model.safetensors.index.json"

Values = Mapping[str, bytes | NDArray[Any]]
"""Name -> bytes as stored, or numbers for a way that decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to read, and where a way may keep things."""

    endpoint: str
    repo: str
    home: Path

    def url(self, file: str) -> str:
        """Return the address of a file on the Hub."""
        return f"{self.endpoint}/{self.repo}/resolve/main/{file}"


class Way(Protocol):
    """One way of reading. Made before the clock starts, so that imports are not counted."""

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Return the tensors."""
        ...


class RequestPerTensor:
    """One tensor after the other, each with a new connection and a newly fetched header."""

    def __init__(self) -> None:
        import requests

        self._get = requests.get

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Read length, header and data of each tensor with three requests."""
        shards = json.loads(self._get(target.url(INDEX), timeout=600).content)["weight_map"]
        return {name: self._tensor(target.url(shards[name]), name) for name in tensors}

    def _tensor(self, url: str, name: str) -> bytes:
        length = int.from_bytes(self._range(url, 0, 8), "little")
        header = self._range(url, 8, 8 + length)
        return self._range(url, *extents(header)[name])

    def _range(self, url: str, start: int, stop: int) -> bytes:
        answer = self._get(url, headers={"Range": f"bytes={start}-{stop - 1}"}, timeout=600)
        content: bytes = answer.content
        return content


class OneSession:
    """One tensor after the other over kept connections, each header fetched once."""

    def __init__(self) -> None:
        import requests

        self._session = requests.Session

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Read every tensor with one request, which the Hub redirects."""
        with self._session() as session:
            headers: dict[str, dict[str, tuple[int, int]]] = {}

            def read_range(url: str, start: int, stop: int) -> bytes:
                answer = session.get(url, headers={"Range": f"bytes={start}-{stop - 1}"}, timeout=600)
                content: bytes = answer.content
                return content

            shards = json.loads(session.get(target.url(INDEX), timeout=600).content)["weight_map"]
            values: dict[str, bytes] = {}
            for name in tensors:
                url = target.url(shards[name])
                if url not in headers:
                    length = int.from_bytes(read_range(url, 0, 8), "little")
                    headers[url] = extents(read_range(url, 8, 8 + length))
                values[name] = read_range(url, *headers[url][name])
            return values


class HubFileSystem:
    """`HfFileSystem`: one open file per shard, seek and read."""

    def __init__(self, **open_options: str) -> None:
        from huggingface_hub import HfFileSystem

        self._filesystem = HfFileSystem
        self._open_options = open_options

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Read headers once and each tensor with a seek."""
        filesystem = self._filesystem(endpoint=target.endpoint, token=False)
        shards = json.loads(filesystem.cat_file(f"{target.repo}/{INDEX}"))["weight_map"]
        files: dict[str, Any] = {}
        headers: dict[str, dict[str, tuple[int, int]]] = {}
        values: dict[str, bytes] = {}
        try:
            for name in tensors:
                shard = shards[name]
                if shard not in files:
                    path = f"{target.repo}/{shard}"
                    files[shard] = filesystem.open(path, "rb", **self._open_options)
                    headers[shard] = extents(
                        files[shard].read(int.from_bytes(files[shard].read(8), "little"))
                    )
                start, stop = headers[shard][name]
                files[shard].seek(start)
                values[name] = files[shard].read(stop - start)
        finally:
            for file in files.values():
                file.close()
        return values


class WholeShards:
    """`snapshot_download` of every shard that holds a wanted tensor, eight files at a time."""

    def __init__(self) -> None:
        from huggingface_hub import hf_hub_download, snapshot_download

        self._one = hf_hub_download
        self._many = snapshot_download

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Download, then read from disk."""
        options: dict[str, Any] = {"endpoint": target.endpoint, "cache_dir": target.home, "token": False}
        index = Path(self._one(target.repo, INDEX, **options)).read_bytes()
        shards = json.loads(index)["weight_map"]
        wanted = sorted({shards[name] for name in tensors})
        folder = Path(self._many(target.repo, allow_patterns=wanted, **options))
        values: dict[str, bytes] = {}
        for shard in wanted:
            with (folder / shard).open("rb") as file:
                header = extents(file.read(int.from_bytes(file.read(8), "little")))
                for name in tensors:
                    if shards[name] == shard:
                        file.seek(header[name][0])
                        values[name] = file.read(header[name][1] - header[name][0])
        return values


class Modelkin:
    """modelkin with its defaults, including the range store; it also decodes to float32."""

    def __init__(self, **fetch_options: Any) -> None:  # noqa: ANN401  passed on to FetchOptions
        from modelkin import FetchOptions, TensorSlice, open_model

        # Opening sends nothing, but imports what a model of a Hub needs: imports are not part of reading.
        open_model("some/model", FetchOptions(use_store=False, token=False)).close()
        self._open = open_model
        self._slice = TensorSlice
        self._options = FetchOptions
        self._fetch_options = fetch_options

    def read(self, target: Target, tensors: Sequence[str]) -> Values:
        """Read all tensors in one planned pass."""
        options = self._options(
            endpoint=target.endpoint, token=False, store_dir=target.home / "store", **self._fetch_options
        )
        with self._open(target.repo, options) as model:
            arrays = model.read([self._slice.whole(name) for name in tensors])
        return dict(zip(tensors, arrays, strict=True))


def make_way(name: str, **fetch_options: Any) -> Way:  # noqa: ANN401  passed on to FetchOptions
    """Return a way by its name."""
    match name:
        case "request-per-tensor":
            return RequestPerTensor()
        case "one-session":
            return OneSession()
        case "filesystem":
            return HubFileSystem()
        case "filesystem-uncached":
            return HubFileSystem(cache_type="none")
        case "whole-shards":
            return WholeShards()
        case "modelkin":
            return Modelkin(**fetch_options)
        case _:
            raise ValueError(f"name must be one of the ways, got {name!r}")


LABELS = {
    "request-per-tensor": "(a) a request per read, new connections, headers anew",
    "one-session": "(b) one session, headers kept",
    "filesystem": "(c) HfFileSystem, default cache",
    "filesystem-uncached": "(c) HfFileSystem, cache off",
    "whole-shards": "(d) whole shards, snapshot_download",
    "modelkin": "(e) modelkin",
}


def extents(header: bytes) -> dict[str, tuple[int, int]]:
    """Return where each tensor of a shard begins and ends in its file."""
    entries = json.loads(header)
    base = 8 + len(header)
    return {
        name: (base + entry["data_offsets"][0], base + entry["data_offsets"][1])
        for name, entry in entries.items()
        if name != "__metadata__"
    }


def stored_bytes(value: bytes | NDArray[Any]) -> bytes:
    """Return BF16 as it was stored, also from a float32 that was decoded: its upper half."""
    if isinstance(value, bytes):
        return value
    bits = np.ascontiguousarray(value).view(np.uint32)
    return (bits >> np.uint32(16)).astype("<u2").tobytes()
