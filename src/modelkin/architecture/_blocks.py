"""Which tensors form a layer, when names do not say it in a known way: by a number in them, or by order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_MAX_NUMBERS: Final = 3
_MAX_OUTSIDE: Final = 16
_FEWEST_LAYERS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBlocks:
    """The layers of a checkpoint.

    Parameters
    ----------
    layers
        Number of each layer to its tensors, in order.
    outside
        All other tensors, in order.
    n_before
        How many of those stand before the first layer.
    """

    layers: Mapping[int, tuple[str, ...]]
    outside: tuple[str, ...]
    n_before: int


def natural_order(names: Sequence[str]) -> list[str]:
    """Sort names as people do: ``w_2`` before ``w_10``."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"([0-9]{1,9})", name)
        return [(0, int(part), "") if place % 2 else (1, 0, part) for place, part in enumerate(parts)]

    return sorted(names, key=key)


def find_blocks(
    names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int
) -> Iterator[LayerBlocks]:
    """Yield ways to see layers of `length` tensors each, by numbers first."""
    for place in range(_MAX_NUMBERS):
        if (found := _numbered(names, shapes, length, place)) is not None:
            yield found
    if (found := _repeated(names, shapes, length)) is not None:
        yield found


def _numbered(
    names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int, place: int
) -> LayerBlocks | None:
    """Take tensors with one number in common, at the same place of their names, for a layer."""
    groups: dict[int, list[str]] = {}
    for name in names:
        numbers = _NUMBER.findall(name)
        if len(numbers) > place:
            groups.setdefault(int(numbers[place]), []).append(name)
    layers = {number: tuple(members) for number, members in groups.items() if len(members) == length}
    kinds = {_shapes_of(members, shapes) for members in layers.values()}
    if len(layers) < _FEWEST_LAYERS or len(kinds) != 1 or len(layers) != len(groups):
        return None
    return _blocks(names, dict(sorted(layers.items())))


def _repeated(names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], length: int) -> LayerBlocks | None:
    """Find the longest repetition of a stretch of shapes, near the beginning."""
    every = [shapes[name] for name in names]
    best, first = 0, 0
    for start in range(min(_MAX_OUTSIDE, len(names)) + 1):
        count = 1
        pattern = every[start : start + length]
        while pattern == every[start + count * length : start + (count + 1) * length]:
            count += 1
        if count > best and len(pattern) == length:
            best, first = count, start
    if best < _FEWEST_LAYERS:
        return None
    layers = {
        number: tuple(names[first + number * length : first + (number + 1) * length])
        for number in range(best)
    }
    return _blocks(names, layers)


def _blocks(names: Sequence[str], layers: Mapping[int, tuple[str, ...]]) -> LayerBlocks:
    inside = {name for members in layers.values() for name in members}
    before = next((place for place, name in enumerate(names) if name in inside), len(names))
    return LayerBlocks(
        layers=layers, outside=tuple(name for name in names if name not in inside), n_before=before
    )


def _shapes_of(
    members: Sequence[str], shapes: Mapping[str, tuple[int, ...]]
) -> frozenset[tuple[tuple[int, ...], int]]:
    return frozenset(Counter(shapes[name] for name in members).items())
