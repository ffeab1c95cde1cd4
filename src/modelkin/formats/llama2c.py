"""Checkpoints of llama2.c: a few sizes, then the weights of all layers kind by kind.

The files have no directory: where each tensor lies follows from the sizes. The first version does not even
begin with a magic number, so it is recognised by its length, which must match the sizes to the byte.

Queries and keys are stored in the order of Meta's own code, where the two dimensions that rotary positions
rotate together are neighbours. They are returned in the order of transformers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, final

import numpy as np

from modelkin.errors import FormatError, HeaderError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher, FileInfo
from modelkin.tensors import (
    Array,
    LinePlan,
    LineRuns,
    Storage,
    TensorIndex,
    TensorInfo,
    View,
    numbers_of,
    runs_of,
)

from .gguf import TYPES, BlockRows, PickedRows, RopeRows
from .interface import Request, Weights

MAGIC: Final = 0x616B3432
"""What files of version 1 and later begin with: "ak42"."""
_MARK: Final = MAGIC.to_bytes(4, "little")
_HEADER_BYTES: Final = 256
_FIRST_BYTES: Final = 28
_MAX_SIZE: Final = 1 << 24
_MAX_LAYERS: Final = 4096
_SCALES_LOOKED_AT: Final = 64
_F32: Final = TYPES[0]

_PER_LAYER: Final = {
    "attention_norm": "input_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "w1": "mlp.gate_proj",
    "w2": "mlp.down_proj",
    "w3": "mlp.up_proj",
}
_SINGLE: Final = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}
_LEGACY: Final = (
    *("embedding", "attention_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3", "norm"),
    *("cosines", "sines", "head"),
)
_NORMS: Final = ("attention_norm", "ffn_norm", "norm")
_MATRICES: Final = ("embedding", "wq", "wk", "wv", "wo", "w1", "w2", "w3", "head")
Version = Literal[0, 1, 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Sizes of a checkpoint."""

    version: Version
    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    positions: int
    tied: bool
    group: int = 0
    """Numbers that share a scale, in version 2."""

    @property
    def head_dim(self) -> int:
        """Dimensions of a head."""
        return self.dim // self.heads

    def problem(self) -> Message | None:
        """Say why these cannot be the sizes of a model."""
        sizes = self.dim, self.hidden, self.vocab, self.positions, self.heads, self.kv_heads
        if not all(0 < size <= _MAX_SIZE for size in sizes) or not 0 < self.layers <= _MAX_LAYERS:
            return say("problem.llama2c-sizes")
        if self.dim % self.heads or self.heads % self.kv_heads or self.head_dim % 2:
            return say("problem.llama2c-heads", n=self.heads, m=self.kv_heads, width=self.dim)
        if self.version == 2 and (self.group < 1 or self.dim % self.group):
            return say("problem.llama2c-groups", group=self.group, width=self.dim)
        return None

    def shape(self, kind: str) -> tuple[int, ...]:
        """Return the shape of one tensor of a kind."""
        keys = self.kv_heads * self.head_dim
        if kind in ("embedding", "head"):
            return self.vocab, self.dim
        if kind in ("cosines", "sines"):
            return self.positions, self.head_dim // 2
        shapes = {
            "wq": (self.dim, self.dim),
            "wk": (keys, self.dim),
            "wv": (keys, self.dim),
            "wo": (self.dim, self.dim),
            "w1": (self.hidden, self.dim),
            "w2": (self.dim, self.hidden),
            "w3": (self.hidden, self.dim),
        }
        return shapes.get(kind, (self.dim,))

    def order(self) -> Iterator[tuple[str, int | None]]:
        """Yield the kinds of all tensors with their layers, as they lie in the file."""
        kinds = _LEGACY if self.version == 0 else (*_NORMS, *_MATRICES)
        for kind in kinds:
            if kind == "head" and self.tied:
                continue
            if kind in _PER_LAYER:
                yield from ((kind, layer) for layer in range(self.layers))
            else:
                yield kind, None


