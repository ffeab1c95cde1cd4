"""What an architecture file says: its tables as written, and the tensors that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as computed
from functools import cached_property
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta, field

from modelkin.message import say
from modelkin.structs import Fields, Refused, convert, inside, missing

from ._roles import Part, Role
from .notation import Expression, Slot, parse_product, split_pattern
from .spaces import Positions, SizeName, SpaceName

Kind = Literal["decoder", "encoder", "encoder-decoder"]
Norm = Literal["rms", "rms-one-plus", "layer"]
"""How a norm uses its gain: `rms-one-plus` multiplies by one plus the stored number."""
RopeLayout = Literal["half", "interleaved"]
"""Which dimensions of a head rotate together: i and i + half, or neighbours."""
Stack = Literal["decoder", "encoder", "shared"]

_UNSPLIT: Final = {
    "attention": Role.UNSPLIT_ATTENTION,
    "mlp": Role.UNSPLIT_MLP,
    "experts": Role.UNSPLIT_EXPERTS,
}


class FusedPart(NamedTuple):
    """One role inside a fused axis, and the spaces of its length within one group, slowest first."""

    role: Role
    spaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """How several roles share one axis: groups one after the other, within each group the parts in order."""

    axis: int
    per: str | None
    """The space of the groups, or None for plain concatenation."""
    parts: tuple[FusedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorSpec:
    """One kind of tensor of a family."""

    pattern: str
    """The name as written in the file, for messages."""
    in_body: bool
    """Whether the name starts with ``{body}``, which a wrapper may move."""
    template: str
    """The rest of the name, with ``#`` for numbers."""
    slots: tuple[Slot, ...]
    """What the numbers mean."""
    role: Role
    """For a fused tensor, the role to give if it cannot be split."""
    part: Part
    axes: tuple[tuple[str, ...], ...]
    """The spaces of each axis in file order; the fused axis is ``("fused",)``."""
    fusion: Fusion | None
    stack: Stack
    transposed: bool
    """Whether it is stored input-first, as Conv1D and batched experts are."""
    fixed: bool
    """Whether it is a computed table that training never touches."""
    optional: bool
    """Whether a complete model may lack it."""
    layer_slot: int | None = computed(init=False)
    """Which number of a name is the layer; None if there is none."""
    expert_slot: int | None = computed(init=False)
    fits_all: bool = computed(init=False)
    """Whether every name of the template fits, because the pattern has no plain numbers."""

    def __post_init__(self) -> None:
        # Used once per tensor of a checkpoint, of which there may be a hundred thousand.
        for slot in ("layer", "expert"):
            place = self.slots.index(slot) if slot in self.slots else None
            object.__setattr__(self, f"{slot}_slot", place)
        object.__setattr__(self, "fits_all", not any(isinstance(slot, int) for slot in self.slots))


class TensorEntry(Fields):
    """A tensor as the file has it, under its pattern; `bias` also adds the bias of the same module."""

    axes: tuple[str, ...]
    role: Role | None = None
    """Of a tensor that is not fused."""
    parts: dict[Role, str] | None = None
    per: SpaceName | None = None
    stack: Stack | None = None
    """Of an encoder-decoder."""
    part: Part = "weight"
    bias: bool = False
    transposed: bool = False
    fixed: bool = False
    optional: bool = False


class Variant(Fields):
    """What changes in a family when the config has a value at a dotted path."""

    equals: str | int | bool
    key: str = field(name="config")
    positions: Positions | None = None
    norm: Norm | None = None
    rope_layout: RopeLayout | None = None
    sizes: dict[SizeName, tuple[Expression, ...]] = field(default_factory=dict)
    """Replace the candidates of the same name."""
    roles: dict[Role, Role] = field(default_factory=dict)
    """Old role to new role."""


class Merged(Fields):
    """A space that equals another one, unless the model has a tensor of a role that separates them."""

    into: SpaceName
    unless: Role


