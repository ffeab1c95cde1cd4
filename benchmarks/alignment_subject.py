"""Models of 7B, 70B and 110B shape whose weights are computed when they are read, and disguised copies.

The virtual files of `tests.support` repeat every 4 MB, in every model at the same places. Where layers are
aligned that would look like similarity, so here every row of every tensor is drawn separately.
"""

from __future__ import annotations

import bisect
import json
import math
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from tests.support import LlamaShape, llama_config, to_bfloat16

from benchmarks.peers_subject import SEVEN_B, SEVENTY_B, MixtureShape, tokenizer_json
from modelkin.formats.safetensors.writing import safetensors_head
from modelkin.source import ByteRange, FileInfo, Location, Source
from modelkin.source.interface import ByteBudget

Rows = npt.NDArray[np.float32]
Extent = tuple[int, ...]
Disguise = Literal["none", "permutation", "rotation"]
Draw = Callable[[int, str, Extent, int, int], Rows]
"""Seed, name and shape of a tensor, first and last row of a block -> the block."""

_DEVIATION = 0.02
_BLOCK = 65_536
"""Values that are drawn at once."""
_FILE = "model.safetensors"
_WRITERS = ("o_proj.weight", "down_proj.weight", "c_proj.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Shape:
    """The sizes of a GPT-2, whose matrices are stored input-first. The defaults make 13 billion weights."""

    layers: int = 40
    hidden: int = 5120
    heads: int = 40
    vocab: int = 50_257
    positions: int = 2048

    def tensors(self) -> Iterator[tuple[str, Extent]]:
        """Yield names and shapes."""
        d = self.hidden
        yield "wte.weight", (self.vocab, d)
        yield "wpe.weight", (self.positions, d)
        for layer in range(self.layers):
            prefix = f"h.{layer}."
            for part, rows, columns in (
                ("attn.c_attn", d, 3 * d),
                ("attn.c_proj", d, d),
                ("mlp.c_fc", d, 4 * d),
                ("mlp.c_proj", 4 * d, d),
            ):
                yield f"{prefix}{part}.weight", (rows, columns)
                yield f"{prefix}{part}.bias", (columns,)
            for norm in ("ln_1", "ln_2"):
                yield f"{prefix}{norm}.weight", (d,)
                yield f"{prefix}{norm}.bias", (d,)
        yield "ln_f.weight", (d,)
        yield "ln_f.bias", (d,)

    def config(self) -> dict[str, Any]:
        """Return the contents of ``config.json``."""
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "activation_function": "gelu",
            "n_embd": self.hidden,
            "n_head": self.heads,
            "n_inner": None,
            "n_layer": self.layers,
            "n_positions": self.positions,
            "vocab_size": self.vocab,
            "tie_word_embeddings": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Tensors and config of a model of some shape."""

    tensors: tuple[tuple[str, Extent], ...] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    hidden: int
    vocab: int

    @classmethod
    def llama(cls, shape: LlamaShape) -> Subject:
        """Take the names of a Llama."""
        return cls(
            tensors=tuple(shape.tensors()),
            config=llama_config(shape, dtype="BF16"),
            hidden=shape.hidden,
            vocab=shape.vocab,
        )

    @classmethod
    def mixture(cls, shape: MixtureShape) -> Subject:
        """Take the names of a GLM-4.5 mixture."""
        tensors = tuple((name, extent) for _, name, extent in shape.tensors())
        return cls(tensors=tensors, config=shape.config(), hidden=shape.hidden, vocab=shape.vocab)

    @classmethod
    def gpt2(cls, shape: Gpt2Shape) -> Subject:
        """Take the names of a GPT-2."""
        return cls(
            tensors=tuple(shape.tensors()), config=shape.config(), hidden=shape.hidden, vocab=shape.vocab
        )


SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "7B": lambda: Subject.llama(SEVEN_B),
    "70B": lambda: Subject.llama(SEVENTY_B),
    "110B mixture": lambda: Subject.mixture(MixtureShape()),
    "13B GPT-2": lambda: Subject.gpt2(Gpt2Shape()),
}


@final
class Synthetic(Source):
    """A model that exists only as headers; rows are drawn when read, and that time is counted separately.

    Parameters
    ----------
    subject
        Its tensors.
    seed
        Of the weights.
    vocabulary
        Of the tokenizer: equal numbers give the same file.
    disguise
        How its residual stream is rotated. What reads the stream is rotated with it; what writes into it is
        redrawn: exact tests look at writers only in the old coordinates, where they look like noise anyway.
    hidden
        Whether MLP units and the heads of keys and values are also reordered, and token rows redrawn.
    draw
        How a block of rows is drawn.
    """

    remote = True

    def __init__(
        self,
        subject: Subject,
        *,
        seed: int,
        vocabulary: int,
        disguise: Disguise = "none",
        hidden: bool = False,
        draw: Draw | None = None,
        name: str = "model",
    ) -> None:
        self._draw = draw or plain_rows
        self.budget = ByteBudget()
        self.cpu_seconds = 0.0
        self._lock = threading.Lock()
        self._name = name
        self._seed, self._turn = seed, _turning(disguise, subject.hidden)
        self._hidden = subject.hidden
        self._reordered = hidden
        self._head_dim = int(subject.config.get("head_dim") or 0) or subject.hidden // int(
            subject.config.get("num_attention_heads") or 1
        )
        layout = {name: ("BF16", extent, 2 * math.prod(extent)) for name, extent in subject.tensors}
        self._head, self._names = safetensors_head(layout)
        self._extents = dict(subject.tensors)
        self._starts = np.cumsum([0, *(layout[name][2] for name in self._names)]).tolist()
        self._small = {
            "config.json": json.dumps(subject.config).encode(),
            "tokenizer.json": tokenizer_json(subject.vocab, seed=vocabulary),
        }
        sizes = {name: len(data) for name, data in self._small.items()}
        sizes[_FILE] = len(self._head) + self._starts[-1]
        self._files = {name: FileInfo(name=name, size=size) for name, size in sorted(sizes.items())}

    @property
    def location(self) -> Location:
        """A name, since it is nowhere in particular."""
        return Location(kind="memory", ref=self._name, origin=f"memory:{self._name}")

    def files(self) -> dict[str, FileInfo]:
        """Return all files."""
        return dict(self._files)

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        began = time.thread_time()
        self.budget.reserve(wanted.length, where=file.name)
        small = self._small.get(file.name)
        data = (
            small[wanted.start : wanted.stop]
            if small is not None
            else b"".join(self._pieces(wanted.start, wanted.stop))
        )
        with self._lock:
            self.cpu_seconds += time.thread_time() - began
        return data

    def _pieces(self, start: int, stop: int) -> Iterator[bytes]:
        if start < len(self._head):
            yield self._head[start:stop]
        start, stop = max(0, start - len(self._head)), stop - len(self._head)
        while start < stop:
            at = bisect.bisect_right(self._starts, start) - 1
            end = min(stop, self._starts[at + 1])
            yield from self._parts(self._names[at], start - self._starts[at], end - self._starts[at])
            start = end

    def _parts(self, name: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield bytes of one tensor, a few rows at a time: many threads read, and memory is measured."""
        extent = self._extents[name]
        width = extent[-1] if len(extent) > 1 else 1
        step = max(1, _BLOCK // width)
        for first in range(start // (2 * width) // step * step, -(-stop // (2 * width)), step):
            begin = 2 * width * first
            data = to_bfloat16(self._rows(name, extent, first, first + step)).tobytes()
            yield data[max(0, start - begin) : stop - begin]

    def _rows(self, name: str, extent: Extent, first: int, last: int) -> Rows:
        if len(extent) == 1:
            return self._draw(self._seed, name, extent, first, last)
        reads = extent[-1] == self._hidden and not name.endswith(_WRITERS)
        if self._reordered and name.endswith(("gate_proj.weight", "up_proj.weight")):
            first, last = self._moved(name, extent[-2], first, last)
        elif self._reordered and name.endswith(("k_proj.weight", "v_proj.weight")):
            first, last = self._moved_head(name, extent[-2], first, last)
        reads = reads and not (self._reordered and name.endswith(("embed_tokens.weight", "lm_head.weight")))
        seed = self._seed if self._turn is None or reads else self._seed + 1_000_003
        rows = self._draw(seed, name, extent, first, last)
        return rows if self._turn is None or not reads else self._turn(rows)

    def _moved(self, name: str, n_rows: int, first: int, last: int) -> tuple[int, int]:
        """Return where a block of units of the base is: whole blocks are moved."""
        step = max(1, _BLOCK // self._hidden)
        order = _order_of_blocks(name, n_rows // step)
        if first // step >= len(order):
            return first, last
        begin = int(order[first // step]) * step
        return begin, begin + last - first

    def _moved_head(self, name: str, n_rows: int, first: int, last: int) -> tuple[int, int]:
        """Return where a block of rows of the base is: heads are moved, blocks lie inside them."""
        order = _order_of_blocks(name, n_rows // self._head_dim)
        begin = int(order[first // self._head_dim]) * self._head_dim + first % self._head_dim
        return begin, begin + last - first


def plain_rows(seed: int, name: str, extent: Extent, first: int, last: int) -> Rows:
    """Draw a block of normal numbers; gains are one and biases zero."""
    if len(extent) == 1:
        return np.full((last - first, 1), 0.0 if name.endswith("bias") else 1.0, dtype=np.float32)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), first])
    rows = rng.standard_normal((last - first, extent[-1]), dtype=np.float32)
    rows *= np.float32(_DEVIATION)
    return rows


def _order_of_blocks(name: str, n_blocks: int) -> npt.NDArray[np.intp]:
    """Return where blocks of units of a layer went: the same for all its matrices."""
    layer = name.rpartition(".mlp.")[0] or name.rpartition(".self_attn.")[0]
    return np.random.default_rng([5, zlib.crc32(layer.encode())]).permutation(n_blocks)


def _turning(disguise: Disguise, width: int) -> Callable[[Rows], Rows] | None:
    rng = np.random.default_rng([77, width])
    order, signs = rng.permutation(width), rng.choice(np.array([-1, 1], np.float32), width)
    if disguise == "none":
        return None
    if disguise == "permutation":
        return lambda rows: np.ascontiguousarray(rows[:, order])
    return lambda rows: hadamard(rows * signs)[:, order]


def hadamard(rows: Rows) -> Rows:
    """Multiply by the orthogonal Hadamard matrix, which mixes every coordinate with all others."""
    n, width = rows.shape
    if width & (width - 1):
        raise ValueError(f"rows: expected a power of two as width, got {width}")
    half = 1
    while half < width:
        pairs = rows.reshape(n, -1, 2, half)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        rows = rows.reshape(n, width)
        half *= 2
    return np.asarray(rows / np.float32(math.sqrt(width)), dtype=np.float32)


def pair_of(name: str, kind: str) -> tuple[Synthetic, Synthetic]:
    """Return candidate and base: ``strangers``, a ``copy``, or a copy with a rotated residual stream.

    A ``hidden copy`` is rotated, has its units reordered, other token rows and another tokenizer.
    """
    subject = SUBJECTS[name]()
    base = Synthetic(subject, seed=1, vocabulary=1, name="base")
    if kind == "strangers":
        return Synthetic(subject, seed=2, vocabulary=2, name="candidate"), base
    if kind == "hidden copy":
        candidate = Synthetic(
            subject, seed=1, vocabulary=2, disguise="rotation", hidden=True, name="candidate"
        )
        return candidate, base
    disguises: Mapping[str, Disguise] = {
        "copy": "none",
        "permuted copy": "permutation",
        "rotated copy": "rotation",
    }
    return Synthetic(subject, seed=1, vocabulary=1, disguise=disguises[kind], name="candidate"), base


def stored_bytes(tensors: Iterable[tuple[str, Extent]]) -> int:
    """Return the size of all tensors in BF16."""
    return sum(2 * math.prod(extent) for _, extent in tensors)
