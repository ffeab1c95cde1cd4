"""The notations of architecture files and of tensor names. Nothing is ever evaluated as Python.

A name is a template: ``model.layers.3.mlp.up_proj.weight`` is ``model.layers.#.mlp.up_proj.weight``. A model
with a hundred thousand tensors has some dozens of templates, so families are tried on templates. A size
expression is arithmetic over other sizes, whole numbers and ``config.<key>``; an axis product is spaces
multiplied, slowest first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final, Literal

NUMBER: Final = "#"

# A whole component of digits. More than nine digits are not an index, and int() of huge ones is slow.
_INDEX: Final = re.compile(r"(?<![^.])[0-9]{1,9}(?![^.])")

Slot = Literal["layer", "expert"] | int
"""What a number in a name stands for; a plain number must match exactly."""


def split_name(name: str) -> tuple[str, tuple[int, ...]]:
    """Return the template of a tensor name and the numbers in it."""
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


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


class Expression:
    """A size, written as arithmetic; any other text raises `ValueError`."""

    def __init__(self, text: str) -> None:
        try:
            self._tree = ast.parse(text, mode="eval").body
        except SyntaxError as exc:
            raise ValueError(f"cannot read the expression {text!r}") from exc
        sizes: set[str] = set()
        keys: set[str] = set()
        _collect(self._tree, text, sizes, keys)
        self.text = text
        self.sizes = frozenset(sizes)
        """Names of other sizes it needs."""
        self.config_keys = frozenset(keys)
        """Dotted paths it needs from the config."""

    @property
    def is_constant(self) -> bool:
        """Whether it needs neither sizes nor config: a default that only the code of the model knows."""
        return not self.sizes and not self.config_keys

    def evaluate(
        self, sizes: Mapping[str, int], config_number: Callable[[str], Fraction | None]
    ) -> int | None:
        """Return the size, or None if something is missing or the result is not a positive whole number."""
        value = _evaluate(self._tree, sizes, config_number)
        if value is None or value <= 0 or value.denominator != 1:
            return None
        return int(value)


def parse_product(text: str) -> tuple[str, ...]:
    """Split ``"heads * qk_dim"`` into its spaces; raise `ValueError` if it is not a product."""
    names = tuple(part.strip() for part in text.split("*"))
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"cannot read the axis {text!r}: expected spaces joined by '*'")
    return names


def _collect(node: ast.expr, text: str, sizes: set[str], keys: set[str]) -> None:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            _collect(left, text, sizes, keys)
            _collect(right, text, sizes, keys)
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            pass
        case ast.Name(id=name) if name != "config":
            sizes.add(name)
        case ast.Attribute():
            keys.add(_config_key(node, text))
        case _:
            raise ValueError(
                f"cannot read the expression {text!r}: only sizes, config.<key>, + - * / are legal"
            )


def _config_key(node: ast.Attribute, text: str) -> str:
    dotted = ast.unparse(node)
    if not dotted.startswith("config."):
        raise ValueError(f"cannot read the expression {text!r}: {dotted!r} does not start with 'config.'")
    return dotted.removeprefix("config.")


def _evaluate(
    node: ast.expr, sizes: Mapping[str, int], config_number: Callable[[str], Fraction | None]
) -> Fraction | None:
    match node:
        case ast.Constant(value=int() as value):
            return Fraction(value)
        case ast.Name(id=name):
            return Fraction(sizes[name]) if name in sizes else None
        case ast.Attribute():
            return config_number(ast.unparse(node).removeprefix("config."))
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _evaluate(left, sizes, config_number), _evaluate(right, sizes, config_number)
            return None if first is None or second is None else _apply(op, first, second)
        case _:  # pragma: no cover: `_collect` let nothing else through
            raise AssertionError(ast.dump(node))


def _apply(op: ast.operator, first: Fraction, second: Fraction) -> Fraction | None:
    match op:
        case ast.Add():
            return first + second
        case ast.Sub():
            return first - second
        case ast.Mult():
            return first * second
        case _:
            return first / second if second else None
