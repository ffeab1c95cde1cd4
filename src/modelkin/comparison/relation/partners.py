"""Do factors that were undone take each other back? Only then does the model compute what it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Architecture

from .measure import Block
from .result import TensorChange
from .scales import factors_of, mixtures_of

Doubles = npt.NDArray[np.float64]

_TAKEN_BACK = 0.02
"""A product of factors may be this far from one. Gains are single numbers: BF16 rounds each by 0.4 % at most,
and two of them are divided."""
_TELLING = 0.2
"""Gains stored as their difference from one say little where this is nearly all of them."""
_FACTORED = ("rescaled", "mixed", "changed")
_READERS = {
    "attention_query": "attention_norm",
    "attention_key": "attention_norm",
    "attention_value": "attention_norm",
    "mlp_gate": "mlp_norm",
    "mlp_up": "mlp_norm",
    "expert_gate": "mlp_norm",
    "expert_up": "mlp_norm",
    "router": "mlp_norm",
    "output_head": "final_norm",
}
"""What reads the residual stream -> the norm before it."""
_WRITERS = ("attention_output", "mlp_down", "expert_down")
_AFTERWARDS = ("attention_output_norm", "attention_inner_norm", "mlp_output_norm", "mlp_inner_norm")
"""Norms of which other factors are taken back: nothing is said about their parts."""
_UNITS = (("mlp_gate", "mlp_up", "mlp_down"), ("expert_gate", "expert_up", "expert_down"))
_UNMOVED = ("mlp_gate", "expert_gate", "router", "output_head")
"""Behind these comes a function that no factor passes."""
_ACTIVATIONS = ("hidden_act", "activation_function", "hidden_activation")
"""What configs call the function between the matrices of an MLP."""


@dataclass(slots=True, kw_only=True, eq=False)
class Factored:
    """What a tensor was multiplied with, by the indices of the base; NaN where that is not known."""

    at: int
    """Which change it belongs to."""
    rows: Doubles
    columns: Doubles
    mixtures: tuple[Doubles, ...] = ()
    values: tuple[Doubles, Doubles] | None = None
    """Of vectors: both sides."""


def factored(at: int, change: TensorChange, block: Block) -> Factored:
    """Return the factors of a tensor that was measured."""
    if block.base.ndim == 1:
        both = np.asarray(block.candidate, np.float64), np.asarray(block.base, np.float64)
        places = np.arange(len(both[0])) if block.places is None else block.places[0]
        mine, theirs = (_spread(side, places) for side in both)
        return Factored(at=at, rows=np.empty(0), columns=np.empty(0), values=(mine, theirs))
    rows, columns = (np.full(size, np.nan) for size in block.base.shape)
    mixtures: tuple[Doubles, ...] = ()
    if change.what in ("equal", "rounded"):
        rows[:], columns[:] = 1.0, 1.0
    elif change.what == "rescaled":
        rows, columns = factors_of(block.candidate, block.base)
    elif change.what == "mixed":
        mixtures = mixtures_of(block.candidate, block.base, block.head)
    if block.places is not None:
        rows, columns = (_spread(side, at) for side, at in zip((rows, columns), block.places, strict=True))
    return Factored(at=at, rows=rows, columns=columns, mixtures=mixtures)


def with_factors_left(
    changes: Sequence[TensorChange],
    held: Sequence[Factored],
    architecture: Architecture,
    config: Mapping[str, object],
) -> list[TensorChange]:
    """Say ``scaled`` of tensors whose factors nothing takes back.

    Parameters
    ----------
    changes
        What became of each tensor.
    held
        The factors of those that have any, and of what could take them back.
    architecture
        Of the base.
    config
        Of the base: what stands between the matrices of an MLP without gates.
    """
    found = list(changes)
    if architecture.kind == "encoder-decoder" or not any(
        item.what in ("rescaled", "mixed") for item in changes
    ):
        return found
    left: set[int] = set()
    for names in _Partners(changes, held, architecture, config).left():
        left |= {name for name in names if changes[name].what in _FACTORED}
    for at in left:
        found[at] = replace(found[at], what="scaled")
    return found


class _Partners:
    def __init__(
        self,
        changes: Sequence[TensorChange],
        held: Sequence[Factored],
        architecture: Architecture,
        config: Mapping[str, object],
    ) -> None:
        self.changes, self.sizes = changes, architecture.sizes
        self.added = 1.0 if architecture.norm == "rms-one-plus" else 0.0
        self.turning = architecture.positions == "rope", architecture.rope_layout
        self.relu = any(config.get(name) == "relu" for name in _ACTIVATIONS)
        self.outside = self._by_role(held, None, None)
        self.layers = {
            (changes[item.at].layer, changes[item.at].expert)
            for item in held
            if changes[item.at].layer is not None
        }
        self.held = held
        self.stream = self._factor_of_stream()

    def left(self) -> Iterator[tuple[int, ...]]:
        """Yield the tensors whose factors are not taken back, each with those that should."""
        table = self.outside.get("embedding")
        if table is not None and self.stream is not None:
            # A norm measures the stream: no dimension may be larger than before, next to the others.
            size = _middle(np.abs(self.stream))
            if not (_is(np.abs(self.stream), size) and _is(table.rows, _middle(table.rows))):
                yield (table.at,)
        yield from self._of_part(self.outside)
        for layer, expert in sorted(self.layers, key=str):
            part = self._by_role(self.held, layer, expert)
            if expert is not None:
                norms = self._by_role(self.held, layer, None)
                part |= {role: item for role, item in norms.items() if role == "mlp_norm"}
            yield from self._of_part(part)

    def _of_part(self, part: dict[str, Factored]) -> Iterator[tuple[int, ...]]:
        if any(role in part for role in _AFTERWARDS):
            return
        rows = {role: item.rows for role, item in part.items()}
        columns: dict[str, Doubles] = {}
        for role, norm in _READERS.items():
            if role not in part or (role == "output_head" and norm not in part):
                continue
            entering = self._entering(part[role], part.get(norm))
            size = _middle(entering)
            if not _is(entering, size):
                yield tuple(item.at for item in (part[role], part.get(norm)) if item is not None)
            rows[role] = part[role].rows * size
        for role in _WRITERS:
            if role not in part:
                continue
            if self.stream is None:
                # What it was multiplied with may be that of all that writes to the stream.
                columns[role] = np.where(_is(part[role].rows, 1.0), part[role].columns, np.nan)
                continue
            leaving = _product(part[role].rows, 1 / self.stream)
            size = _middle(leaving)
            if not _is(leaving, size):
                yield (part[role].at,)
            columns[role] = part[role].columns * size
        for role in _UNMOVED:
            if role in rows and not _is(rows[role], 1.0):
                yield (part[role].at,)
        yield from self._of_units(part, rows, columns)
        yield from self._of_heads(part, rows, columns)
        yield from self._of_biases(part, rows)

    def _entering(self, reader: Factored, norm: Factored | None) -> Doubles:
        """Return what the inputs of a matrix were multiplied with, from the stream to its columns.

        A norm takes back the size of the stream, and leaves its signs.
        """
        gain = None if norm is None else self._gain(norm)
        entering = reader.columns if gain is None else _product(reader.columns, gain)
        return np.abs(entering) if self.stream is None else _product(entering, np.sign(self.stream))

    def _of_units(
        self, part: dict[str, Factored], rows: dict[str, Doubles], columns: dict[str, Doubles]
    ) -> Iterator[tuple[int, ...]]:
        for gate, up, down in _UNITS:
            if up not in rows or down not in columns:
                continue
            # Without gates a function lies between: a ReLU lets sizes pass, and others nothing.
            passed = np.sign(rows[up]) if self.relu else rows[up]
            back = _is(_product(rows[up], columns[down]), 1.0)
            if not (back and (gate in part or _is(passed, 1.0))):
                yield part[up].at, part[down].at

    def _of_heads(
        self, part: dict[str, Factored], rows: dict[str, Doubles], columns: dict[str, Doubles]
    ) -> Iterator[tuple[int, ...]]:
        heads, groups = self.sizes.get("heads", 0), self.sizes.get("kv_heads", self.sizes.get("heads", 0))
        if not groups or heads % groups:
            return
        query, key, value, output = (
            part.get(f"attention_{name}") for name in ("query", "key", "value", "output")
        )
        if value is not None and output is not None and "attention_output" in columns:
            shared = _by_head(rows["attention_value"], groups, self.sizes.get("v_dim", 0), heads // groups)
            behind = columns["attention_output"]
            if not _is(_product(shared, behind), 1.0) or (value.mixtures and _is_known(behind)):
                yield value.at, output.at
        if query is None or key is None:
            return
        if query.mixtures or key.mixtures:
            if not self._are_mixed_back(query, key, heads // groups):
                yield query.at, key.at
            return
        width = self.sizes.get("qk_dim", 0)
        asked = self._normed(rows["attention_query"], part.get("query_norm"), width)
        offered = self._normed(rows["attention_key"], part.get("key_norm"), width)
        back = _is(_product(asked, _by_head(offered, groups, width, heads // groups)), 1.0)
        if not (back and self._is_alike_in_pairs(asked, width)):
            yield query.at, key.at

    def _normed(self, rows: Doubles, norm: Factored | None, width: int) -> Doubles:
        """Return what is left of factors behind a norm of queries or keys: their signs and its gains."""
        gain = None if norm is None else self._gain(norm)
        if gain is None or not width:
            return rows
        signs = np.sign(rows)
        return _product(signs, np.tile(gain, -(-len(signs) // len(gain))))

    @staticmethod
    def _are_mixed_back(query: Factored, key: Factored, shared: int) -> bool:
        """Say whether mixtures of queries undo those of keys; True if one side is not known."""
        if len(query.mixtures) != shared * len(key.mixtures):
            return not any(item.mixtures or _is_known(item.rows) for item in (query, key)) or not all(
                item.mixtures or _is_known(item.rows) for item in (query, key)
            )
        for at, mixture in enumerate(query.mixtures):
            product = mixture.T @ key.mixtures[at // shared]
            if np.abs(product - np.eye(len(product))).max() > _TAKEN_BACK:
                return False
        return True

    def _is_alike_in_pairs(self, rows: Doubles, width: int) -> bool:
        """Say whether both numbers of a pair that turns with the position have one factor."""
        turning, layout = self.turning
        turned = self.sizes.get("rotary_dim", width)
        if not turning or layout is None or not width or turned % 2 or len(rows) % width:
            return True
        by_head = rows.reshape(-1, width)[:, :turned]
        if layout == "half":
            left, right = by_head[:, : turned // 2], by_head[:, turned // 2 :]
        else:
            left, right = by_head[:, ::2], by_head[:, 1::2]
        return _is((left / right).ravel(), 1.0)

    def _of_biases(self, part: dict[str, Factored], rows: dict[str, Doubles]) -> Iterator[tuple[int, ...]]:
        for role, item in part.items():
            bias = part.get(f"{role}_bias")
            if bias is None or bias.values is None:
                continue
            factors = (
                self.stream if role in _WRITERS else rows[role] if item.values is None else self._gain(item)
            )
            if factors is None:
                continue
            mine, theirs = bias.values
            size = min(len(factors), len(theirs))
            off = np.abs(mine[:size] - factors[:size] * theirs[:size])
            if np.max(off, initial=0.0, where=np.isfinite(off)) > _TAKEN_BACK * np.nanmax(np.abs(mine)):
                yield bias.at, item.at

    def _gain(self, norm: Factored) -> Doubles:
        """Return what gains were multiplied with; NaN where they are too small to tell."""
        assert norm.values is not None
        mine, theirs = (side + self.added for side in norm.values)
        told = (np.abs(theirs) > _TELLING * self.added) & (np.abs(mine) > _TELLING * self.added)
        return np.divide(mine, theirs, out=np.full_like(mine, np.nan), where=told)

    def _factor_of_stream(self) -> Doubles | None:
        """Return what the residual stream was multiplied with, as tokens enter it."""
        table = self.outside.get("embedding")
        if table is None or not _is_known(table.columns):
            return None
        return table.columns * _middle(table.rows)

    def _by_role(
        self, held: Iterable[Factored], layer: int | None, expert: int | None
    ) -> dict[str, Factored]:
        chosen = [
            item
            for item in held
            if self.changes[item.at].layer == layer and self.changes[item.at].expert == expert
        ]
        roles = [self.changes[item.at].role for item in chosen]
        return {role: item for role, item in zip(roles, chosen, strict=True) if roles.count(role) == 1}


def _spread(values: Doubles, places: npt.NDArray[np.intp]) -> Doubles:
    """Put values at their places, and NaN elsewhere."""
    found = np.full(int(places.max(initial=-1)) + 1, np.nan)
    found[places] = values
    return found


def _product(left: Doubles, right: Doubles) -> Doubles:
    size = min(len(left), len(right))
    return left[:size] * right[:size]


def _by_head(rows: Doubles, groups: int, width: int, shared: int) -> Doubles:
    """Repeat the rows of each KV head for every query head that shares them."""
    whole = np.full(groups * width, np.nan)
    whole[: len(rows)] = rows[: len(whole)]
    return np.repeat(whole.reshape(groups, width), shared, axis=0).ravel()


def _middle(values: Doubles) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else 1.0


def _is(values: Doubles, wanted: float) -> bool:
    """Say whether all that is known of some factors is one number."""
    known = values[np.isfinite(values)]
    return bool(np.all(np.abs(known - wanted) <= _TAKEN_BACK * abs(wanted)))


def _is_known(values: Doubles) -> bool:
    return bool(np.isfinite(values).any())
