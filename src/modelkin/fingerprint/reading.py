"""What is read of one model for its fingerprint: parts with a cost, as many layers as the bytes allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from modelkin.architecture import Architecture, Role
from modelkin.comparison.methods import Part, RowSource, Side, acting_gain, mlp_reader, rows_part, source_of
from modelkin.comparison.positions import checked_architecture
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.options import KIB
from modelkin.tensors import Array, TensorSlice
from modelkin.tokenizer import read_vocabulary

from .recipe import FIRST_TOKEN, N_DIMENSIONS, N_TOKENS, N_UNITS, chosen_layers, reading_order

MOST_BYTES = 20_000_000
"""What may be read of one model, including headers and tokenizer."""
_LAYERS_BEFORE_HEAD = 3
"""Layers that take precedence over the output head when bytes are short, as in models wider than 5,120: units
of a layer find more relatives than the head, which adds little to the embedding."""
TOKENIZER_BYTES = 2_000_000
"""As for `compare`: the first tokens are at the beginning of the file."""
_HEAD_BYTES, _INDEX_BYTES_A_TENSOR = 128 * KIB, 100
"""Of a header and of a shard index, roughly, as `compare` counts them."""
_FIRST_FEATURES = 128
"""For units stored input-first: one of them costs as much as all, so features are skipped instead."""
_NORM_LAYERS = 12
"""Layers whose gains are read: each is a request, and more of them hardly change a mean."""
_GAINS = (
    Role.ATTENTION_NORM,
    Role.MLP_NORM,
    Role.ATTENTION_OUTPUT_NORM,
    Role.MLP_OUTPUT_NORM,
)


@dataclass(slots=True, kw_only=True)
class RowsRead:
    """One chosen layer: what is read of it, and the result."""

    layer: int
    units: RowSource | None = None
    values: RowSource | None = None
    router: RowSource | None = None
    parts: list[Part] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list, repr=False)
    read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GainPlace:
    """One vector of gains: which norm, and of which layer."""

    role: Role
    layer: int | None
    depth: float
    """Of the layer, from 0 for the first to 1 for the last."""


@dataclass(slots=True, kw_only=True)
class ModelRows:
    """Everything that a fingerprint is made from."""

    side: Side
    layers: list[RowsRead]
    gains: list[tuple[GainPlace, Array]] = field(default_factory=list)
    embedding: Array | None = None
    head: Array | None = None
    head_is_unread: bool = False
    """Whether there is a head for which no bytes were left."""
    texts: tuple[bytes, ...] = ()
    """Of the tokens whose rows were read."""
    residual: Message | None = None
    """Why residual dimensions cannot be compared."""


def read_rows(model: Model) -> ModelRows | Message:
    """Read what a fingerprint needs; a message if the architecture is unknown."""
    architecture = checked_architecture(model)
    if not architecture.is_known:
        return say("unknown-architecture", model=model.location.ref)
    adapter = model.weights.adapter
    if adapter is not None and adapter.is_bare:
        return say("fingerprint-bare-adapter")
    side = Side(name=model.location.ref, index=model.index, architecture=architecture)
    layers = [
        _layer(side, number)
        for place in chosen_layers(len(architecture.layers))
        for number in [architecture.layers[place]]
    ]
    gains, gain_parts = _gains(side)
    tokens = _tokens(model, architecture)
    embedding, head = (_token_part(side, role, tokens) for role in (Role.EMBEDDING, Role.OUTPUT_HEAD))
    wanted = [*gain_parts, *([embedding] if embedding else [])]
    room = MOST_BYTES - _overhead(model)
    if _cost(model, wanted) > room:
        return say("fingerprint-too-large")
    in_turn: list[RowsRead | None] = [layers[place] for place in reading_order(len(layers))]
    in_turn.insert(_LAYERS_BEFORE_HEAD, None)  # the head
    taken: list[RowsRead | None] = []
    for turn in in_turn:
        more = turn.parts if turn is not None else [head] if head else []
        if more and _cost(model, [*wanted, *more]) <= room:
            wanted += more
            taken.append(turn)
    made = iter(_read(model, wanted))
    rows = ModelRows(side=side, layers=layers, texts=tuple(tokens[1]))
    space = architecture.space("residual")
    if not space.exchangeable:
        rows.residual = say("residual-fixed", model=model.location.ref, reason=space.why)
    rows.gains = [(place, next(made)) for place in gains]
    rows.embedding = next(made) if embedding else None
    for turn in taken:
        if turn is None:
            rows.head = next(made)
        else:
            turn.arrays = [next(made) for _ in turn.parts]
            turn.read = True
    rows.head_is_unread = head is not None and rows.head is None
    return rows


def _cost(model: Model, parts: Sequence[Part]) -> int:
    return model.cost([item for part in parts for item in part.slices])


def _overhead(model: Model) -> int:
    files = len(model.index.files) * _HEAD_BYTES + len(model.index) * _INDEX_BYTES_A_TENSOR
    return files + TOKENIZER_BYTES


def _read(model: Model, parts: Sequence[Part]) -> list[Array]:
    arrays = iter(model.read([item for part in parts for item in part.slices]))
    return [part.reduce([next(arrays) for _ in part.slices]) for part in parts]


def _layer(side: Side, number: int) -> RowsRead:
    found = RowsRead(layer=number, units=mlp_reader(side, number))
    found.values = source_of(side, Role.ATTENTION_VALUE, "v_dim", number)
    found.router = source_of(side, Role.ROUTER, "experts", number)
    if found.units is not None:
        count = min(found.units.n_units, 2 * N_UNITS)
        found.parts.append(rows_part(side, found.units, count=count, features=_FIRST_FEATURES))
    if found.values is not None:
        width = side.architecture.sizes.get("v_dim") or found.values.n_units
        count = min(found.values.n_units, width, N_UNITS)
        found.parts.append(rows_part(side, found.values, count=count, features=_FIRST_FEATURES))
    if found.router is not None:
        count = min(found.router.n_units, N_UNITS)
        found.parts.append(rows_part(side, found.router, count=count, features=_FIRST_FEATURES))
    return found


def _gains(side: Side) -> tuple[list[GainPlace], list[Part]]:
    """Plan the first dimensions of the gains of layers that are spread over the depth."""
    architecture = side.architecture
    every = architecture.layers
    n_wanted = min(len(every), _NORM_LAYERS)
    numbers = sorted({round(at * (len(every) - 1) / max(1, n_wanted - 1)) for at in range(n_wanted)})
    last = max(1, len(every) - 1)
    wanted = [(role, every[at], at / last) for at in numbers for role in _GAINS]
    places: list[GainPlace] = []
    parts: list[Part] = []
    for role, layer, depth in [*wanted, (Role.FINAL_NORM, None, 1.0)]:
        entry = architecture.find(role, layer=layer) if layer is not None else architecture.find(role)
        if entry is None or entry.fixed or entry.segment is not None or entry.axes != (("residual",),):
            continue
        count = min(side.index[entry.tensor].n_elements, N_DIMENSIONS)
        places.append(GainPlace(role=role, layer=layer, depth=depth))
        parts.append(
            Part(
                slices=(TensorSlice.blocks(entry.tensor, [(0, count)]),),
                reduce=lambda arrays: acting_gain(arrays[0], architecture),
            )
        )
    return places, parts


def _tokens(model: Model, architecture: Architecture) -> tuple[int, list[bytes]]:
    """Choose rows of tokens by number, and return their texts; numbers if no text is known."""
    n_rows = architecture.sizes.get("vocab") or 0
    first = min(FIRST_TOKEN, max(0, n_rows - N_TOKENS))
    numbers = range(first, min(n_rows, first + N_TOKENS))
    read = read_vocabulary(model.start_of("tokenizer.json", limit=TOKENIZER_BYTES))
    known = {} if read is None else {row: text for text, row in read.items()}
    return first, [known.get(number, b"\x00#%d" % number) for number in numbers]


def _token_part(side: Side, role: Role, tokens: tuple[int, list[bytes]]) -> Part | None:
    entry = side.architecture.find(role)
    first, texts = tokens
    width = side.architecture.sizes.get("residual")
    if entry is None or entry.segment is not None or len(texts) < 2:
        return None
    shape = side.index[entry.tensor].shape
    if len(shape) != 2 or shape[1] != width or shape[0] < first + len(texts):
        return None
    return Part(
        slices=(TensorSlice.rows(entry.tensor, first, first + len(texts)),),
        reduce=lambda arrays: np.asarray(arrays[0], np.float32),
    )
