"""What an architecture file says, as values. Reading and checking the files is the business of `loader`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ._roles import Part, Role
from ._spaces import Positions
from .notation import Expression, Slot

Kind = Literal["decoder", "encoder", "encoder-decoder"]
Norm = Literal["rms", "rms-one-plus", "layer"]
"""How a norm uses its gain: `rms-one-plus` multiplies by one plus the stored number."""
RopeLayout = Literal["half", "interleaved"]
"""Which dimensions of a head turn together: i and i + half, or neighbours."""
Stack = Literal["decoder", "encoder", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedPart:
    """One role inside a fused axis.

    Parameters
    ----------
    role
        What the part is for.
    spaces
        The spaces of its length within one group, slowest first.
    """

    role: Role
    spaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How several roles share one axis: groups one after the other, within each group the parts in order.

    Parameters
    ----------
    axis
        The shared axis, in file order.
    per
        The space of the groups, or None for plain concatenation.
    parts
        In file order.
    """

    axis: int
    per: str | None
    parts: tuple[FusedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorSpec:
    """One kind of tensor of a family.

    Parameters
    ----------
    pattern
        The name as written in the file, for messages.
    in_body
        Whether the name starts with ``{body}``, which a wrapper may move.
    template, slots
        The rest of the name with ``#`` for numbers, and what the numbers mean.
    role
        What it is for; for a fused tensor, the role to give when it cannot be taken apart.
    part
        Weight, bias, or a piece of a quantised weight.
    axes
        The spaces of each axis in file order; the fused axis is ``("fused",)``.
    fusion
        How to take it apart, or None.
    stack
        Which stack of layers it belongs to.
    transposed
        Whether it is stored input-first, as Conv1D and batched experts are.
    fixed
        Whether it is a computed table that training never touches.
    optional
        Whether a complete model may lack it.
    layer_slot, expert_slot
        Which number of a name is the layer, which the expert; None if there is none.
    fits_all
        Whether every name of the template fits, because the pattern has no plain numbers.
    """

    pattern: str
    in_body: bool
    template: str
    slots: tuple[Slot, ...]
    role: Role
    part: Part
    axes: tuple[tuple[str, ...], ...]
    fusion: Fusion | None
    stack: Stack
    transposed: bool
    fixed: bool
    optional: bool
    layer_slot: int | None = field(init=False)
    expert_slot: int | None = field(init=False)
    fits_all: bool = field(init=False)

    def __post_init__(self) -> None:
        # Asked for once per tensor of a checkpoint, of which there may be a hundred thousand.
        object.__setattr__(self, "layer_slot", self.slots.index("layer") if "layer" in self.slots else None)
        object.__setattr__(
            self, "expert_slot", self.slots.index("expert") if "expert" in self.slots else None
        )
        object.__setattr__(self, "fits_all", not any(isinstance(slot, int) for slot in self.slots))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What changes in a family when the config says something.

    Parameters
    ----------
    key, equals
        Applies if the config has this value at this dotted path.
    positions, norm, rope_layout
        Replaced if not None.
    sizes
        Replace the candidates of the same name.
    roles
        Old role to new role.
    """

    key: str
    equals: str | int | bool
    positions: Positions | None
    norm: Norm | None
    rope_layout: RopeLayout | None
    sizes: Mapping[str, tuple[Expression, ...]]
    roles: Mapping[Role, Role]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSpace:
    """A space that is another one unless a tensor stands between them.

    Parameters
    ----------
    space, into
        The first is the second,
    unless
        unless the model has a tensor of this role.
    """

    space: str
    into: str
    unless: Role


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArchitectureSpec:
    """One architecture file.

    Parameters
    ----------
    family, title
        Short and long name.
    model_types, class_names
        What ``model_type`` and ``architectures`` of a config may say.
    kind, norm, positions, encoder_positions, rope_layout
        How the model works, as far as the meaning of the axes depends on it.
    bodies
        What ``{body}`` may stand for.
    precedence
        Among families that explain the same names equally well, the larger is taken.
    sizes
        For each size, expressions in order of preference.
    merged_spaces
        Spaces that are one and the same in models that lack a certain tensor.
    tensors
        All tensors, biases included.
    variants
        In order; a later one overrules an earlier one.
    """

    family: str
    title: str
    model_types: frozenset[str]
    class_names: frozenset[str]
    kind: Kind
    norm: Norm
    positions: Positions
    encoder_positions: Positions
    rope_layout: RopeLayout | None
    bodies: tuple[str, ...]
    precedence: int
    sizes: Mapping[str, tuple[Expression, ...]]
    merged_spaces: tuple[MergedSpace, ...]
    tensors: tuple[TensorSpec, ...]
    variants: tuple[Variant, ...]
