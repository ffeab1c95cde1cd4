"""From roles and layers to tensors: what of each model is to be read, and why something is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Architecture, Role, RoleEntry
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

from ._cuts import Cut, cuts
from ._options import MatrixOptions
from ._selection import RoleChoice, parse_layer_list
from ._views import View, view_of

Layer = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One vector of values: a tensor, or the difference of two."""

    views: tuple[View, ...]
    slices: tuple[TensorSlice, ...]
    whole: bool
    """Whether all values are read, not a sample."""

    @property
    def signature(self) -> tuple[tuple[int, ...], bool]:
        """What two items must share to be compared: the shape, and for samples the layout."""
        return self.views[0].shape, self.views[0].transposed and not self.whole

    @property
    def format(self) -> str | None:
        """How it is stored; a difference is not."""
        return self.views[0].info.dtype if len(self.views) == 1 else None

    @property
    def note(self) -> str:
        """What part of the tensor was taken."""
        size = self.views[0].size
        taken = sum(stop - start for start, stop in _stretches(self.slices[0]))
        sample = "" if self.whole else f"{taken:,} of {size:,} values, in blocks chosen by the seed"
        return "; ".join(text for text in (self.views[0].note, sample) if text)

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Make the vector of what was read."""
        parts = [
            view.ordered(array, whole=self.whole) for view, array in zip(self.views, arrays, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.asarray(parts[0], dtype=np.float64) - np.asarray(parts[1], dtype=np.float64)


def make_item(views: Sequence[View], choice: RoleChoice, options: MatrixOptions) -> Item | str:
    """Choose what to read of a tensor, or of two of which the difference is wanted."""
    first = views[0]
    if not first.size:
        return "the tensor is empty"
    if any(view.shape != first.shape or view.transposed != first.transposed for view in views):
        return "the two tensors have different shapes"
    # The same places in all layers and models: what differs between models and layers is no part of the key.
    slices = tuple(view.chosen(limit=options.sample, seed=options.seed, key=choice.label) for view in views)
    return Item(views=tuple(views), slices=slices, whole=first.size <= options.sample)


def find_item(model: Model, choice: RoleChoice, layer: Layer, options: MatrixOptions) -> Item | str:
    """Find a tensor, or say why it is not there."""
    views: list[View] = []
    for role in (choice.role, *([choice.minus] if choice.minus else [])):
        entry = find_entry(model.architecture, choice, role, layer)
        if entry is None:
            return f"there is no {role.value}" + (f".{choice.part}" if choice.part != "weight" else "")
        view = view_of(entry, model.index[entry.tensor], expert=choice.expert)
        if isinstance(view, str):
            return view
        views.append(view)
    return make_item(views, choice, options)


def find_entry(architecture: Architecture, choice: RoleChoice, role: Role, layer: Layer) -> RoleEntry | None:
    """Return the entry of a role; experts may have a tensor each or share one."""
    found = architecture.find(role, layer, choice.part, expert=choice.expert)
    return found or architecture.find(role, layer, choice.part)


def chosen_layers(model: Model, name: str, choice: RoleChoice, options: MatrixOptions) -> tuple[int, ...]:
    """Return the layers of a model that were asked for and that it has, in the order asked."""
    architecture = model.architecture
    available = architecture.mtp_layers if choice.mtp else architecture.layers
    text = options.layers_of.get(name, options.layers)
    if text is None or choice.mtp:
        return available
    return tuple(layer for layer in parse_layer_list(text) if layer in available)


def in_layers(models: Sequence[Model], choice: RoleChoice) -> bool:
    """Say whether a role belongs to layers in any of the models."""
    return any(
        entry.role is choice.role and entry.layer is not None
        for model in models
        for entry in model.architecture.tensors
    )


def ways_to_cut(
    models: tuple[Model, Model], items: tuple[Item, Item], choice: RoleChoice, layers: tuple[Layer, Layer]
) -> Iterator[tuple[int, Cut]] | str:
    """Return which of two models has the larger tensor, with each way to cut it; or why there is none."""
    if choice.minus is not None:
        return "differences are not cut"
    views = tuple(item.views[0] for item in items)
    larger = int(views[1].size > views[0].size)
    sizes = [model.architecture.sizes for model in models]
    entry = find_entry(models[larger].architecture, choice, choice.role, layers[larger])
    axes = entry.axes if entry is not None else ()
    if len(axes) > len(views[larger].full):
        axes = axes[1:]
    found = cuts(
        views[1 - larger],
        views[larger],
        spaces=axes,
        small_sizes=sizes[1 - larger],
        large_sizes=sizes[larger],
    )
    return found if isinstance(found, str) else ((larger, cut) for cut in found)


def _stretches(wanted: TensorSlice) -> Sequence[tuple[int, int]]:
    return wanted.selection.blocks  # type: ignore[union-attr]
