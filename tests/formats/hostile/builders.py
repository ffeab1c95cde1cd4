"""Small safetensors files and shard indexes, well-formed or broken in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from modelkin.formats.safetensors import parse_header
from modelkin.formats.safetensors.header import SafetensorsHeader

FILE = "model-00002.safetensors"
INDEX = "model.safetensors.index.json"


def entry(dtype: object = "F32", shape: object = (2, 2), offsets: object = (0, 16)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def with_length(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return len(raw).to_bytes(8, "little") + raw


def header(entries: Mapping[str, object]) -> bytes:
    return with_length(json.dumps(entries, separators=(",", ":")))


def parse(head: bytes, *, data_bytes: int, file: str = FILE) -> SafetensorsHeader:
    return parse_header(head, file=file, file_size=len(head) + data_bytes)


def packed(sizes: Sequence[tuple[str, int]]) -> bytes:
    """Header of one-byte tensors that lie one after another."""
    entries: dict[str, object] = {}
    position = 0
    for name, size in sizes:
        entries[name] = entry("U8", [size], [position, position + size])
        position += size
    return header(entries)


def index_bytes(weight_map: object, **more: object) -> bytes:
    return json.dumps({**more, "weight_map": weight_map}).encode()
