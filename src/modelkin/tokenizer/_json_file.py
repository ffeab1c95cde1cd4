"""JSON of a tokenizer: as large as they come, and from strangers."""

from __future__ import annotations

import json

from modelkin.errors import TokenizerError

_MAX_CONTAINERS = 4_000_000
"""Each list or object takes some 60 bytes of memory for 2 of the file. Public files have 0.6 million."""


def load_object(file: str, data: bytes) -> dict[str, object]:
    """Parse a JSON object; refuse what is none, names a key twice, or would take far more memory than it has.

    Raises
    ------
    TokenizerError
        It is not such an object.
    """
    if data.count(b"[") + data.count(b"{") > _MAX_CONTAINERS:
        raise TokenizerError(file, f"expected at most {_MAX_CONTAINERS:,} lists and objects, got more")
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(file, f"expected JSON, got something else ({str(error)[:80]})") from error
    if not isinstance(document, dict):
        raise TokenizerError(file, f"expected a JSON object, got {type(document).__name__}")
    return document


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found
