"""Maps of the residual stream: learned from rows of shared tokens, from keys, or from MLP units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Role
from modelkin.comparison.alignment import Frame, enough_rows, find_frame, frame_of_key_rows
from modelkin.comparison.methods import (
    COPY_UNITS,
    Pair,
    Part,
    Probe,
    Side,
    acting_gain,
    frame_rows,
    key_matrices,
    near_rows,
    untouched_layers,
)
from modelkin.comparison.reading import Reading, price
from modelkin.message import Message, say
from modelkin.tensors import Array, TensorSlice

_TOKENS_A_DIMENSION = 3
"""Rows per dimension in narrow models: more than one, because rare tokens are hardly trained."""
_TOKEN_SHARE = 0.19
"""Share of the byte allowance for rows of the embedding, and again for rows of the output head."""
_WELL = 0.98
"""A map that fits this well is not learned again from other rows."""
_TABLES = ((Role.EMBEDDING, say("embedding-rows")), (Role.OUTPUT_HEAD, say("head-rows")))


def frame_of_tokens(reading: Reading, pair: Pair) -> Frame | None:
    """Learn a map of the residual stream from embeddings or output head, whichever fits better."""
    best: Frame | None = None
    for role, learned_from in _TABLES:
        probe = _affordable_probe(reading, pair, role, learned_from)
        made = None if probe is None else reading.run(probe)
        if made is not None and (best is None or made.fit > best.fit):
            best = made
        if best is not None and best.fit > _WELL:
            break
    return best


def rehearsed_frame(pair: Pair) -> Frame | None:
    """Return a placeholder for a map that may be found, if nothing is read: only its widths count."""
    mine, theirs = (side.architecture.sizes.get("residual") for side in (pair.candidate, pair.base))
    if mine is None or theirs is None:
        return None
    learned_from = say("embedding-rows")
    return Frame(
        kind="rotation", learned_from=learned_from, n_rows=0, fit=0.0, chance=0.0, widths=(mine, theirs)
    )


def _affordable_probe(
    reading: Reading, pair: Pair, role: Role, learned_from: Message
) -> Probe[Frame | None] | None:
    """Plan rows of shared tokens that cost no more than their share of the bytes, including gaps."""
    allowance = int(_TOKEN_SHARE * pair.byte_allowance)
    probe = _token_probe(pair, role, learned_from, allowance)
    if probe is None:
        return None
    cost = price(reading.models, [probe], max_waste=reading.max_waste)
    return probe if cost <= allowance else _token_probe(pair, role, learned_from, allowance**2 // cost)


def _token_probe(pair: Pair, role: Role, learned_from: Message, allowance: int) -> Probe[Frame | None] | None:
    """Plan rows of shared tokens on both sides, and the gain that the output head reads through."""
    sides, tokens = (pair.candidate, pair.base), pair.tokens
    entries = [side.architecture.find(role) for side in sides]
    if isinstance(tokens, Message) or entries[0] is None or entries[1] is None:
        return None
    infos = [side.index[entry.tensor] for side, entry in zip(sides, entries, strict=True) if entry]
    widths = [side.architecture.sizes.get("residual") for side in sides]
    if any(info.shape[-1] != width for info, width in zip(infos, widths, strict=True)):
        return None
    row_bytes = max(info.row_bits // 8 for info in infos)
    most = min(
        enough_rows(max(info.shape[-1] for info in infos), most=_TOKENS_A_DIMENSION),
        allowance // max(1, row_bytes),
    )
    rows = near_rows(tokens, infos)[:most]
    mine, theirs = (
        _token_part(side, role, TensorSlice.scattered(info.name, [row[column] for row in rows]))
        for column, (side, info) in enumerate(zip(sides, infos, strict=True))
    )

    def evaluate(candidate: list[Array], base: list[Array]) -> Frame | None:
        # Handed over and not kept here: `find_frame` frees rows when it no longer needs them.
        made = find_frame(candidate.pop(), base.pop(), learned_from=learned_from, seed=pair.seed)
        return made if isinstance(made, Frame) else None

    return Probe(candidate=(mine,), base=(theirs,), evaluate=evaluate)


def _token_part(side: Side, role: Role, rows: TensorSlice) -> Part:
    norm = side.architecture.find(Role.FINAL_NORM) if role is Role.OUTPUT_HEAD else None

    def reduce(arrays: Sequence[Array]) -> Array:
        values = np.asarray(arrays[0], dtype=np.float32)
        return values if norm is None else values * acting_gain(arrays[1], side.architecture)

    return Part(slices=(rows,) if norm is None else (rows, TensorSlice.whole(norm.tensor)), reduce=reduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFrame:
    """A map that was learned from keys of some layers."""

    frame: Frame
    pairs: frozenset[tuple[int, int]]
    """The layers, candidate's and base's."""


def frame_of_keys(reading: Reading, pair: Pair) -> KeyFrame | None:
    """Learn a map of the residual stream from keys; None if they give none."""
    keys = key_matrices(pair)
    if keys is None:
        return None

    def evaluate(candidate: list[Array], base: list[Array]) -> Frame | None:
        return frame_of_key_rows(candidate, base, head_width=keys.head_width, seed=pair.seed)

    made = reading.run(Probe(candidate=keys.candidate, base=keys.base, evaluate=evaluate))
    return None if made is None else KeyFrame(frame=made, pairs=frozenset(keys.pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFrame:
    """A map that was learned from MLP units of the even layers."""

    frame: Frame
    untouched: frozenset[int]
    """Layers that can be tested in it, since it was not learned from them."""


def frame_of_units(reading: Reading, pair: Pair) -> UnitFrame | None:
    """Learn a map of the residual stream from MLP units, and find layers that it was not learned from."""
    rows = frame_rows(pair)
    if rows is None:
        return None
    learn = Probe(candidate=rows.candidate, base=rows.base, evaluate=_as_read)
    check = Probe(candidate=rows.left_candidate, base=rows.left_base, evaluate=_as_read)
    if not reading.pay(learn, check) or (learned := reading.read(learn)) is None:
        return None
    some = _first_units(learned[0]), _first_units(learned[1])
    made = find_frame(
        _emptied(learned[0]), _emptied(learned[1]), learned_from=say("even-layers"), seed=pair.seed
    )
    if not isinstance(made, Frame):
        return None
    left = None if made.kind == "identity" else reading.read(check)
    untouched = frozenset[int]() if left is None else untouched_layers(rows.left, learned=some, left=left)
    return UnitFrame(frame=made, untouched=untouched)


def _first_units(parts: list[Array]) -> list[Array]:
    return [rows[:COPY_UNITS].copy() for rows in parts]


def _emptied(parts: list[Array]) -> Array:
    """Return all rows in one array and free the parts: in wide models they are hundreds of megabytes."""
    rows = np.concatenate(parts)
    parts.clear()
    return rows


def _as_read(candidate: list[Array], base: list[Array]) -> tuple[list[Array], list[Array]]:
    return candidate, base
