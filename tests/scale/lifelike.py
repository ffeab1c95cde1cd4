"""Weights as large published models have them, at any shape: drawn when they are read, or whole.

Unlike normal numbers they have directions that most rows share (a spectrum that falls like a power), residual
dimensions that stick out in every tensor, rows of very different length, single large weights, and gains that
are far from one. `Synthetic` rounds them to BF16.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from benchmarks.alignment_subject import Extent, Gpt2Shape, Rows, Subject, Synthetic
from benchmarks.peers_subject import MixtureShape, tokenizer_json
from tests.support import LlamaShape, llama_config, to_bfloat16

from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint

LIFELIKE = "lifelike-"
"""What the names of `grown` models begin with."""
_DEVIATION = 0.02
_DIRECTIONS = 24
"""Directions that rows of a tensor have in common, the k-th of them in proportion to k to the power -0.7."""
_LARGE_SHARE, _LARGE = 0.002, 6.0
"""Single weights that are so many times as large."""
_OUTLIERS, _OUTLIER = 0.002, 8.0
"""Residual dimensions that stick out, at least three of them, and by how much."""


def lifelike_rows(seed: int, name: str, extent: Extent, first: int, last: int) -> Rows:
    """Draw a block of rows; see `benchmarks.alignment_subject.Draw`."""
    if len(extent) == 1:
        return _gains(seed, name, extent[0])[first:last, None]
    width = extent[-1]
    basis, scales = _of_tensor(seed, name, width)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), first])
    n = last - first
    rows = rng.standard_normal((n, width), dtype=np.float32)
    rows += rng.standard_normal((n, len(basis)), dtype=np.float32) @ basis
    where = rng.integers(0, rows.size, size=int(_LARGE_SHARE * rows.size))
    rows.reshape(-1)[where] *= np.float32(_LARGE)
    rows *= scales
    rows *= (_DEVIATION * rng.lognormal(sigma=0.35, size=(n, 1))).astype(np.float32)
    return rows


@lru_cache(maxsize=64)
def _of_tensor(seed: int, name: str, width: int) -> tuple[Rows, Rows]:
    """Return the common directions of a tensor, and how large its columns are."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 1 << 40])
    n = min(_DIRECTIONS, max(1, width // 8))
    sizes = np.arange(1, n + 1, dtype=np.float32)[:, None] ** np.float32(-0.7)
    basis = rng.standard_normal((n, width), dtype=np.float32) * sizes
    scales = rng.lognormal(sigma=0.2, size=width).astype(np.float32)
    scales[_sticking_out(seed, width)] *= np.float32(_OUTLIER)
    return basis, scales


@lru_cache(maxsize=64)
def _gains(seed: int, name: str, width: int) -> Rows:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 1 << 41])
    if name.endswith("bias"):
        return rng.normal(scale=0.05, size=width).astype(np.float32)
    gains = rng.lognormal(mean=-0.6, sigma=0.25, size=width).astype(np.float32)
    gains[_sticking_out(seed, width)] *= np.float32(0.2)
    return gains


@lru_cache(maxsize=64)
def _sticking_out(seed: int, width: int) -> np.ndarray:
    rng = np.random.default_rng([seed, width, 1 << 42])
    return rng.choice(width, size=max(3, int(_OUTLIERS * width)), replace=False)


SHAPES: Mapping[str, LlamaShape | MixtureShape | Gpt2Shape] = {
    "width 96": LlamaShape(layers=4, hidden=96, mlp=256, heads=6, kv_heads=2, vocab=1_000),
    "width 256": LlamaShape(layers=6, hidden=256, mlp=704, heads=8, kv_heads=4, vocab=4_000),
    "width 256, 96 layers": LlamaShape(layers=96, hidden=256, mlp=704, heads=8, kv_heads=4, vocab=1_000),
    "width 1,024": LlamaShape(layers=6, hidden=1_024, mlp=2_816, heads=16, kv_heads=4, vocab=32_000),
    "width 4,096, 14,336 units": LlamaShape(
        layers=4, hidden=4_096, mlp=14_336, heads=32, kv_heads=8, vocab=32_000
    ),
    "width 4,096, 256 k tokens": LlamaShape(
        layers=4, hidden=4_096, mlp=11_008, heads=32, kv_heads=8, vocab=256_000
    ),
    "width 5,120": LlamaShape(layers=4, hidden=5_120, mlp=13_824, heads=40, kv_heads=40, vocab=32_000),
    "8 experts": MixtureShape(
        layers=4, hidden=1_024, mlp=2_816, expert_mlp=704, experts=8, heads=16, head_dim=64, vocab=8_000
    ),
    "64 experts": MixtureShape(
        layers=4, hidden=2_048, mlp=5_632, expert_mlp=704, experts=64, heads=16, head_dim=128, vocab=8_000
    ),
    "256 experts": MixtureShape(
        layers=3, hidden=4_096, mlp=10_944, expert_mlp=1_408, experts=256, heads=32, vocab=8_000
    ),
    "GPT-2, width 1,024": Gpt2Shape(layers=4, hidden=1_024, heads=16, vocab=8_000, positions=512),
    "GPT-2, width 5,120": Gpt2Shape(layers=3, hidden=5_120, heads=40, vocab=8_000, positions=512),
}
"""What strangers are drawn in: every size that methods, guards and plans depend on, at both ends."""