class ArchitectureSpec(Fields, eq=False, dict=True):
    """One architecture file."""

    format: Literal[1]
    family: str
    title: str
    model_types: frozenset[str]
    """What ``model_type`` of a config may say."""
    class_names: frozenset[str]
    """What ``architectures`` of a config may say."""
    kind: Kind
    norm: Norm
    positions: Positions
    bodies: Annotated[tuple[str, ...], Meta(min_length=1, extra={"said": say("part.bodies")})]
    """What ``{body}`` may stand for."""
    sizes: dict[SizeName, tuple[Expression, ...]]
    """Expressions in order of preference."""
    entries: dict[str, TensorEntry] = field(name="tensors")
    encoder_positions: Positions | None = None
    """None if they are those of the decoder, whatever a variant changes."""
    rope_layout: RopeLayout | None = None
    precedence: int = 0
    """Among families that explain the same names equally well, the larger is taken."""
    merged_spaces: dict[SpaceName, Merged] = field(default_factory=dict)
    variants: tuple[Variant, ...] = field(name="when", default=())
    """In order; a later one overrules an earlier one."""

    @cached_property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors, biases included; one that makes no sense, or two for the same names, are `Refused`."""
        found: list[TensorSpec] = []
        for pattern, entry in self.entries.items():
            with inside(f"tensors[{pattern!r}]"):
                found += _tensors(pattern, entry, self.kind)
        _check_distinct(found)
        return tuple(found)


def demand(key: str, value: object, *, here: bool) -> None:
    """Refuse a key that is missing here, or that is present but meaningless."""
    if here and value is None:
        raise missing(key)
    if not here and value is not None:
        raise Refused(said=say("problem.means-nothing"), inside=key)


def _tensors(pattern: str, entry: TensorEntry, kind: Kind) -> list[TensorSpec]:
    template, slots = split_pattern(pattern.removeprefix("{body}"))
    with inside("axes"):
        axes = tuple(map(_spaces, entry.axes))
    fusion = _fusion(entry, axes)
    demand("role", entry.role, here=fusion is None)
    demand("stack", entry.stack, here=kind == "encoder-decoder")
    weight = TensorSpec(
        pattern=pattern,
        in_body=pattern.startswith("{body}"),
        template=template,
        slots=slots,
        role=entry.role or _unsplit(fusion),
        part=entry.part,
        axes=axes,
        fusion=fusion,
        stack=entry.stack or ("encoder" if kind == "encoder" else "decoder"),
        transposed=entry.transposed,
        fixed=entry.fixed,
        optional=entry.optional,
    )
    return [weight, _bias_of(weight)] if entry.bias else [weight]


def _spaces(text: str) -> tuple[str, ...]:
    return tuple(convert(name, SpaceName) for name in parse_product(text))


def _fusion(entry: TensorEntry, axes: Sequence[tuple[str, ...]]) -> Fusion | None:
    fused = [index for index, spaces in enumerate(axes) if spaces == ("fused",)]
    if len(fused) > 1:
        raise Refused(said=say("problem.one-fused"))
    demand("parts", entry.parts, here=bool(fused))
    if entry.parts is None:
        demand("per", entry.per, here=False)
        return None
    with inside("parts"):
        parts = tuple(FusedPart(role, _spaces(text)) for role, text in entry.parts.items())
    return Fusion(axis=fused[0], per=entry.per, parts=parts)


def _unsplit(fusion: Fusion | None) -> Role:
    component = fusion.parts[0].role.component if fusion else "other"
    return _UNSPLIT.get(component, Role.UNSPLIT_MLP)


def _bias_of(weight: TensorSpec) -> TensorSpec:
    """Return the bias that goes with a weight: its output axis, and the experts' axis if stacked."""
    stem, dot, last = weight.template.rpartition(".")
    if last != "weight":
        raise Refused(said=say("problem.bias-names"))
    output = len(weight.axes) - 1 if weight.transposed else max(len(weight.axes) - 2, 0)
    if weight.fusion is not None and weight.fusion.axis != output:
        raise Refused(said=say("problem.fused-output"))
    return replace(
        weight,
        pattern=weight.pattern.removesuffix("weight") + "bias",
        template=f"{stem}{dot}bias",
        part="bias",
        axes=(weight.axes[output],),
        fusion=weight.fusion and replace(weight.fusion, axis=0),
        transposed=False,
        optional=True,
    )


def _check_distinct(tensors: Sequence[TensorSpec]) -> None:
    seen: dict[tuple[bool, str], list[TensorSpec]] = {}
    for tensor in tensors:
        rivals = seen.setdefault((tensor.in_body, tensor.template), [])
        for rival in rivals:
            if _overlap(tensor, rival):
                raise Refused(
                    said=say("problem.same-names", first=repr(tensor.pattern), second=repr(rival.pattern))
                )
        rivals.append(tensor)


def _overlap(first: TensorSpec, second: TensorSpec) -> bool:
    """Whether some name fits both: false only if they require different plain numbers at the same place."""
    pairs = zip(first.slots, second.slots, strict=True)
    return all(a == b or isinstance(a, str) or isinstance(b, str) for a, b in pairs)
