"""Models derived from published ones row by row, when their bytes are read: nothing is written, little held.

A tensor is a rule that gives its rows (`Rows`); a model is a table of them and a config (`Lazy`). Comparisons
read a few per cent of 2.9 GB, so only those are ever computed. `tests.scale.changes` has the rules.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import modelkin as mk
from modelkin.casework.lab.checkpoint import layer_of
from modelkin.formats.safetensors.writing import safetensors_head
from modelkin.source import ByteRange, FileInfo, Location, Source
from modelkin.source.interface import ByteBudget
from modelkin.tensors import TensorInfo, decode, encode

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
_SAMPLED_ROWS = 64
_AT_ONCE = 1 << 22
"""Numbers that are computed in one step."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A tensor by its rows; a vector is one row."""

    shape: tuple[int, ...]
    get: Callable[[Places], Floats] = field(repr=False)
    """Return the rows with these numbers."""

    @property
    def n_rows(self) -> int:
        return self.shape[0] if len(self.shape) == 2 else 1

    @property
    def n_columns(self) -> int:
        return self.shape[-1]

    def then(self, change: Callable[[Floats, Places], Floats]) -> Rows:
        """Return the tensor with a change made to each row; it is given rows and their numbers."""
        return Rows(self.shape, lambda rows: change(self.get(rows), rows))

    def whole(self) -> Floats:
        """Return all rows."""
        return self.get(np.arange(self.n_rows))

    def sample(self) -> Floats:
        """Return some rows, spread over the tensor."""
        return self.get(np.unique(np.linspace(0, self.n_rows - 1, _SAMPLED_ROWS).astype(np.intp)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lazy:
    """A model as a table of rules."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Rows] = field(repr=False)
    tokenizer: bytes | None = field(default=None, repr=False)

    def mapped(self, change: Callable[[str, Rows], Rows]) -> Lazy:
        """Return the model with a change made to every tensor."""
        return self.replaced({name: change(name, rows) for name, rows in self.tensors.items()})

    def replaced(self, tensors: Mapping[str, Rows], **config: object) -> Lazy:
        """Return the model with these tensors, and some keys of the config, instead."""
        return Lazy(config={**self.config, **config}, tensors=tensors, tokenizer=self.tokenizer)

    def with_layers(self, layers: Sequence[Sequence[int]]) -> Lazy:
        """Return a model of which each layer is the mean of some of this one."""
        tensors = {name: rows for name, rows in self.tensors.items() if layer_of(name) is None}
        for new, old in enumerate(layers):
            for name in self.tensors:
                if layer_of(name) == old[0]:
                    tensors[_renumbered(name, new)] = _mean(
                        [self.tensors[_renumbered(name, layer)] for layer in old]
                    )
        return self.replaced(tensors, num_hidden_layers=len(layers))

    def source(self, name: str) -> LazySource:
        """Return what modelkin reads."""
        return LazySource(self, name)


def _renumbered(name: str, layer: int) -> str:
    return re.sub(r"\blayers\.\d+\.", f"layers.{layer}.", name, count=1)


def _mean(items: Sequence[Rows]) -> Rows:
    if len(items) == 1:
        return items[0]
    share = np.float32(1 / len(items))
    return Rows(items[0].shape, lambda rows: np.asarray(sum(item.get(rows) * share for item in items)))


def stored(folder: Path) -> Lazy:
    """Return a model in one file of safetensors, read where it lies."""
    with mk.open_model(str(folder)) as model:
        infos = dict(model.index.items())
        config = {**(model.config or {})}
        tokenizer = model.read_file("tokenizer.json", limit=64 << 20)
    return Lazy(
        config=config,
        tensors={str(name): _stored(folder / info.file, info) for name, info in infos.items()},
        tokenizer=tokenizer,
    )


def _stored(path: Path, info: TensorInfo) -> Rows:
    columns = info.shape[-1]
    n_bytes = (info.stop - info.start) // (info.n_elements // columns)

    def get(rows: Places) -> Floats:
        out = np.empty((len(rows), columns), dtype=np.float32)
        file = os.open(path, os.O_RDONLY)
        try:
            # Neighbours are read as one.
            ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1), len(rows)]
            begin = 0
            for end in ends:
                n = int(end - begin)
                data = os.pread(file, n * n_bytes, info.start + int(rows[begin]) * n_bytes)
                out[begin:end] = decode(data, info.dtype, n * columns).reshape(n, columns)
                begin = int(end)
        finally:
            os.close(file)
        return out

    return Rows(tuple(info.shape), get)


def written(model: str, folder: Path, *, layers: int) -> Path:
    """Write the first layers of a model of any format in bfloat16, once, and return the folder."""
    if (folder / "model.safetensors").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with mk.open_model(model) as opened:
        names = [str(name) for name in opened.index if (layer_of(str(name)) or 0) < layers]
        shapes = {name: opened.index[name].shape for name in names}
        head, order = safetensors_head(
            {name: ("BF16", shape, 2 * int(np.prod(shape))) for name, shape in shapes.items()}
        )
        partial = folder / "model.partial"
        with partial.open("wb") as out:
            out.write(head)
            for name in order:
                out.write(encode(opened.tensor(name), "BF16"))
        config = {**(opened.config or {}), "num_hidden_layers": layers, "torch_dtype": "bfloat16"}
        tokenizer = opened.read_file("tokenizer.json", limit=64 << 20)
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = kinds[:layers]
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if tokenizer is not None:
        (folder / "tokenizer.json").write_bytes(tokenizer)
    partial.replace(folder / "model.safetensors")
    return folder


class LazySource(Source):
    """A derived model as modelkin sees it: a folder with a file of safetensors in bfloat16."""

    remote = False

    def __init__(self, model: Lazy, name: str) -> None:
        self._model, self._name = model, name
        self.budget = ByteBudget()
        sizes = {key: 2 * rows.n_rows * rows.n_columns for key, rows in model.tensors.items()}
        self._head, order = safetensors_head(
            {key: ("BF16", rows.shape, sizes[key]) for key, rows in model.tensors.items()}
        )
        self._starts: list[int] = []
        self._order = order
        end = len(self._head)
        for key in order:
            self._starts.append(end)
            end += sizes[key]
        self._small = {"config.json": json.dumps(dict(model.config), sort_keys=True).encode()}
        if model.tokenizer is not None:
            self._small["tokenizer.json"] = model.tokenizer
        self._files = {
            file: FileInfo(name=file, size=len(data), etag=hashlib.sha256(data).hexdigest())
            for file, data in self._small.items()
        }
        self._files["model.safetensors"] = FileInfo(name="model.safetensors", size=end, etag=name)

    @property
    def location(self) -> Location:
        """A name, since there is no place."""
        return Location(kind="memory", ref=self._name, origin=f"memory:{self._name}")

    def files(self) -> dict[str, FileInfo]:
        """Return all files."""
        return dict(sorted(self._files.items()))

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        self.budget.reserve(wanted.length, where=file.name)
        if file.name in self._small:
            return self._small[file.name][wanted.start : wanted.stop]
        parts = [self._head[wanted.start : wanted.stop]]
        position = max(wanted.start, len(self._head))
        while position < wanted.stop:
            number = bisect_right(self._starts, position) - 1
            rows = self._model.tensors[self._order[number]]
            data = _bytes(rows, position - self._starts[number], wanted.stop - self._starts[number])
            parts.append(data)
            position += len(data)
        return b"".join(parts)


def _bytes(rows: Rows, start: int, stop: int) -> bytes:
    """Return the bytes of a tensor from `start` to before `stop`, or to the end of a step."""
    length = 2 * rows.n_columns
    first = start // length
    last = min(-(-stop // length), rows.n_rows, first + max(1, _AT_ONCE // rows.n_columns))
    data = encode(rows.get(np.arange(first, last)), "BF16")
    return data[start - first * length : stop - first * length]


def once(make: Callable[[], Floats]) -> Callable[[], Floats]:
    """Return a function that computes its array at the first call."""
    return cache(make)
