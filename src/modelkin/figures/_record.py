"""What descriptions are made of: immutable records, with their name in JSON."""

from __future__ import annotations

from msgspec import Struct


def _name(kind: str) -> str:
    return kind.removesuffix("Mark")


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="mark", tag=_name):
    """A part of a description."""
