"""Random mutation of headers and index files; `tests.fuzz` runs it for as long as you like.

Whatever comes, the parsers either refuse with their own error or return what two other parsers agree with:
the reference library for files, Python's json for the text. A failure prints the input.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import safetensors

from modelkin.errors import FormatError, HeaderError, IndexFileError
from modelkin.formats.safetensors import header_length, parse_header
from modelkin.formats.safetensors.header import SafetensorsHeader
from modelkin.formats.shards import ShardIndex, parse_shard_index
from modelkin.tensors import DTYPES
from modelkin.untrusted import name_problem

FILE = "f.safetensors"

# What the formats are made of, and what has broken parsers before.
FRAGMENTS = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\0", b"\xff", b"\xed\xa0\x80", b"-"),
    *(
        b"0",
        b"1",
        b"4",
        b"8",
        b"16",
        b"1.0",
        b"1e3",
        b"01",
        b"-0",
        b"-1",
        b"true",
        b"null",
        b"NaN",
        b"Infinity",
    ),
    *(b"4294967296", b"9223372036854775807", b"18446744073709551615", b"18446744073709551616", b"9" * 50),
    *(
        b'"dtype"',
        b'"shape"',
        b'"data_offsets"',
        b'"__metadata__"',
        b'"weight_map"',
        b'"metadata"',
        b"{}",
        b"[]",
    ),
    *(
        b"\\u0000",
        b"\\ud800",
        b"\\u0061",
        b"\\/",
        b"../",
        b"/",
        b"~",
        b"%2e",
        b"C:",
        b".safetensors",
        b"[[[[[[[[",
    ),
    *(f'"{name}"'.encode() for name in DTYPES),
]


def check_file(file: bytes) -> SafetensorsHeader | None:
    """Parse a whole file; None when it is refused."""
    try:
        end = header_length(file[:8], file=FILE, file_size=len(file))
        parsed = parse_header(file[:end], file=FILE, file_size=len(file))
    except HeaderError as error:
        _check_sentence(error)
        return None
    text = json.loads(file[8:end])
    assert parsed.metadata == (text.pop("__metadata__", None) or {})
    assert {info.name for info in parsed.tensors} == {name for name in text if not name_problem(name)}
    for info in parsed.tensors:
        fields = text[info.name]
        assert (info.dtype, list(info.shape)) == (fields["dtype"], fields["shape"])
        assert [info.start - end, info.stop - end] == fields["data_offsets"]
    # Accepts a superset: it must not refuse, and must see the same bytes.
    library = safetensors.deserialize(file)
    theirs = {name: bytes(tensor["data"]) for name, tensor in library if not name_problem(name)}
    assert theirs == {info.name: file[info.start : info.stop] for info in parsed.tensors}
    return parsed


def check_index(data: bytes) -> ShardIndex | None:
    """Parse an index file; None when it is refused."""
    try:
        parsed = parse_shard_index(data, file="sub/model.safetensors.index.json")
    except IndexFileError as error:
        _check_sentence(error)
        return None
    text = json.loads(data)
    assert parsed.metadata == (text.get("metadata") or {})
    listed = {name: f"sub/{shard}" for name, shard in text["weight_map"].items()}
    assert parsed.weight_map == {name: shard for name, shard in listed.items() if not name_problem(name)}
    assert set(parsed.files) == set(listed.values())
    for path in parsed.files:
        assert path.startswith("sub/")
        assert path.endswith(".safetensors")
        assert re.search(r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\\:]|/~", path) is None
    return parsed


def _check_sentence(error: FormatError) -> None:
    assert str(error).isprintable()
    assert len(str(error)) < 1000


def some_file(rng: random.Random) -> tuple[bytes, bytes]:
    """Make a well-formed file: header text and data."""
    entries: dict[str, object] = {}
    if rng.random() < 0.4:
        entries["__metadata__"] = rng.choice([None, {}, {"format": "pt"}, {"a": "\u00e9\n", "b": '"'}])
    position = 0
    for i in range(rng.randrange(5)):
        dtype = DTYPES[rng.choice(sorted(DTYPES))]
        shape = [rng.choice([0, 1, 2, 4, 8]) for _ in range(rng.randrange(4))]
        if dtype.bits < 8:
            shape.append(dtype.group)
        count = 1
        for axis in shape:
            count *= axis
        stop = position + dtype.n_bytes(count)
        fields = [("dtype", dtype.name), ("shape", shape), ("data_offsets", [position, stop])]
        rng.shuffle(fields)
        entries[f"model.layers.{i}.weight"] = dict(fields)
        position = stop
    return _text(rng, entries) + b" " * rng.randrange(3), rng.randbytes(position)


def some_index(rng: random.Random) -> bytes:
    """Make a well-formed index file."""
    weight_map = {
        f"model.layers.{i}.weight": f"model-{i % 3}.safetensors" for i in range(rng.randrange(1, 6))
    }
    entries: dict[str, object] = {"weight_map": weight_map}
    if rng.random() < 0.7:
        entries["metadata"] = rng.choice([None, {}, {"total_size": 12}, {"a": [1, {"b": None}], "c": 1.5}])
    return _text(rng, entries)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change a text in a few places."""
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 8])):
        here, there = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        match rng.randrange(6):
            case 0:
                data = data[:here] + rng.choice(FRAGMENTS) + data[here:]
            case 1:
                data = data[:here] + rng.choice(FRAGMENTS) + data[here + rng.randrange(8) :]
            case 2:
                data = data[:here] + data[min(there, here + rng.randrange(40)) :]
            case 3:
                data = data[:here] + data[here:there] * 2 + data[there:]
            case 4:
                data = data[:here] + bytes([rng.randrange(256)]) + data[here + 1 :]
            case 5:
                numbers = list(re.finditer(rb"\d+", data))
                if numbers:
                    found = rng.choice(numbers)
                    data = data[: found.start()] + rng.choice(FRAGMENTS) + data[found.end() :]
    return data


def try_file(rng: random.Random) -> bool:
    """Try one file; say whether it was accepted."""
    text, payload = some_file(rng)
    text = mutated(rng, text)
    length = len(text) if rng.random() < 0.95 else rng.choice([0, len(text) + 1, 2**31, 2**63, 2**64 - 1])
    if rng.random() < 0.05:
        payload = payload[:-1] if rng.random() < 0.5 else payload + b"\0"
    return _reported(check_file, length.to_bytes(8, "little") + text + payload)


def try_index(rng: random.Random) -> bool:
    """Try one index file; say whether it was accepted."""
    return _reported(check_index, mutated(rng, some_index(rng)))


def _reported(check: Callable[[bytes], object], data: bytes) -> bool:
    try:
        return check(data) is not None
    except BaseException:
        print(f"{check.__name__} failed on\n{data!r}")
        raise


def _text(rng: random.Random, entries: dict[str, object]) -> bytes:
    separators = rng.choice([(",", ":"), (", ", ": ")])
    return json.dumps(entries, separators=separators, ensure_ascii=rng.random() < 0.5).encode()
