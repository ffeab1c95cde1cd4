"""What is known about a checkpoint's tensors: the answer of `detect`, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modelkin.message import Message

from ._roles import Component, Part, Role
from .spaces import Positions, Space, space_under
from .spec import Kind, Norm, RopeLayout, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The indices that one part of a fused tensor takes along the fused axis.

    In each of `n_groups` groups of `stride` indices, the part takes `length`, starting at `offset`.
    """

    axis: int
    """The fused axis, in file order."""
    offset: int
    length: int
    stride: int
    n_groups: int

    def __len__(self) -> int:
        return self.length * self.n_groups

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the indices as ranges (start, stop), ascending, neighbours merged."""
        if self.length == self.stride:
            return ((self.offset, self.offset + len(self)),)
        starts = range(self.offset, self.offset + self.stride * self.n_groups, self.stride)
        return tuple((start, start + self.length) for start in starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleEntry:
    """What a tensor, or a part of a fused tensor, is for; a fused tensor has one entry per role."""

    tensor: str
    """The full name in the checkpoint."""
    role: Role
    part: Part
    component: Component
    stack: Stack
    layer: int | None
    expert: int | None
    """Layer and expert are numbers from the name, or None. Stacked experts have an axis ``experts``."""
    axes: tuple[tuple[str, ...], ...]
    """For each axis in file order its spaces, slowest first."""
    segment: Segment | None
    """Which indices of the fused axis belong to this entry; None if the whole tensor does."""
    transposed: bool
    """Stored input-first."""
    fixed: bool
    """A computed table: equal bytes prove nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTensor:
    """A tensor without a known meaning, and why."""

    name: str
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTensor:
    """A tensor of a component other than the language model, such as a vision tower."""

    name: str
    component: str


_MAIN_STACK: Final[dict[Kind, Stack]] = {
    "decoder": "decoder",
    "encoder": "encoder",
    "encoder-decoder": "decoder",
}

_Key = tuple[Role, int | None, Part, bool]
_ByExpert = dict[int | None, list[RoleEntry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What each tensor of a checkpoint is for.

    Parameters
    ----------
    family, title
        None and a message if no family fits: then every tensor is in `unknown` or `other`.
    model_type
        What the config says, whether or not it was believed.
    kind, norm, positions, encoder_positions, rope_layout
        How the model works; `norm` and `positions` decide what gains and orders mean.
    prefix
        What a wrapper puts before the names of the language model; empty for a plain model.
    sizes
        Sizes of spaces, and ``layers``, ``encoder_layers``, ``rotary_dim``; only those that are known.
    layers, encoder_layers
        Indices of the layers that are there, ascending, MTP layers left out.
    mtp_layers
        Indices of multi-token-prediction layers.
    tensors
        One entry per tensor and role; tensors whose names differ only in numbers are grouped. Nothing of
        multi-token-prediction layers is here.
    mtp_tensors
        The same of multi-token-prediction layers. They are numbered like decoder layers and are none.
    unknown, other
        Tensors without a role.
    notes
        What was odd.
    guessed
        Whether names said nothing, and roles were guessed from shapes and order.
    contradicted
        Whether some tensor has another shape than the sizes of the config lead to.
    """

    family: str | None
    title: str | Message
    model_type: str | None
    kind: Kind
    norm: Norm | None
    positions: Positions
    encoder_positions: Positions
    rope_layout: RopeLayout | None
    prefix: str
    sizes: Mapping[str, int]
    layers: tuple[int, ...]
    encoder_layers: tuple[int, ...]
    mtp_layers: tuple[int, ...]
    tensors: tuple[RoleEntry, ...] = field(repr=False)
    mtp_tensors: tuple[RoleEntry, ...] = field(repr=False)
    unknown: tuple[UnknownTensor, ...] = field(repr=False)
    other: tuple[OtherTensor, ...] = field(repr=False)
    notes: tuple[Message, ...]
    guessed: bool = False
    contradicted: bool = False
    _index: dict[_Key, _ByExpert] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index: dict[_Key, _ByExpert] = {}
        for mtp, entries in ((False, self.tensors), (True, self.mtp_tensors)):
            for entry in entries:
                by_expert = index.setdefault((entry.role, entry.layer, entry.part, mtp), {})
                by_expert.setdefault(entry.expert, []).append(entry)
        object.__setattr__(self, "_index", index)

    def __str__(self) -> str:
        if self.family is None:
            return str(self.title)
        roles = len(self.tensors) + len(self.mtp_tensors)
        return f"{self.title}: {self.n_layers} layers, {roles} roles, {len(self.unknown)} unknown"

    @property
    def is_known(self) -> bool:
        """Whether a family fits."""
        return self.family is not None

    @property
    def mtp_names(self) -> frozenset[str]:
        """Names of the tensors of multi-token-prediction layers."""
        return frozenset(entry.tensor for entry in self.mtp_tensors)

    @property
    def n_layers(self) -> int:
        """Number of layers of the main stack: the decoder, or the encoder of a model without decoder."""
        return len(self.layers)

    @property
    def main_stack(self) -> Stack:
        """The stack that `layers` counts."""
        return _MAIN_STACK[self.kind]

    def find(
        self,
        role: Role,
        layer: int | None = None,
        part: Part = "weight",
        *,
        expert: int | None = None,
        stack: Stack | None = None,
        mtp: bool = False,
    ) -> RoleEntry | None:
        """Return the entry with this role, or None.

        Parameters
        ----------
        role, layer, part, expert
            All must match. A stacked tensor of experts has `expert` None.
        stack
            If None, the main stack is preferred.
        mtp
            Look only among the multi-token-prediction layers. They are numbered like decoder layers but are
            not decoder layers: the two kinds are never compared.
        """
        entries = self._index.get((role, layer, part, mtp or role.is_mtp), {}).get(expert, [])
        if stack is not None:
            return next((entry for entry in entries if entry.stack == stack), None)
        return min(entries, key=lambda entry: entry.stack != self.main_stack, default=None)

    def layers_of(self, role: Role, part: Part = "weight", *, stack: Stack | None = None) -> tuple[int, ...]:
        """Return the layers that have this role, ascending, MTP layers left out."""
        wanted = stack or self.main_stack
        found = [
            layer
            for (of, layer, of_part, mtp), by_expert in self._index.items()
            if of is role
            and of_part == part
            and layer is not None
            and not mtp
            and any(entry.stack == wanted for entries in by_expert.values() for entry in entries)
        ]
        return tuple(sorted(found))

    def experts_of(self, layer: int, role: Role = Role.EXPERT_DOWN, part: Part = "weight") -> Sequence[int]:
        """Return the numbers of the experts of a layer, ascending; for stacked experts, all of their axis.

        A multi-token-prediction layer has none here.
        """
        by_expert = self._index.get((role, layer, part, False), {})
        if None in by_expert:
            return range(self.sizes.get("experts", 0))
        return tuple(sorted(expert for expert in by_expert if expert is not None))

    def space(self, name: str) -> Space:
        """Return a space as it is in this model: positions decide which orders are free."""
        return space_under(
            name,
            positions=self.positions,
            encoder_positions=self.encoder_positions,
            expert_groups=self.sizes.get("expert_groups", 1),
        )
