"""Models that fit in a test: tiny Llamas of random numbers, and huge ones that are computed when read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from modelkin.formats.safetensors import RawTensor, safetensors_bytes
from modelkin.formats.safetensors.writing import StoredTensor, safetensors_head

FloatName = Literal["F32", "BF16", "F16"]

_TORCH_NAMES: dict[FloatName, str] = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_INITIALISER_RANGE = 0.02
INDEX_NAME = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """The sizes of a Llama. The defaults make a model of 34 thousand weights."""

    layers: int = 2
    hidden: int = 32
    mlp: int = 64
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 128
    tied: bool = False
    """Whether the output matrix is the embedding and is not stored."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield names and shapes in the order of the model's state dict."""
        kv = self.hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "self_attn.q_proj.weight", (self.hidden, self.hidden)
            yield prefix + "self_attn.k_proj.weight", (kv, self.hidden)
            yield prefix + "self_attn.v_proj.weight", (kv, self.hidden)
            yield prefix + "self_attn.o_proj.weight", (self.hidden, self.hidden)
            yield prefix + "mlp.gate_proj.weight", (self.mlp, self.hidden)
            yield prefix + "mlp.up_proj.weight", (self.mlp, self.hidden)
            yield prefix + "mlp.down_proj.weight", (self.hidden, self.mlp)
            yield prefix + "input_layernorm.weight", (self.hidden,)
            yield prefix + "post_attention_layernorm.weight", (self.hidden,)
        yield "model.norm.weight", (self.hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, self.hidden)


BIG_LLAMA = LlamaShape(layers=48, hidden=4096, mlp=11008, heads=32, kv_heads=32, vocab=32000)
"""The layers of a 7B model, 48 of them: 10 billion weights, 20 GB in bfloat16."""


def llama_config(shape: LlamaShape | None = None, *, dtype: FloatName = "F32") -> dict[str, Any]:
    """Return the contents of ``config.json``."""
    shape = shape or LlamaShape()
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.hidden // shape.heads,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "initializer_range": _INITIALISER_RANGE,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": _TORCH_NAMES[dtype],
    }


def llama_tensors(
    shape: LlamaShape | None = None, *, seed: int = 0, dtype: FloatName = "F32"
) -> dict[str, NDArray[Any]]:
    """Return a Llama as it is before training, but with norms that are not all one.

    Parameters
    ----------
    shape
        Its sizes; tiny when None.
    seed
        Equal seeds give equal models, up to the rounding of `dtype`.
    dtype
        Of all arrays. ``BF16`` arrays have the dtype of ml_dtypes.
    """
    rng = np.random.default_rng(seed)
    tensors: dict[str, NDArray[Any]] = {}
    for name, extent in (shape or LlamaShape()).tensors():
        values = rng.normal(scale=_INITIALISER_RANGE, size=extent).astype(np.float32)
        if len(extent) == 1:
            values += np.float32(1)
        tensors[name] = _cast(values, dtype)
    return tensors


def llama_files(
    shape: LlamaShape | None = None, *, seed: int = 0, dtype: FloatName = "F32", n_shards: int = 1
) -> dict[str, bytes]:
    """Return a repository: ``config.json`` and one safetensors file, or several with their index."""
    tensors = llama_tensors(shape, seed=seed, dtype=dtype)
    config = {"config.json": json.dumps(llama_config(shape, dtype=dtype), indent=2).encode()}
    if n_shards == 1:
        return {**config, "model.safetensors": safetensors_bytes(tensors)}
    return {**config, **sharded(tensors, n_shards)}


def virtual_llama(
    shape: LlamaShape = BIG_LLAMA, *, seed: int = 0, dtype: FloatName = "BF16", n_shards: int = 4
) -> dict[str, bytes | VirtualFile]:
    """Return a repository of any size: real configuration, index and headers, virtual data.

    The numbers are normally distributed; norms are no exception.
    """
    width = 4 if dtype == "F32" else 2
    layout = {name: (dtype, extent, width * math.prod(extent)) for name, extent in shape.tensors()}
    groups = split_by_size({name: size for name, (_, _, size) in layout.items()}, n_shards)
    files: dict[str, bytes | VirtualFile] = {
        "config.json": json.dumps(llama_config(shape, dtype=dtype), indent=2).encode()
    }
    phase = 0
    for number, names in enumerate(groups, start=1):
        head, _ = safetensors_head({name: layout[name] for name in names})
        size = sum(layout[name][2] for name in names)
        file = VirtualFile(size=len(head) + size, head=head, fill=dtype, seed=seed, phase=phase)
        files[shard_name(number, len(groups)) if len(groups) > 1 else "model.safetensors"] = file
        phase += size
    if len(groups) > 1:
        files[INDEX_NAME] = index_bytes(groups, phase)
    return files


