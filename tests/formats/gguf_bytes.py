"""GGUF files byte by byte: what no writer would write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

STRING, ARRAY = 8, 9
_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def scalar(kind: int, value: object) -> bytes:
    return struct.pack(f"<I{_FORMS[kind]}", kind, value)


def string(value: str) -> bytes:
    return struct.pack("<I", STRING) + text(value)


def array(kind: int, values: Sequence[object]) -> bytes:
    return struct.pack("<I", ARRAY) + bare_array(kind, values)


def bare_array(kind: int, values: Sequence[object]) -> bytes:
    """An array without its own type before it, as it stands inside another one."""
    head = struct.pack("<IQ", kind, len(values))
    if kind == STRING:
        return head + b"".join(text(str(value)) for value in values)
    if kind == ARRAY:
        return head + b"".join(bytes(value) for value in values)  # type: ignore[call-overload]
    return head + b"".join(struct.pack(f"<{_FORMS[kind]}", value) for value in values)


def tensor(name: str, dimensions: Sequence[int], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(dimensions))
        + b"".join(struct.pack("<Q", size) for size in dimensions)
        + struct.pack("<IQ", kind, offset)
    )


@dataclass
class GgufBytes:
    """A file from its parts."""

    keys: dict[str, bytes] = field(default_factory=dict)
    tensors: list[bytes] = field(default_factory=list)
    data: bytes = b""
    version: int = 3
    n_keys: int | None = None
    n_tensors: int | None = None
    alignment: int = 32

    def header(self) -> bytes:
        keys = b"".join(text(key) + value for key, value in self.keys.items())
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        return b"GGUF" + struct.pack("<IQQ", self.version, n_tensors, n_keys) + keys + b"".join(self.tensors)

    def build(self) -> bytes:
        header = self.header()
        return header + b"\0" * (-len(header) % self.alignment) + self.data


def small() -> GgufBytes:
    """A valid file of the Llama architecture, with everything that is parsed."""
    return GgufBytes(
        keys={
            "general.architecture": string("llama"),
            "llama.block_count": scalar(4, 1),
            "llama.attention.head_count": array(5, [2, 2]),
            "llama.rope.freq_base": scalar(6, 10000.0),
            "general.tags": array(STRING, ["a", "b"]),
            "nested": array(ARRAY, [bare_array(4, [1]), bare_array(4, [2])]),
            "tokenizer.ggml.model": string("llama"),
            "tokenizer.ggml.tokens": array(STRING, ["<s>", "▁a", "b", "<0x0A>"]),
            "tokenizer.ggml.scores": array(6, [0.0, -1.0, -2.0, 0.0]),
            "tokenizer.ggml.token_type": array(5, [3, 1, 1, 6]),
        },
        tensors=[
            tensor("token_embd.weight", (32, 4), 8, 0),
            tensor("blk.0.attn_q.weight", (32, 4), 0, 160),
            tensor("output_norm.weight", (32,), 0, 672),
        ],
        data=(bytes(range(256)) * 4)[:800],
    )
