"""Making the fingerprint of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from modelkin.architecture import Role
from modelkin.comparison.record import model_summary
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import Array

from ._value import Fingerprint, FingerprintedModel, SlotRecord
from .blocks import (
    FEWEST_FOR_GRAM,
    MOST_OFFSET_Z,
    Sketched,
    block_of,
    gain_marks,
    offset_z,
    order_marks,
    token_gram,
    unit_directions,
)
from .reading import GainPlace, ModelRows, RowsRead, read_rows
from .recipe import (
    BLOCK_BYTES,
    DATA_BYTES,
    N_DIMENSIONS,
    N_FEATURES,
    N_UNITS,
    RECIPE,
    SLOTS,
    Slot,
    number_signs,
    text_bundles,
    text_signs,
)

_ROLES = (Role.ATTENTION_NORM, Role.MLP_NORM, Role.ATTENTION_OUTPUT_NORM, Role.MLP_OUTPUT_NORM)
_MOST_LAYERS = 4096
"""Layers that have public signs: far more than any model has. The signs of a layer do not depend on it: a
longer table begins with a shorter one."""
_MIDDLE = 0.5
"""Relative depth that divides gains into an early and a late half: part of the recipe."""


def fingerprint_model(model: Model) -> Fingerprint:
    """Make the fingerprint of an opened model.

    Parts that a model lacks, or whose order is fixed, are slots with a reason; a model of unknown
    architecture has only reasons.
    """
    rows = read_rows(model)
    data = np.zeros(DATA_BYTES, np.int8)
    records: list[SlotRecord] = []
    for slot in SLOTS:
        layer, made = (None, rows) if isinstance(rows, Message) else _sketched(rows, slot)
        if isinstance(made, Message):
            records.append(SlotRecord(kind=slot.kind, layer=None, n_units=0, reason=made))
            continue
        data[slot.start : slot.stop] = made.codes.reshape(-1)
        n_units = int(np.count_nonzero(made.codes.any(axis=1)))
        records.append(SlotRecord(kind=slot.kind, layer=layer, n_units=n_units, marks=made.marks))
    gram = None if isinstance(rows, Message) else _gram(rows)
    if gram is not None:
        data[BLOCK_BYTES:] = gram
    return Fingerprint(
        recipe=RECIPE,
        model=_model(model),
        slots=tuple(records),
        token_gram=gram is not None,
        data=data.tobytes(),
    )


def _model(model: Model) -> FingerprintedModel:
    said = model_summary(model)
    return FingerprintedModel(**{item.name: getattr(said, item.name) for item in fields(FingerprintedModel)})


def _sketched(rows: ModelRows, slot: Slot) -> tuple[int | None, Sketched]:
    if slot.kind in ("norms", "emb", "head"):
        return None, _dimensions(rows, slot)
    if slot.kind == "experts":
        routed = [layer for layer in rows.layers if layer.router is not None and layer.read]
        return (
            (routed[0].layer, _experts(rows, routed[0], slot))
            if routed
            else (None, say("model-lacks-tensor"))
        )
    if slot.place >= len(rows.layers):
        return None, say("fingerprint-no-layer")
    layer = rows.layers[slot.place]
    if not layer.read:
        return None, say("fingerprint-unread-layer") if layer.parts else say("model-lacks-tensor")
    return layer.layer, _of_layer(rows, layer, slot)


def _of_layer(rows: ModelRows, layer: RowsRead, slot: Slot) -> Sketched:
    arrays = iter(layer.arrays)
    units = next(arrays) if layer.units is not None else None
    values = next(arrays) if layer.values is not None else None
    if slot.kind == "val":
        if layer.values is None or values is None:
            return say("model-lacks-tensor")
        return _fixed(rows, layer.values.space) or _projected(values, slot)
    if layer.units is None or units is None:
        return say("model-lacks-tensor")
    fixed = _fixed(rows, layer.units.space)
    if fixed is not None:
        return fixed
    if slot.kind == "gram":
        return _halves(units, slot)
    if slot.kind == "mlp":
        return _projected(units[:N_UNITS], slot)
    return _answers(units[:N_UNITS], rows, slot)


def _fixed(rows: ModelRows, space: str) -> Message | None:
    found = rows.side.architecture.space(space)
    if found.exchangeable:
        return None
    return say("order-fixed", space=found.name, model=rows.side.name, reason=found.why)


def _projected(units: Array, slot: Slot) -> Sketched:
    """Project units onto public signs of the residual coordinates."""
    directions, usable = unit_directions(units)
    features = directions @ number_signs("residual", directions.shape[1])
    return block_of(features, usable, slot, marks=order_marks(units))


def _answers(units: Array, rows: ModelRows, slot: Slot) -> Sketched:
    """Compute the responses of units to bundles of tokens, which no change of coordinates alters."""
    if rows.embedding is None:
        return say("fingerprint-no-table")
    width = units.shape[1]
    tokens, _ = unit_directions(rows.embedding[:, :width])
    directions, usable = unit_directions(units)
    features = directions @ (tokens.T @ text_signs(rows.texts))
    return block_of(features, usable, slot, marks=order_marks(units))


def _halves(units: Array, slot: Slot) -> Sketched:
    """Compute how the first units agree with later ones, in any coordinates."""
    half = min(N_UNITS, len(units) // 2)
    if half < FEWEST_FOR_GRAM:
        return say("few-units", n=half)
    first, usable = unit_directions(units[:half])
    second, _ = unit_directions(units[half : 2 * half])
    if offset_z(first, second) > MOST_OFFSET_Z:
        return say("fingerprint-offset")
    features = first @ (second.T @ number_signs("unit", half))
    return block_of(features, usable, slot, marks=order_marks(units[:half]))


def _experts(rows: ModelRows, layer: RowsRead, slot: Slot) -> Sketched:
    return _fixed(rows, "experts") or _projected(layer.arrays[-1], slot)


def _dimensions(rows: ModelRows, slot: Slot) -> Sketched:
    if rows.residual is not None:
        return rows.residual
    if slot.kind == "norms":
        return _norms(rows.gains, slot)
    table = rows.embedding if slot.kind == "emb" else rows.head
    if table is None:
        unread = slot.kind == "head" and rows.head_is_unread
        return say("fingerprint-unread-head" if unread else "fingerprint-no-table")
    units = table[:, :N_DIMENSIONS].T
    directions, usable = unit_directions(units)
    return block_of(directions @ text_signs(rows.texts), usable, slot, marks=order_marks(units))


def _norms(gains: Sequence[tuple[GainPlace, Array]], slot: Slot) -> Sketched:
    """Add up gains by kind and half of the depth, which a changed depth keeps, and by layer."""
    vectors = [np.asarray(values, np.float64) for _, values in gains]
    if not vectors or len({len(values) for values in vectors}) != 1:
        return say("fingerprint-no-gains")
    table = np.stack(vectors)
    usable = np.isfinite(table).all(axis=0) & ~((table == 0) | (table == 1)).all(axis=0)
    usable &= ~((table == table[0]).all(axis=0) & (len(table) > 1))
    if np.count_nonzero(usable) < N_FEATURES:
        return say("constant-gains")
    features = np.zeros((len(usable), N_FEATURES))
    signs = number_signs("gain", _MOST_LAYERS * len(_ROLES))[:, : N_FEATURES // 2]
    for (place, _), values in zip(gains, table, strict=True):
        if len(np.unique(values[usable])) < 2:
            continue
        ranked = np.zeros(len(usable))
        ranked[usable] = _scores(values[usable])
        features[:, _column(place)] += ranked
        if place.layer is not None and place.layer < _MOST_LAYERS:
            number = place.layer * len(_ROLES) + _ROLES.index(place.role)
            features[:, N_FEATURES // 2 :] += ranked[:, None] * signs[number]
    if not features.any():
        return say("constant-gains")
    sizes = np.linalg.norm(features, axis=0)
    return block_of(
        features / np.where(sizes > 0.0, sizes, 1.0), usable, slot, marks=gain_marks(table[:, usable])
    )


def _column(place: GainPlace) -> int:
    """Return which sum a vector of gains belongs to: a kind of norm and a half of the depth."""
    if place.role is Role.FINAL_NORM:
        return 7
    late = int(place.depth > _MIDDLE)
    return {Role.ATTENTION_NORM: late, Role.MLP_NORM: 2 + late}.get(
        place.role, 4 + (place.role is Role.MLP_OUTPUT_NORM)
    )


def _scores(values: Array) -> Array:
    """Return centred ranks, with ties sharing their mean, so that a few large gains cannot dominate."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    return np.asarray((ranks - ranks.mean()) / max(float(ranks.std()), 1e-12))


def _gram(rows: ModelRows) -> Array | None:
    if rows.embedding is None:
        return None
    return token_gram(rows.embedding, *text_bundles(rows.texts))
