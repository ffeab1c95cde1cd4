"""What is read of a layer to get its units and heads as directions: which matrices, how many rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Architecture, Role
from modelkin.comparison.alignment import LayerUnits, as_units, joined_splits
from modelkin.tensors import Array, TensorSlice

from ._gains import acting_gain, gain_before
from ._interface import Part, Side
from ._sketch import RowSource, rows_part, source_of

_ROLES = (
    (Role.MLP_GATE, Role.MLP_UP, Role.MLP_DOWN, "mlp"),
    (Role.SHARED_EXPERT_GATE, Role.SHARED_EXPERT_UP, Role.SHARED_EXPERT_DOWN, "shared_mlp"),
    (Role.EXPERT_GATE, Role.EXPERT_UP, Role.EXPERT_DOWN, "expert_mlp"),
)
_MOST_OF_A_HEAD = 16
"""How many of a head's strongest directions are used."""
_FEWEST_UNITS = 16
"""With fewer, one unit that agrees by chance is a large share."""
_NO_GAIN = 1e-6
"""A gain this small passes nothing on: dividing by it would make rounding errors the largest numbers of
all."""
_FEW_EXPERTS = 4
"""Experts that represent all if there is no room for more: some hundreds of units or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingDepth:
    """How much of a layer is read."""

    share: float
    """Share of the units, if rows can be read one by one."""
    writes: bool
    """Whether what gated units write is read too: usually a whole matrix, however few units are wanted."""
    routed: bool
    """Whether all experts that a router chooses from are read. Otherwise a shared expert represents them or,
    if there is none, the first few: their order is then assumed to be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMatrices:
    """The matrices of one layer's MLP, one group per expert."""

    layer: int
    gated: bool
    component: str
    groups: tuple[tuple[RowSource, ...], ...]

    @property
    def role(self) -> str:
        """What its units read with."""
        return self.groups[0][0].entry.role.value

    def chosen(self, how: ReadingDepth) -> tuple[tuple[RowSource, ...], ...]:
        """Return the groups that are read: all of them, shared experts, or the first few."""
        always = tuple(group for group in self.groups if group[0].expert is None)
        groups = self.groups if how.routed else always or self.groups[:_FEW_EXPERTS]
        return groups if how.writes or not self.gated else tuple(group[:2] for group in groups)

    def cost(self, how: ReadingDepth) -> int:
        """Return the bytes of it."""
        return sum(source.cost(_count(source, how)) for group in self.chosen(how) for source in group)

    def parts(self, side: Side, how: ReadingDepth) -> tuple[Part, ...]:
        """Plan the reading, role by role and expert by expert; biases of ungated units come last."""
        made = [
            rows_part(side, source, count=_count(source, how))
            for group in self.chosen(how)
            for source in group
        ]
        if not self.gated:
            made += _bias_parts(side, self.groups[0][0])
        return tuple(made)

    def units(self, side: Side, how: ReadingDepth, arrays: Sequence[Array]) -> LayerUnits | None:
        """Make units from what was read; None if there are too few."""
        groups, read = self.chosen(how), iter(arrays)
        by_group = [[next(read) for _ in group] for group in groups]
        rows = [
            np.concatenate([group[at][: _common(group)] for group in by_group])
            for at in range(len(groups[0]))
        ]
        share = sum(_common(group) for group in by_group) / sum(group[0].n_units for group in self.groups)
        extra = None if self.gated else _acting_bias(rows[0], list(read))
        made = as_units(
            "gated" if self.gated else "plain",
            rows,
            extra=extra,
            centred=side.architecture.norm == "layer",
            read=min(1.0, share) if how.routed or len(groups) == len(self.groups) else how.share,
        )
        made = joined_splits(made)
        return made if len(made) >= _FEWEST_UNITS else None


def _common(group: Sequence[Array]) -> int:
    """Return how many units all matrices of a group have: those stored input-first were read whole."""
    return min(len(matrix) for matrix in group)


def _count(source: RowSource, how: ReadingDepth) -> int:
    return max(1, round(how.share * source.n_units))


def layer_matrices(side: Side, layer: int) -> LayerMatrices | None:
    """Find the matrices of a layer's MLP; None if it has none whose rows are units of residual width."""
    width = side.architecture.sizes.get("residual")
    groups = [group for group in _groups(side, layer) if all(item.n_features == width for item in group)]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1:
        return None
    experts = any(group[0].expert is not None or group[0].space == "shared_mlp" for group in groups)
    return LayerMatrices(
        layer=layer,
        gated=sizes == {3},
        component="experts" if experts else "mlp",
        groups=tuple(groups),
    )


def _groups(side: Side, layer: int) -> Iterator[tuple[RowSource, ...]]:
    for gate, up, down, space in _ROLES:
        numbers: Sequence[int | None] = (None,)
        if space == "expert_mlp":
            numbers = side.architecture.experts_of(layer, up)
        for number in numbers:
            found = [source_of(side, role, space, layer, expert=number) for role in (gate, up, down)]
            there = tuple(source for source in found if source is not None)
            if found[1] is not None and found[2] is not None:
                yield there


def _bias_parts(side: Side, reader: RowSource) -> list[Part]:
    """Plan the bias of ungated units and, if their norm has one too, that bias divided by the gain."""
    architecture, layer = side.architecture, reader.entry.layer
    entry = architecture.find(reader.entry.role, layer=layer, part="bias")
    if entry is None or entry.segment is not None or side.index[entry.tensor].shape != (reader.n_units,):
        return []
    made = [Part(slices=(TensorSlice.whole(entry.tensor),))]
    gain = gain_before(architecture, reader.entry)
    shift = architecture.find(Role.MLP_NORM, layer=layer, part="bias")
    if gain is not None and shift is not None:
        slices = TensorSlice.whole(shift.tensor), TensorSlice.whole(gain.tensor)
        made.append(Part(slices=slices, reduce=lambda arrays: _over_gain(arrays[0], arrays[1], architecture)))
    return made


