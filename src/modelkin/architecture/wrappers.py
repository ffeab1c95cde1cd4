"""How a language model sits inside a larger checkpoint, and tensors that accompany a quantised weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from modelkin.structs import Fields, read_toml

from ._roles import Part
from .loader import read_data
from .spec import ArchitectureSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the names of a family are in a checkpoint."""

    outer: str
    """A prefix before every name."""
    body: str
    """What ``{body}`` stands for."""
    wrapped: str
    """The prefix a wrapper adds, or the empty string for a plain model."""


class Wrappers(Fields):
    """The file about wrappers."""

    format: Literal[1]
    outer: tuple[str, ...]
    """Prefixes before everything."""
    bodies: tuple[str, ...]
    """Prefixes before everything but the output head."""
    configs: tuple[str, ...]
    """Dotted paths at which the language model's config may sit."""
    components: dict[str, str]
    """Prefix of other components to what they are."""

    def component(self, name: str) -> str | None:
        """Return which component other than the language model a tensor belongs to, or None."""
        if not name.startswith(tuple(self.components)):
            return None
        return next((what for prefix, what in self.components.items() if name.startswith(prefix)), None)


class WeightPiece(Fields):
    """What a piece of a quantised weight is, and the suffix of the weight's name."""

    weight: str
    part: Part


class Quantization(Fields):
    """The file about quantised storage: suffixes of the names of pieces."""

    format: Literal[1]
    suffixes: dict[str, WeightPiece]


@cache
def wrappers() -> Wrappers:
    """Return what is known about wrappers."""
    return read_toml("wrappers.toml", read_data("wrappers.toml"), Wrappers)


@cache
def quantization_suffixes() -> Mapping[str, WeightPiece]:
    """Return the suffixes of quantised pieces."""
    return read_toml("quantization.toml", read_data("quantization.toml"), Quantization).suffixes


def placements(spec: ArchitectureSpec) -> tuple[Placement, ...]:
    """Return where the names of a family may be, plain ones first."""
    known = wrappers()
    plain = [Placement(outer="", body=body, wrapped="") for body in spec.bodies]
    moved = [Placement(outer="", body=body, wrapped=body) for body in known.bodies if body not in spec.bodies]
    nested = [
        Placement(outer=outer, body=body, wrapped=outer) for outer in known.outer for body in spec.bodies
    ]
    return (*plain, *nested, *moved)
