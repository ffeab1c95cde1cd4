"""From roles, layers and tokens to tensors: what to read of each model, or why it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Architecture, Role, RoleEntry
from modelkin.describe.measures import NOTHING, generator
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import Array, TensorSlice
from modelkin.tokenizer import TokenPairs, equal_rows, read_vocabulary, shared_tokens

from ._options import MatrixOptions, RoleChoice, parse_layer_list
from .views import Truncation, View, truncations, view_of

Layer = int | None
TOKEN_ROLES = (Role.EMBEDDING, Role.OUTPUT_HEAD)
VOCABULARY_BYTES = 4_000_000
"""The beginning of a long tokenizer is enough: some thousands of shared tokens."""
_TOKENIZER = "tokenizer.json"


Signature = tuple[tuple[int, ...], bool, int]
"""Shape, whether a sample is of a transposed tensor, and number of values."""
_PUBLISHED = {
    Role.ATTENTION_NORM: "input_layernorm.weight",
    Role.MLP_NORM: "post_attention_layernorm.weight",
    Role.ATTENTION_QUERY: "self_attn.q_proj.weight",
    Role.ATTENTION_KEY: "self_attn.k_proj.weight",
    Role.ATTENTION_VALUE: "self_attn.v_proj.weight",
    Role.ATTENTION_OUTPUT: "self_attn.o_proj.weight",
    Role.ROUTER: "mlp.gate.weight",
}


def published_name(choice: RoleChoice, layer: Layer) -> str:
    """Return what a tensor is called in the models of the dispute, whatever it is called in this one."""
    if choice.role in _PUBLISHED and choice.part == "weight" and choice.minus is None:
        return f"model.layers.{layer}.{_PUBLISHED[choice.role]}"
    return choice.label if layer is None else f"{choice.label}.{layer}"


def all_of(messages: Iterable[Message]) -> Message:
    """Join several messages into one, each once."""
    said = [message for message in dict.fromkeys(messages) if message != NOTHING]
    return NOTHING if not said else said[0] if len(said) == 1 else say("joined", parts=tuple(said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One vector of values: a tensor, or the difference of two."""

    views: tuple[View, ...]
    slices: tuple[TensorSlice, ...]
    whole: bool
    """Whether all values are read, not a sample."""

    @property
    def signature(self) -> Signature:
        """What two items must share to be compared: the shape, and for samples the layout and size."""
        return self.views[0].shape, self.views[0].transposed and not self.whole, self.n_values

    @property
    def n_values(self) -> int:
        """Number of values that are read."""
        return sum(stop - start for start, stop in _stretches(self.slices[0]))

    @property
    def format(self) -> str | None:
        """How it is stored; a difference is not stored."""
        return self.views[0].info.dtype if len(self.views) == 1 else None

    @property
    def note(self) -> Message:
        """What part of the tensor was taken."""
        if self.whole:
            return self.views[0].note
        return all_of([self.views[0].note, say("matrix-sample", n=self.n_values, m=self.views[0].size)])

    def vector(self, arrays: Sequence[Array]) -> Array:
        """Make the vector from what was read."""
        parts = [
            view.ordered(array, whole=self.whole) for view, array in zip(self.views, arrays, strict=True)
        ]
        if len(parts) == 1:
            return parts[0]
        return np.asarray(parts[0], dtype=np.float64) - np.asarray(parts[1], dtype=np.float64)


def make_item(
    views: Sequence[View], choice: RoleChoice, layer: Layer, options: MatrixOptions
) -> Item | Message:
    """Choose what to read of a tensor, or of two of which the difference is wanted."""
    first = views[0]
    if not first.size:
        return say("matrix-empty")
    if any(view.shape != first.shape or view.transposed != first.transposed for view in views):
        return say("matrix-two-shapes")
    # The same places in all layers and models: what differs between them is not part of the key,
    # except for the published windows, which differ between layers.
    key = published_name(choice, layer) if options.windows else choice.label
    slices = tuple(
        view.chosen(limit=options.sample, seed=options.seed, key=key, windows=options.windows)
        for view in views
    )
    return Item(views=tuple(views), slices=slices, whole=first.size <= options.sample)