@lru_cache(maxsize=4)
def subject_of(name: str) -> Subject:
    """Return the tensors and the config of a shape."""
    shape = SHAPES[name]
    if isinstance(shape, MixtureShape):
        return Subject.mixture(shape)
    return Subject.gpt2(shape) if isinstance(shape, Gpt2Shape) else Subject.llama(shape)


def drawn(name: str, *, seed: int) -> Synthetic:
    """Return a model of a shape; its weights are drawn when they are read."""
    subject = subject_of(name)
    return Synthetic(subject, seed=seed, vocabulary=1, draw=lifelike_rows, name=f"{name} {seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A Llama or a Mixtral of which every weight is made, so that arithmetic can be done on it."""

    width: int
    layers: int
    units: int
    """Of an MLP, or of each expert."""
    heads: int
    kv_heads: int
    vocab: int
    experts: int = 0
    """In every layer; 0 makes a Llama."""

    @property
    def model_type(self) -> str:
        """The ``model_type`` of its config."""
        return "mixtral" if self.experts else "llama"

    def shape(self) -> LlamaShape:
        """Return its sizes."""
        return LlamaShape(
            layers=self.layers,
            hidden=self.width,
            mlp=self.units,
            heads=self.heads,
            kv_heads=self.kv_heads,
            vocab=self.vocab,
        )

    def tensors(self) -> Iterator[tuple[str, Extent]]:
        """Yield names and shapes; in a mixture every MLP becomes a router and its experts."""
        for name, extent in self.shape().tensors():
            head, middle, part = name.partition("mlp.")
            if not self.experts or not middle:
                yield name, extent
                continue
            if part.startswith("gate_proj"):
                yield f"{head}block_sparse_moe.gate.weight", (self.experts, self.width)
            matrix = _EXPERT_NAMES[part.removesuffix(".weight")]
            for expert in range(self.experts):
                yield f"{head}block_sparse_moe.experts.{expert}.{matrix}.weight", extent

    def config(self) -> dict[str, Any]:
        """Return the contents of ``config.json``."""
        config = llama_config(self.shape(), dtype="BF16")
        if self.experts:
            config |= {
                "architectures": ["MixtralForCausalLM"],
                "model_type": "mixtral",
                "num_local_experts": self.experts,
                "num_experts_per_tok": 2,
            }
        return config

    def drawn(self, *, seed: int) -> Checkpoint:
        """Return one with every weight, rounded to BF16; all of these share a tokenizer."""
        tensors = {}
        for tensor, extent in self.tensors():
            rows = lifelike_rows(seed, tensor, extent, 0, extent[0]).reshape(extent)
            codes = to_bfloat16(rows).astype(np.uint32)  # bit patterns, of which the lower half is gone
            tensors[tensor] = (codes << np.uint32(16)).view(np.float32)
        return Checkpoint(
            config=self.config(),
            tensors=tensors,
            tokenizer=tokenizer_json(self.vocab, seed=1).decode(),
        )


_EXPERT_NAMES = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
GROWN: Mapping[str, Grown] = {
    "width 256": Grown(width=256, layers=6, units=704, heads=8, kv_heads=4, vocab=2_000),
    "width 1,024": Grown(width=1_024, layers=6, units=2_816, heads=16, kv_heads=4, vocab=8_000),
    "width 4,096": Grown(width=4_096, layers=4, units=4_608, heads=32, kv_heads=8, vocab=8_000),
    "width 4,096, 2 layers": Grown(width=4_096, layers=2, units=2_048, heads=32, kv_heads=8, vocab=4_000),
    "width 5,120": Grown(width=5_120, layers=4, units=4_096, heads=40, kv_heads=10, vocab=8_000),
    "64 experts": Grown(width=512, layers=4, units=128, heads=8, kv_heads=4, vocab=2_000, experts=64),
    "8 experts, width 4,096": Grown(
        width=4_096, layers=2, units=512, heads=32, kv_heads=8, vocab=2_000, experts=8
    ),
    "64 experts, width 2,048": Grown(
        width=2_048, layers=2, units=128, heads=16, kv_heads=4, vocab=2_000, experts=64
    ),
    "256 experts, width 1,024": Grown(
        width=1_024, layers=2, units=64, heads=16, kv_heads=4, vocab=2_000, experts=256
    ),
    "96 layers": Grown(width=256, layers=96, units=256, heads=8, kv_heads=4, vocab=1_000),
    "256 k tokens": Grown(width=256, layers=4, units=704, heads=8, kv_heads=4, vocab=256_000),
}
"""By what is large in them. Four layers are the fewest of which two teach coordinates and two are tested; in
those of two, tokens or keys teach them."""


@lru_cache(maxsize=2)
def grown(name: str) -> Checkpoint:
    """Return ``lifelike-KEY-base``, ``-stranger`` or ``-tuned``, the base with a change of every matrix."""
    role = name.rpartition("-")[2]
    if role == "tuned":
        base = grown(f"{name.removesuffix(role)}base")
        return derive.add_noise(base, size=0.05, rng=np.random.default_rng(3))
    return size_of(name).drawn(seed=2 if role == "stranger" else 1)


def size_of(name: str) -> Grown:
    """Return the sizes of a model that has such a name, without drawing it."""
    return GROWN[name.removeprefix(LIFELIKE).rpartition("-")[0]]