def _over_gain(shift: Array, gain: Array, architecture: Architecture) -> Array:
    acting = acting_gain(gain, architecture)
    usable = np.abs(acting) > _NO_GAIN
    return np.asarray(np.where(usable, shift / np.where(usable, acting, 1.0), 0.0), dtype=np.float32)


def _acting_bias(rows: Array, biases: Sequence[Array]) -> Array | None:
    """Return the bias of units plus what the bias of their norm adds; None if there is none."""
    if not biases:
        return None
    bias = np.asarray(biases[0], dtype=np.float32)[: len(rows)]
    return bias if len(biases) == 1 else bias + rows @ biases[1]


# -- heads ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMatrices:
    """Values and outputs of one layer's attention."""

    layer: int
    value: RowSource
    output: RowSource
    width: int
    """Of the values of a head."""

    def cost(self) -> int:
        """Return the bytes of both."""
        return self.value.cost(self.value.n_units) + self.output.cost(self.output.n_units)

    def parts(self, side: Side) -> tuple[Part, ...]:
        """Plan the reading of both, value dimensions as rows."""
        return rows_part(side, self.value), rows_part(side, self.output)

    def units(self, side: Side, arrays: Sequence[Array]) -> LayerUnits | None:
        """Return the strongest directions that heads read and write, in the order of heads.

        The product of output and value does not change when values are mixed inside a head. Its singular
        vectors are what the head reads and writes, whatever its number.
        """
        value, output = (np.nan_to_num(np.asarray(rows, dtype=np.float32)) for rows in arrays)
        n_heads, n_groups = len(output) // self.width, len(value) // self.width
        reads, writes = [], []
        for head in range(n_heads):
            group = head * n_groups // n_heads
            taken = _directions(
                value[group * self.width : (group + 1) * self.width],
                output[head * self.width : (head + 1) * self.width],
            )
            reads.append(taken[0])
            writes.append(taken[1])
        made = as_units(
            "head",
            (np.concatenate(reads), np.concatenate(writes)),
            centred=side.architecture.norm == "layer",
        )
        return made if len(made) >= _FEWEST_UNITS else None


def _directions(value: Array, output: Array) -> tuple[Array, Array]:
    """Return the directions that a head reads and writes, the strongest first, scaled by strength."""
    read_basis, read_small = np.linalg.qr(value.T)
    write_basis, write_small = np.linalg.qr(output.T)
    left, strengths, right = np.linalg.svd(write_small @ read_small.T)
    n = min(_MOST_OF_A_HEAD, len(strengths))
    scale = np.sqrt(strengths[:n])[:, None]
    return scale * (read_basis @ right[:n].T).T, scale * (write_basis @ left[:, :n]).T


def head_matrices(side: Side, layer: int) -> HeadMatrices | None:
    """Find values and outputs of a layer's attention; None if they are not organised by heads."""
    value = source_of(side, Role.ATTENTION_VALUE, "v_dim", layer)
    output = source_of(side, Role.ATTENTION_OUTPUT, "v_dim", layer)
    sizes = side.architecture.sizes
    width, residual = sizes.get("v_dim"), sizes.get("residual")
    if value is None or output is None or not width:
        return None
    n_heads, n_groups = output.n_units // width, value.n_units // width
    if not n_groups or n_heads % n_groups or {value.n_features, output.n_features} != {residual}:
        return None
    return HeadMatrices(layer=layer, value=value, output=output, width=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatrix:
    """Keys of one layer's attention, as rows of heads."""

    layer: int
    source: RowSource
    width: int
    """Of the keys of a head."""

    def cost(self) -> int:
        """Return its bytes."""
        return self.source.cost(self.source.n_units)

    def part(self, side: Side) -> Part:
        """Plan the reading of all of it."""
        return rows_part(side, self.source)


def key_matrix(side: Side, layer: int) -> KeyMatrix | None:
    """Find the keys of a layer's attention; None if they are not pairs of dimensions of heads."""
    source = source_of(side, Role.ATTENTION_KEY, "qk_dim", layer)
    width, residual = (side.architecture.sizes.get(name) for name in ("qk_dim", "residual"))
    if source is None or not width or width % 2 or source.n_units % width:
        return None
    return KeyMatrix(layer=layer, source=source, width=width) if source.n_features == residual else None


# -- gains ---------------------------------------------------------------------------------------------


def gain_parts(side: Side, layers: Sequence[int]) -> tuple[Part, ...]:
    """Plan the gains of all norms of some layers, in a fixed order, and of the last one."""
    architecture = side.architecture
    roles = (Role.ATTENTION_NORM, Role.ATTENTION_OUTPUT_NORM, Role.MLP_NORM, Role.MLP_OUTPUT_NORM)
    found = [architecture.find(role, layer=layer) for layer in layers for role in roles]
    found.append(architecture.find(Role.FINAL_NORM))
    width = architecture.sizes.get("residual")
    return tuple(
        Part(
            slices=(TensorSlice.whole(entry.tensor),),
            reduce=lambda arrays: acting_gain(arrays[0], architecture),
        )
        for entry in found
        if entry is not None and side.index[entry.tensor].shape == (width,)
    )