@final
class Llama2cFormat:
    """One file."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Take the only ``.bin`` file next to a tokenizer, which is all that llama2.c writes."""
        names = [
            name for name in files if name.endswith(".bin") and name.rpartition("/")[2] != "tokenizer.bin"
        ]
        return names[0] if len(names) == 1 else None

    def read(self, request: Request) -> Weights:
        """Work out from the sizes where each tensor lies."""
        file = request.entry
        info = request.fetcher.source.need(file)
        start = ByteRange(0, min(_HEADER_BYTES, info.size))
        head = bytes(request.fetcher.fetch({file: [start]}, task=say("step-headers")).view(file, start))
        header = parse_header(head, file=file)
        tensors, end = _tensors(header, file)
        if end != info.size:
            raise (HeaderError if header.version else UnsupportedFormat)(
                file,
                say("problem.llama2c-size", n=end, got=info.size),
                hint=say("hint.no-llama2c"),
            )
        if header.version == 2:
            _check_scales(request.fetcher, header, file, tensors)
        return Weights(
            format="llama2.c",
            index=TensorIndex(tensors),
            config=_config(header),
            notes=(say("format.rows-llama2c"),),
        )


def recognises(head: bytes) -> bool:
    """Say whether a file with this beginning can be a checkpoint: its sizes are those of a model."""
    try:
        parse_header(head.ljust(_HEADER_BYTES, b"\0") if head[:4] == _MARK else head, file="")
    except FormatError:
        return False
    return True


def parse_header(head: bytes, *, file: str) -> Header:
    """Read the sizes; those that are not of a model are refused."""
    if len(head) < _FIRST_BYTES:
        raise UnsupportedFormat(file, say("problem.header-short", least=_FIRST_BYTES, got=len(head)))
    (magic,) = struct.unpack("<I", head[:4])
    if magic != MAGIC:
        dim, hidden, layers, heads, kv_heads, vocab, positions = struct.unpack("<7i", head[:_FIRST_BYTES])
        header = Header(
            version=0,
            dim=dim,
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            vocab=abs(vocab),
            positions=positions,
            tied=vocab > 0,
        )
        if problem := header.problem():
            raise UnsupportedFormat(
                file,
                say("problem.llama2c-other", problem=problem),
                hint=say("hint.bin-read"),
            )
        return header
    if len(head) < _HEADER_BYTES:
        raise HeaderError(file, say("problem.llama2c-header", n=_HEADER_BYTES, got=len(head)))
    version, dim, hidden, layers, heads, kv_heads, vocab, positions, tied, group = struct.unpack(
        "<8iBi", head[4:41]
    )
    if version not in (1, 2):
        raise UnsupportedFormat(file, say("problem.llama2c-version", got=version))
    header = Header(
        version=version,
        dim=dim,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        vocab=vocab,
        positions=positions,
        tied=tied != 0,
        group=group if version == 2 else 0,
    )
    if problem := header.problem():
        raise HeaderError(file, say("problem.llama2c-gives", problem=problem))
    return header


