"""``tokenizer_config.json`` of both models, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from modelkin.errors import TokenizerError

from ._json_file import load_object

MAX_SETTINGS_BYTES = 4 * 1024 * 1024
_ELSEWHERE = ("added_tokens_decoder",)
"""Fields that are compared in another place."""
_LONGEST = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field; None stands for a file that lacks it."""

    name: str
    candidate: str | None
    base: str | None
    equal: bool


def read_settings(data: bytes) -> Mapping[str, object] | None:
    """Parse the file; None when it is no JSON object."""
    try:
        return load_object("tokenizer_config.json", data)
    except TokenizerError:
        return None


def compare_settings(
    candidate: Mapping[str, object] | None, base: Mapping[str, object] | None
) -> tuple[Setting, ...]:
    """Compare all fields, by name; nothing when neither model has the file."""
    mine, theirs = candidate or {}, base or {}
    return tuple(
        Setting(
            name=name,
            candidate=_shown(mine[name]) if name in mine else None,
            base=_shown(theirs[name]) if name in theirs else None,
            equal=name in mine and name in theirs and mine[name] == theirs[name],
        )
        for name in sorted(mine.keys() | theirs.keys())
        if name not in _ELSEWHERE
    )


def _shown(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        value = value["content"]  # an added token with its flags
    text = json.dumps(value, ensure_ascii=True)
    if len(text) <= _LONGEST:
        return text
    digest = sha256(text.encode()).hexdigest()[:12]
    return f"{text[: _LONGEST - 30]}… ({len(text)} characters, sha256 {digest})"
