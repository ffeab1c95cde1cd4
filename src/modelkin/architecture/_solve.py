"""Which shapes of a layer can be which of its tensors: all ways to tell, so that doubt shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ._templates import Slot

Shape = tuple[int, ...]

_MAX_STEPS: Final = 20_000
_MAX_SOLUTIONS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How a layer can be read.

    Parameters
    ----------
    residual
        Width of the model.
    shapes
        The shape of each slot, in the order of the slots.
    doubtful
        Shapes that tensors of different meaning have: in this reading, or this one and another.
    """

    residual: int
    shapes: tuple[Shape, ...]
    doubtful: frozenset[Shape]


def solve(shapes: Sequence[Shape], slots: Sequence[Slot]) -> Solution | None:
    """Read the shapes of a layer as the slots of a template; None when they cannot be."""
    if len(shapes) != len(slots):
        return None
    found: list[tuple[int, tuple[Shape, ...]]] = []
    steps = [_MAX_STEPS]
    for width in sorted({shape[0] for shape in shapes if len(shape) == 1}):
        sizes = {"residual": width, "3 residual": 3 * width}
        for way in _ways(Counter(shapes), slots, sizes, steps):
            found.append((width, way))
            if len(found) == _MAX_SOLUTIONS:
                break
    if not found or steps[0] <= 0:
        return None
    meanings: dict[Shape, set[object]] = {}
    for width, way in found:
        for slot, shape in zip(slots, way, strict=True):
            meanings.setdefault(shape, set()).add((width, slot.axes))
    residual, way = found[0]
    return Solution(
        residual=residual,
        shapes=way,
        doubtful=frozenset(shape for shape, of in meanings.items() if len(of) > 1),
    )


def _ways(
    left: Counter[Shape], slots: Sequence[Slot], sizes: Mapping[str, int], steps: list[int]
) -> Iterator[tuple[Shape, ...]]:
    """Yield the shapes of all slots, one way after another."""
    if not slots:
        yield ()
        return
    for shape in [shape for shape, count in left.items() if count]:
        steps[0] -= 1
        if steps[0] <= 0:
            return
        learnt = _fitted(shape, slots[0], sizes)
        if learnt is None:
            continue
        left[shape] -= 1
        yield from ((shape, *rest) for rest in _ways(left, slots[1:], learnt, steps))
        left[shape] += 1


def _fitted(shape: Shape, slot: Slot, sizes: Mapping[str, int]) -> Mapping[str, int] | None:
    """Return the sizes with what this tensor teaches; None when it contradicts them."""
    if len(shape) != len(slot.sizes):
        return None
    learnt = dict(sizes)
    for name, length in zip(slot.sizes, shape, strict=True):
        if learnt.setdefault(name, length) != length:
            return None
    return learnt