def _tensors(header: Header, file: str) -> tuple[list[TensorInfo], int]:
    """Return all tensors, and where the last one ends."""
    position = _FIRST_BYTES if header.version == 0 else _HEADER_BYTES
    found: list[TensorInfo] = []
    for kind, layer in header.order():
        shape = header.shape(kind)
        count = math.prod(shape)
        coded = header.version == 2 and kind in _MATRICES
        if coded and count % header.group:
            raise HeaderError(file, say("problem.numbers-groups", n=count, group=header.group))
        stop = position + (count + 4 * (count // header.group) if coded else 4 * count)
        if kind not in ("cosines", "sines"):
            name = _SINGLE[kind] if layer is None else f"model.layers.{layer}.{_PER_LAYER[kind]}"
            found.append(
                TensorInfo(
                    name=f"{name}.weight",
                    dtype="Q8" if coded else "F32",
                    shape=shape,
                    file=file,
                    start=position,
                    stop=stop,
                    storage=_storage(header, file, kind, position, coded=coded),
                )
            )
        position = stop
    return found, position


def _storage(header: Header, file: str, kind: str, start: int, *, coded: bool) -> Storage | None:
    if kind in _NORMS:
        return None
    (n_lines, width), turned = header.shape(kind), kind in ("wq", "wk")
    if coded:
        codes = GroupedCodes(
            file=file,
            start=start,
            scales=start + n_lines * width,
            group=header.group,
            n_lines=n_lines,
            width=width,
        )
        return RotaryOrder(inner=codes, head_dim=header.head_dim) if turned else codes
    if not turned:
        return None
    rows = BlockRows(file=file, start=start, type=_F32, n_rows=n_lines, width=width)
    return PickedRows(parts=(rows,), order=RopeRows(header.head_dim), n_bytes=rows.n_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryOrder:
    """The rows of queries or keys in transformers' order, from the order of Meta's own code."""

    inner: Storage
    head_dim: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return self.inner.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the stored lines, sorted; `build` puts them in order."""
        stored = RopeRows(self.head_dim).places(numbers_of(runs))[1]
        ordered, places = np.unique(stored, return_inverse=True)
        inner = self.inner.plan(runs_of(ordered))
        return LinePlan(ranges=inner.ranges, build=lambda view: inner.build(view)[places])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedCodes:
    """Bytes in groups of one size, each with a float32 scale, counted across the whole tensor.

    A group can span the end of a line.
    """

    file: str
    start: int
    scales: int
    group: int
    n_lines: int
    width: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes of codes and scales."""
        count = self.n_lines * self.width
        return count + 4 * (count // self.group)

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the codes of each run, and the scales of the groups it touches."""
        stretches = [(first * self.width, last * self.width) for first, last in runs]
        codes = [ByteRange(self.start + a, self.start + b) for a, b in stretches]
        groups = [(a // self.group, -(-b // self.group)) for a, b in stretches]
        scales = [ByteRange(self.scales + 4 * a, self.scales + 4 * b) for a, b in groups]
        return LinePlan(
            ranges={self.file: [*codes, *scales]}, build=partial(self._build, stretches, codes, scales)
        )

    def _build(
        self, stretches: list[tuple[int, int]], codes: list[ByteRange], scales: list[ByteRange], view: View
    ) -> Array:
        parts = []
        for (start, stop), code, scale in zip(stretches, codes, scales, strict=True):
            stored = np.frombuffer(view(self.file, code), np.int8).astype(np.float32)
            factors = np.repeat(np.frombuffer(view(self.file, scale), "<f4"), self.group)
            first = start % self.group
            with np.errstate(invalid="ignore", over="ignore"):
                parts.append(stored * factors[first : first + stop - start])
        return np.concatenate(parts).reshape(-1, self.width)


def _check_scales(fetcher: Fetcher, header: Header, file: str, tensors: list[TensorInfo]) -> None:
    """Refuse files from the first days of version 2, which have all scales at the end.

    Both layouts have the same length; if misread, the weights would be noise.
    """
    embedding = next(info for info in tensors if info.name == "model.embed_tokens.weight")
    start = embedding.start + header.vocab * header.dim
    place = ByteRange(start, min(start + 4 * _SCALES_LOOKED_AT, embedding.stop))
    scales = np.frombuffer(fetcher.fetch({file: [place]}, task=say("step-headers")).view(file, place), "<f4")
    # Scales are below 1; numbers that are no scales exceed a million sooner or later.
    if not (np.isfinite(scales).all() and (scales >= 0).all() and (scales < 1e6).all()):
        raise UnsupportedFormat(
            file,
            say("problem.llama2c-scales"),
            hint=say("hint.export-again"),
        )


def _config(header: Header) -> dict[str, object]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": header.dim,
        "intermediate_size": header.hidden,
        "num_hidden_layers": header.layers,
        "num_attention_heads": header.heads,
        "num_key_value_heads": header.kv_heads,
        "vocab_size": header.vocab,
        "max_position_embeddings": header.positions,
        "tie_word_embeddings": header.tied,
    }


FORMAT = Llama2cFormat()