def find_item(model: Model, choice: RoleChoice, layer: Layer, options: MatrixOptions) -> Item | Message:
    """Find a tensor, or say why it is not there."""
    views: list[View] = []
    for role in (choice.role, *([choice.minus] if choice.minus else [])):
        entry = find_entry(model.architecture, choice, role, layer)
        if entry is None:
            part = f".{choice.part}" if choice.part != "weight" else ""
            return say("matrix-no-role", role=role.value + part)
        view = view_of(entry, model.index[entry.tensor], expert=choice.expert)
        if isinstance(view, Message):
            return view
        views.append(view)
    return make_item(views, choice, layer, options)


def find_entry(architecture: Architecture, choice: RoleChoice, role: Role, layer: Layer) -> RoleEntry | None:
    """Return the entry of a role; experts may have a tensor each or share one."""
    found = architecture.find(role, layer, choice.part, expert=choice.expert, mtp=choice.mtp)
    return found or architecture.find(role, layer, choice.part, mtp=choice.mtp)


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
        for found in [model.architecture]
        for entry in (found.mtp_tensors if choice.mtp else found.tensors)
    )


def ways_to_cut(
    models: tuple[Model, Model], items: tuple[Item, Item], choice: RoleChoice, layers: tuple[Layer, Layer]
) -> Iterator[tuple[int, Truncation]] | Message:
    """Return which of two models has the larger tensor, with each way to cut it; or why there is none."""
    if choice.minus is not None:
        return say("matrix-not-cut-difference")
    views = tuple(item.views[0] for item in items)
    larger = int(views[1].size > views[0].size)
    sizes = [model.architecture.sizes for model in models]
    entry = find_entry(models[larger].architecture, choice, choice.role, layers[larger])
    axes = entry.axes if entry is not None else ()
    if len(axes) > len(views[larger].full):
        axes = axes[1:]
    found = truncations(
        views[1 - larger],
        views[larger],
        spaces=axes,
        small_sizes=sizes[1 - larger],
        large_sizes=sizes[larger],
    )
    return found if isinstance(found, Message) else ((larger, cut) for cut in found)


def _stretches(wanted: TensorSlice) -> Sequence[tuple[int, int]]:
    return wanted.selection.blocks  # type: ignore[union-attr]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRows:
    """The same tokens in two models, as slices to read; row k of both is the same token."""

    first: TensorSlice
    second: TensorSlice
    n_shared: int
    how: Message


def token_rows(
    models: tuple[Model, Model], names: tuple[str, str], choice: RoleChoice, *, count: int, seed: int
) -> TokenRows | Message:
    """Choose shared tokens at random and say where their rows are; or why there are none."""
    if choice.role not in TOKEN_ROLES or choice.minus is not None or choice.part != "weight":
        return say("matrix-no-token-rows")
    entries = [model.architecture.find(choice.role) for model in models]
    if entries[0] is None or entries[1] is None:
        return say("matrix-model-lacks-tensor")
    pairs = _pair_tokens(*models)
    if isinstance(pairs, Message):
        return pairs
    tensors = [entry.tensor for entry in entries if entry is not None]
    limits = [model.index[tensor].n_rows for model, tensor in zip(models, tensors, strict=True)]
    usable = [
        (mine, theirs)
        for mine, theirs in zip(pairs.candidate, pairs.base, strict=True)
        if mine < limits[0] and theirs < limits[1]
    ]
    if len(usable) < 3:
        return say("matrix-few-tokens", n=len(usable))
    order = generator(seed, "tokens", *names).permutation(len(usable))[:count]
    chosen = [usable[at] for at in np.sort(order)]
    return TokenRows(
        first=TensorSlice.scattered(tensors[0], [mine for mine, _ in chosen]),
        second=TensorSlice.scattered(tensors[1], [theirs for _, theirs in chosen]),
        n_shared=len(usable),
        how=pairs.how,
    )


def _pair_tokens(first: Model, second: Model) -> TokenPairs | Message:
    """Pair the tokens of two models by their text, or say why that is not possible."""
    vocabularies = []
    for model in (first, second):
        found = read_vocabulary(model.start_of(_TOKENIZER, limit=VOCABULARY_BYTES))
        if found is None:
            break
        vocabularies.append(found)
    if len(vocabularies) == 2:
        return shared_tokens(*vocabularies)
    sizes = {model.architecture.sizes.get("vocab") for model in (first, second)}
    files = [model.file_size(_TOKENIZER) for model in (first, second)]
    size = sizes.pop()
    if files == [None, None] and not sizes and size:
        return equal_rows(size, how=say("no-tokenizer-equal"))
    return say("matrix-no-vocabulary")
