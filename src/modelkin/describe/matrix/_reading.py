"""What to read of all models, decided before any tensor is read; then read once, and stacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from modelkin.describe.measures import PART_VALUES, LayerPairing, Stack, layer_pairs
from modelkin.errors import BadSelection, UsageError
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice

from ._items import (
    Item,
    Layer,
    Signature,
    TokenRows,
    chosen_layers,
    find_item,
    in_layers,
    make_item,
    token_rows,
    ways_to_cut,
)
from ._options import MatrixOptions, RoleChoice, parse_layer_list, parse_role
from .views import Truncation

_TOKEN_BASELINES = {"random-tokens", "permuted-tokens"}
MAX_WASTE = 1.0
"""Share of unneeded bytes that joining ranges may add. Columns of a matrix that is cut to a smaller one are
some kilobytes apart: row by row they took 5,554 requests for GLM-4.5-Air, and a request costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The vectors of one role of one model: those of one shape in one stack."""

    stacks: Mapping[Signature, Stack]
    places: Mapping[Layer, tuple[Signature, int]]
    """Layer -> which stack, which row."""
    missing: Mapping[Layer, Message]
    """Layer -> why there is nothing."""
    notes: Mapping[Signature, Message]

    def let_go(self, signature: Signature) -> None:
        """Release the features of a stack, unless those of all stacks may be held at the same time.

        Windows differ between layers: every layer is a stack of its own, and none of them is large.
        """
        if sum(len(stack) * stack.n for stack in self.stacks.values()) > PART_VALUES:
            self.stacks[signature].forget()


@dataclass(slots=True)
class SliceReader:
    """Slices wanted of each model; each is read once, however often it is wanted."""

    models: Mapping[str, Model]
    wanted: dict[tuple[RoleChoice, int], dict[str, Counter[TensorSlice]]] = field(default_factory=dict)
    """For each role, cut and model, in order of request, and how often. Cut 0 is the tensors as they are."""
    _left: dict[str, Counter[TensorSlice]] = field(default_factory=dict)
    _arrays: dict[tuple[str, TensorSlice], Array] = field(default_factory=dict)

    def want(self, choice: RoleChoice, name: str, slices: Sequence[TensorSlice], *, cut: int = 0) -> None:
        """Record what is wanted of a model for a role."""
        self.wanted.setdefault((choice, cut), {}).setdefault(name, Counter()).update(slices)

    def read(self, choice: RoleChoice, *, cut: int = 0) -> None:
        """Read all of one role, each model in one planned pass, side by side; release other roles.

        Each way to cut it is read when its turn comes: a cut takes as much memory as the role.
        """
        if not cut:
            self._arrays, self._left = {}, {}
        wanted = self.wanted.get((choice, cut), {})
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            arrays = pool.map(
                lambda item: self.models[item[0]].read(list(item[1]), max_waste=MAX_WASTE), wanted.items()
            )
            for (name, slices), found in zip(wanted.items(), arrays, strict=True):
                self._left.setdefault(name, Counter()).update(slices)
                self._arrays.update(zip(((name, item) for item in slices), found, strict=True))

    def arrays(self, name: str, slices: Sequence[TensorSlice]) -> list[Array]:
        """Return what was read; it is released once it has been taken as often as wanted."""
        found = [self._arrays[name, item] for item in slices]
        for item in slices:
            self._left[name][item] -= 1
            if self._left[name][item] <= 0:
                self._arrays.pop((name, item), None)
        return found

    def shelve(self, name: str, items: Mapping[Layer, Item | Message]) -> Shelf:
        """Stack what was read of one role."""
        rows: dict[Signature, list[Layer]] = {}
        missing: dict[Layer, Message] = {}
        for layer, item in items.items():
            if isinstance(item, Message):
                missing[layer] = item
            else:
                rows.setdefault(item.signature, []).append(layer)
        stacks: dict[Signature, Stack] = {}
        places: dict[Layer, tuple[Signature, int]] = {}
        notes: dict[Signature, Message] = {}
        for signature, layers in rows.items():
            found = [item for layer in layers if isinstance(item := items[layer], Item)]
            stacks[signature] = Stack(self._stacked(name, found), [item.format for item in found])
            places |= {layer: (signature, at) for at, layer in enumerate(layers)}
            notes[signature] = found[0].note
        return Shelf(stacks=stacks, places=places, missing=missing, notes=notes)

    def _stacked(self, name: str, items: Sequence[Item]) -> Array:
        """Stack vectors one after another: what was read of each is released at once."""
        first = items[0].vector(self.arrays(name, items[0].slices))
        stacked: Array = np.empty((len(items), first.size), dtype=first.dtype)
        stacked[0] = first
        del first
        for at, item in enumerate(items[1:], start=1):
            vector = item.vector(self.arrays(name, item.slices))
            # Layers may be stored in different formats.
            stacked = stacked.astype(np.promote_types(stacked.dtype, vector.dtype), copy=False)
            stacked[at] = vector
        return stacked


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlan:
    """How the larger of two tensors is cut to the smaller, and what that reads."""

    number: int
    """Of the ways to cut a role, from 1."""
    larger: int
    """0 if the first model has the larger tensor, else 1."""
    cut: Truncation
    items: Mapping[Layer, Item | Message]


@dataclass(slots=True)
class Chosen:
    """Everything that was chosen, and what was not found."""

    models: Mapping[str, Model]
    options: MatrixOptions
    roles: tuple[RoleChoice, ...] = ()
    items: dict[tuple[str, RoleChoice], dict[Layer, Item | Message]] = field(default_factory=dict)
    cuts: dict[tuple[str, str, RoleChoice], list[CutPlan]] = field(default_factory=dict)
    tokens: dict[tuple[str, str, RoleChoice], TokenRows | Message] = field(default_factory=dict)
    notes: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        chosen = [parse_role(text) for text in self.options.roles]
        if self.options.mtp:
            chosen += [parse_role(f"mtp.{choice.label}") for choice in chosen if not choice.mtp]
        self.roles = tuple(dict.fromkeys(chosen))
        self._check_names()

    def _check_names(self) -> None:
        used = {name: "--group" for members in self.options.groups.values() for name in members}
        used |= dict.fromkeys(self.options.layers_of, "--layers")
        used |= {name: "--known" for item in self.options.known for name in (item.model_a, item.model_b)}
        for name, where in used.items():
            if name not in self.models:
                known = ", ".join(self.models)
                raise UsageError(
                    where, say("problem.no-model-called-known", name=repr(name[:60]), known=known)
                )

    def _check_layers(self) -> None:
        present = {
            n for m in self.models.values() for n in (*m.architecture.layers, *m.architecture.mtp_layers)
        }
        for name, text in ((None, self.options.layers), *self.options.layers_of.items()):
            own = present if name is None else set(self.models[name].architecture.layers)
            if text is not None and not own & set(parse_layer_list(text)):
                raise BadSelection("layers", say("problem.no-layer-in", text=repr(text[:60]), n=len(own)))

    def choose(self, reading: SliceReader) -> None:
        """Decide what to read. Only headers are read."""
        self._check_layers()
        opened = list(self.models.values())
        for name, model in self.models.items():
            self.notes += [say("text.of_side", side=name, text=note) for note in model.architecture.notes]
            if not model.architecture.is_known:
                self.notes.append(say("text.of_side", side=name, text=model.architecture.title))
        for choice in self.roles:
            layered = in_layers(opened, choice)
            for name, model in self.models.items():
                layers: Sequence[Layer] = (
                    chosen_layers(model, name, choice, self.options) if layered else (None,)
                )
                items = {layer: find_item(model, choice, layer, self.options) for layer in layers}
                self.items[name, choice] = items
                for item in items.values():
                    reading.want(choice, name, item.slices if isinstance(item, Item) else ())
            for a, b in model_pairs(self.models):
                if self.options.truncation:
                    self._choose_cuts(a, b, choice, reading)
                if _TOKEN_BASELINES & set(self.options.baselines):
                    self._choose_tokens(a, b, choice, reading)

    def _choose_cuts(self, a: str, b: str, choice: RoleChoice, reading: SliceReader) -> None:
        """Plan to read the larger tensors again in the shape of the smaller ones."""
        seen: set[tuple[object, object]] = set()
        for layers in self.pairs(choice, a, b):
            mine, theirs = self.items[a, choice].get(layers[0]), self.items[b, choice].get(layers[1])
            if not isinstance(mine, Item) or not isinstance(theirs, Item):
                continue
            # Published windows overlap by more or less: numbers of values differ, ways to cut do not.
            shapes = mine.signature[:2], theirs.signature[:2]
            if mine.views[0].shape == theirs.views[0].shape or shapes in seen:
                continue
            seen.add(shapes)
            ways = ways_to_cut((self.models[a], self.models[b]), (mine, theirs), choice, layers)
            if isinstance(ways, Message):
                self.notes.append(say("matrix-not-cut", role=choice.label, a=a, b=b, why=ways))
                continue
            for larger, cut in ways:
                number = 1 + sum(len(plans) for (*_, own), plans in self.cuts.items() if own == choice)
                name, shape = (a, b)[larger], (mine, theirs)[larger].views[0].shape
                items = {
                    layer: make_item([item.views[0].cut(cut.segment, cut.note)], choice, layer, self.options)
                    for layer, item in self.items[name, choice].items()
                    if isinstance(item, Item) and item.views[0].shape == shape
                }
                for item in items.values():
                    reading.want(choice, name, item.slices if isinstance(item, Item) else (), cut=number)
                plan = CutPlan(number=number, larger=larger, cut=cut, items=items)
                self.cuts.setdefault((a, b, choice), []).append(plan)

    def _choose_tokens(self, a: str, b: str, choice: RoleChoice, reading: SliceReader) -> None:
        found = token_rows(
            (self.models[a], self.models[b]),
            (a, b),
            choice,
            count=self.options.tokens,
            seed=self.options.seed,
        )
        if isinstance(found, TokenRows):
            reading.want(choice, a, [found.first])
            reading.want(choice, b, [found.second])
        self.tokens[a, b, choice] = found

    def pairs(
        self, choice: RoleChoice, a: str, b: str, pairings: Sequence[LayerPairing] | None = None
    ) -> list[tuple[Layer, Layer]]:
        """Return the pairs of layers of two models, or of one model with itself."""
        first, second = (list(self.items[name, choice]) for name in (a, b))
        if first == [None] or second == [None]:
            return [] if a == b else [(None, None)]
        numbers = [[layer for layer in layers if layer is not None] for layers in (first, second)]
        depths = [len(self.models[name].architecture.layers) for name in (a, b)]
        found: dict[tuple[Layer, Layer], None] = {}
        for pairing in pairings or self.options.pairs:
            if (pairing == "within") == (a == b):
                pairs = layer_pairs(pairing, numbers[0], numbers[1], depths=(depths[0], depths[1]))
                found |= dict.fromkeys(pairs)
        return list(found)


def model_pairs(models: Mapping[str, Model]) -> list[tuple[str, str]]:
    """Return all pairs of names, each once, in the order given."""
    names = list(models)
    return [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
