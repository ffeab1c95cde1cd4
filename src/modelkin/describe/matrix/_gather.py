"""Everything that is to be read of all models, read once, and stacked for measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from modelkin.describe.measures import Stack
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

from ._items import Item, Layer

Signature = tuple[tuple[int, ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The vectors of one role of one model: those of one shape in one stack."""

    stacks: Mapping[Signature, Stack]
    places: Mapping[Layer, tuple[Signature, int]]
    """Layer -> which stack, which row."""
    missing: Mapping[Layer, str]
    """Layer -> why there is nothing."""
    notes: Mapping[Signature, str]

    def largest(self) -> Signature | None:
        """Return the shape that most layers have."""
        return max(self.stacks, key=lambda item: len(self.stacks[item]), default=None)

    def layers(self, signature: Signature) -> tuple[Layer, ...]:
        """Return the layers in the rows of a stack, in order."""
        return tuple(layer for layer, (own, _) in self.places.items() if own == signature)


@dataclass(slots=True)
class Reading:
    """Slices that are wanted of each model; each is read once, however often it is wanted."""

    models: Mapping[str, Model]
    _wanted: dict[str, dict[TensorSlice, int]] = field(default_factory=dict)
    _arrays: dict[str, list[Array]] = field(default_factory=dict)

    def want(self, name: str, slices: Sequence[TensorSlice]) -> None:
        """Note what is wanted of a model."""
        own = self._wanted.setdefault(name, {})
        for item in slices:
            own.setdefault(item, len(own))

    def read(self) -> None:
        """Read all of it: each model in one planned pass, all models side by side."""
        names = list(self._wanted)
        with ThreadPoolExecutor(max(1, len(names))) as pool:
            arrays = pool.map(lambda name: self.models[name].read(list(self._wanted[name])), names)
            self._arrays = dict(zip(names, arrays, strict=True))

    def arrays(self, name: str, slices: Sequence[TensorSlice]) -> list[Array]:
        """Return what was read."""
        return [self._arrays[name][self._wanted[name][item]] for item in slices]

    def shelve(self, name: str, items: Mapping[Layer, Item | str]) -> Shelf:
        """Stack what was read of one role."""
        rows: dict[Signature, list[Layer]] = {}
        missing: dict[Layer, str] = {}
        for layer, item in items.items():
            if isinstance(item, str):
                missing[layer] = item
            else:
                rows.setdefault(item.signature, []).append(layer)
        stacks: dict[Signature, Stack] = {}
        places: dict[Layer, tuple[Signature, int]] = {}
        notes: dict[Signature, str] = {}
        for signature, layers in rows.items():
            found = [item for layer in layers if isinstance(item := items[layer], Item)]
            vectors = [item.vector(self.arrays(name, item.slices)) for item in found]
            stacks[signature] = Stack(np.stack(vectors), [item.format for item in found])
            places |= {layer: (signature, at) for at, layer in enumerate(layers)}
            notes[signature] = found[0].note
        return Shelf(stacks=stacks, places=places, missing=missing, notes=notes)
