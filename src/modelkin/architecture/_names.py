"""Tensor names as templates: ``model.layers.3.mlp.up_proj.weight`` is ``model.layers.#.mlp.up_proj.weight``.

A model with a hundred thousand tensors has some dozens of templates, so families are tried on templates.
"""

from __future__ import annotations

import re
from typing import Final, Literal

NUMBER: Final = "#"

# A whole component of digits. More than nine are no index of anything, and int() of huge ones is slow.
_INDEX: Final = re.compile(r"(?<![^.])[0-9]{1,9}(?![^.])")

Slot = Literal["layer", "expert"] | int
"""What a number in a name stands for; a plain number has to be that very number."""


def split_name(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the template of a tensor name and the numbers that stood in it."""
    numbers = _INDEX.findall(name)
    return (_INDEX.sub(NUMBER, name) if numbers else name), tuple(map(int, numbers))


def split_pattern(pattern: str) -> tuple[str, tuple[Slot, ...]]:
    """Return the template of a pattern and its slots; raise `ValueError` if a placeholder is not known."""
    slots: list[Slot] = []
    pieces = pattern.split(".")
    for position, piece in enumerate(pieces):
        if piece == "{layer}":
            slots.append("layer")
        elif piece == "{expert}":
            slots.append("expert")
        elif piece.isdecimal() and piece.isascii():
            slots.append(int(piece))
        elif "{" in piece or "}" in piece or not piece:
            raise ValueError(f"cannot read {piece!r} in the name {pattern!r}")
        else:
            continue
        pieces[position] = NUMBER
    return ".".join(pieces), tuple(slots)


def fits(slots: tuple[Slot, ...], numbers: tuple[int, ...]) -> bool:
    """Whether the numbers of a name are legal for the slots of a pattern with the same template."""
    return all(slot == number for slot, number in zip(slots, numbers, strict=True) if isinstance(slot, int))