def _cast(values: NDArray[np.float32], dtype: FloatName) -> NDArray[Any]:
    match dtype:
        case "F32":
            return values
        case "F16":
            return values.astype(np.float16)
        case "BF16":
            return to_bfloat16(values).view(ml_dtypes.bfloat16)


Fill = Literal["zeros", "BF16", "F16", "F32"]
"""What the data are: zeros, or normally distributed weights of a dtype."""

# Four times a prime: whole elements of every dtype, and no tensor whose size is a power of two meets the same
# phase again, so that two layers do not hold equal numbers.
_PERIOD = 4 * 1_048_583
# The usual initialiser_range of language models; its square is far from the underflow of float16.
_DEVIATION = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFile:
    """A file of `size` bytes: `head` as given, then data that depend on `fill`, `seed` and position only.

    The data repeat every 4 MB. Two files are equal when all their fields are.
    """

    size: int
    head: bytes = b""
    fill: Fill = "BF16"
    seed: int = 0
    phase: int = 0
    """How many bytes of the data come before this file, so that shards go on where others end."""

    def __post_init__(self) -> None:
        if self.size < len(self.head):
            raise ValueError(f"size must be at least len(head) = {len(self.head)}, got {self.size}")

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes from `start` to before `stop`, in pieces that are views, not copies."""
        stop = min(stop, self.size)
        if start < len(self.head):
            yield memoryview(self.head)[start : min(stop, len(self.head))]
            start = len(self.head)
        if start >= stop:
            return
        block = memoryview(_block(self.fill, self.seed))
        while start < stop:
            at = (start - len(self.head) + self.phase) % len(block)
            piece = block[at : at + stop - start]
            yield piece
            start += len(piece)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        return b"".join(self.pieces(start, stop))

    @property
    def sha256(self) -> str:
        """An identity that looks like a digest. It is made from the fields: the bytes would take too long."""
        fields = (self.size, hashlib.sha256(self.head).hexdigest(), self.fill, self.seed, self.phase)
        return hashlib.sha256(repr(fields).encode()).hexdigest()


@lru_cache(maxsize=32)
def _block(fill: Fill, seed: int) -> bytes:
    if fill == "zeros":
        return bytes(_PERIOD)
    itemsize = 4 if fill == "F32" else 2
    weights = np.random.default_rng(seed).standard_normal(_PERIOD // itemsize, dtype=np.float32)
    weights *= np.float32(_DEVIATION)
    match fill:
        case "BF16":
            return to_bfloat16(weights).tobytes()
        case "F16":
            return weights.astype("<f2").tobytes()
        case "F32":
            return weights.astype("<f4").tobytes()


def to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bit patterns of the nearest bfloat16 values, ties to even; NaN stays NaN."""
    values = np.asarray(values, dtype="<f4")
    bits = values.view("<u4")
    # Adding just under half of the last kept place, plus that place's own bit, rounds ties to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    # The addition above would carry a NaN with a large payload over into zero.
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")


def sharded(tensors: Mapping[str, StoredTensor], n_shards: int) -> dict[str, bytes]:
    """Return the files of a model in shards of about equal size, with their index.

    Tensors are dealt out in the order given. There are fewer shards than asked for when single tensors are
    larger than a shard.
    """
    sizes = {name: _n_bytes(tensor) for name, tensor in tensors.items()}
    groups = split_by_size(sizes, n_shards)
    files = {
        shard_name(number, len(groups)): safetensors_bytes({name: tensors[name] for name in names})
        for number, names in enumerate(groups, start=1)
    }
    return {**files, INDEX_NAME: index_bytes(groups, sum(sizes.values()))}


def split_by_size(sizes: Mapping[str, int], n_shards: int) -> list[list[str]]:
    """Cut a list of tensors where its running size passes each n-th part of the whole."""
    if n_shards < 1:
        raise ValueError(f"n_shards must be at least 1, got {n_shards}")
    share = max(1, math.ceil(sum(sizes.values()) / n_shards))
    groups: dict[int, list[str]] = {}
    before = 0
    for name, size in sizes.items():
        groups.setdefault(before // share, []).append(name)
        before += size
    return list(groups.values())


def shard_name(number: int, n_shards: int) -> str:
    """Return the usual name of a shard; `number` begins at 1."""
    return f"model-{number:05d}-of-{n_shards:05d}.safetensors"


def index_bytes(groups: list[list[str]], total_size: int) -> bytes:
    """Return the index file of shards whose tensors are given."""
    weight_map = {
        name: shard_name(number, len(groups))
        for number, names in enumerate(groups, start=1)
        for name in names
    }
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(weight_map.items()))}
    return json.dumps(index, indent=2).encode()


def _n_bytes(tensor: StoredTensor) -> int:
    return len(tensor.data) if isinstance(tensor, RawTensor) else tensor.nbytes
