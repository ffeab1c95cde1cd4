"""From names that fit a family to entries, once the shapes bear them out; and which layers there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from modelkin.message import Message, say

from ._match import Matcher, NameGroup
from ._result import Segment
from ._roles import Component, Part, Role
from ._sizes import KnownSizes, axis_terms
from .spec import FusedPart, Fusion, Kind, TensorSpec


class Finding(NamedTuple):
    """A tensor whose name is known."""

    name: str
    tensor: TensorSpec | None
    """What it is in the family, or None for a computed table that any family may have."""
    part: Part
    """Which part of the weight."""
    layer: int | None
    expert: int | None
    """Numbers of the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """What tensors of one kind and one shape are for; a fused tensor has several."""

    role: Role
    component: Component
    axes: tuple[tuple[str, ...], ...]
    segment: Segment | None


def findings(
    matcher: Matcher, groups: Iterable[NameGroup]
) -> tuple[list[Finding], list[tuple[str, str | None]]]:
    """Return the tensors with known names, and the others with their component or None."""
    found: list[Finding] = []
    others: list[tuple[str, str | None]] = []
    for group in groups:
        match = None
        for name, numbers in group.members:
            if match is None or not match[0].fits_all:
                match = matcher.match(group, numbers)
            if match is not None:
                tensor, part = match
                layer = numbers[tensor.layer_slot] if tensor.layer_slot is not None else None
                expert = numbers[tensor.expert_slot] if tensor.expert_slot is not None else None
                found.append(Finding(name, tensor, part, layer, expert))
            elif group.table:
                found.append(Finding(name, None, "weight", None, None))
            else:
                others.append((name, group.component))
    return found, others


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """What has another name in this model than in the file of its family."""

    roles: Mapping[Role, Role]
    """Changed by a variant of the family."""
    spaces: Mapping[str, str]
    """Merged because nothing lies between them."""

    def axes(self, axes: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        """Rename the spaces of all axes."""
        return tuple(tuple(self.spaces.get(name, name) for name in spaces) for spaces in axes)


def uses(
    finding: Finding, shape: tuple[int, ...], known: KnownSizes, renaming: Renaming
) -> list[TensorUse] | Message:
    """Return what a tensor of this shape is for, or the reason why the shape cannot be right.

    `known` are sizes of the model, `renaming` what this model names differently from its family.
    """
    tensor = finding.tensor
    if tensor is None or tensor.role is Role.FIXED_TABLE:
        return [_whole(Role.FIXED_TABLE, tuple(("table",) for _ in shape))]
    role = renaming.roles.get(tensor.role, tensor.role)
    if finding.part != tensor.part:
        return [_whole(role, tuple(("packed",) for _ in shape))]
    if (reason := _contradiction(tensor, shape, known)) is not None:
        return reason
    if tensor.fusion is None:
        return [_whole(role, renaming.axes(tensor.axes))]
    segments = _segments(tensor.fusion, known)
    if segments is None:
        return [_whole(role, tensor.axes)]
    return [_part(tensor, tensor.fusion, *pair) for pair in zip(tensor.fusion.parts, segments, strict=True)]


def _whole(role: Role, axes: tuple[tuple[str, ...], ...]) -> TensorUse:
    return TensorUse(role=role, component=role.component, axes=axes, segment=None)


def _part(tensor: TensorSpec, fusion: Fusion, part: FusedPart, segment: Segment) -> TensorUse:
    groups = (fusion.per,) if fusion.per else ()
    spaces = groups + tuple(name for name in part.spaces if name != "one" or not groups)
    if spaces[:2] == ("kv_heads", "heads_per_kv"):
        spaces = ("heads", *spaces[2:])  # query heads in the order of their groups, as everywhere else
    axes = (*tensor.axes[: fusion.axis], spaces, *tensor.axes[fusion.axis + 1 :])
    return TensorUse(role=part.role, component=part.role.component, axes=axes, segment=segment)


def _segments(fusion: Fusion, known: KnownSizes) -> list[Segment] | None:
    """Return where each part lies, or None if the sizes needed for that are not known."""
    n_groups = known.length((fusion.per,)) if fusion.per else 1
    lengths = [known.length(part.spaces) for part in fusion.parts]
    if n_groups is None or None in lengths:
        return None
    segments: list[Segment] = []
    offset, stride = 0, sum(length or 0 for length in lengths)
    for length in lengths:
        assert length is not None
        segments.append(
            Segment(axis=fusion.axis, offset=offset, length=length, stride=stride, n_groups=n_groups)
        )
        offset += length
    return segments


def _contradiction(tensor: TensorSpec, shape: tuple[int, ...], known: KnownSizes) -> Message | None:
    """Return how the shape differs from what the sizes require, or None."""
    expected = [_length(spaces, tensor.fusion, known) for spaces in tensor.axes]
    agrees = len(expected) == len(shape) and all(
        want is None or want == got for want, got in zip(expected, shape, strict=True)
    )
    if agrees:
        return None
    words = " x ".join(_words(spaces, tensor.fusion) for spaces in tensor.axes)
    numbers = "x".join("?" if want is None else str(want) for want in expected)
    code = "structure.expected" if shape else "structure.expected-not-scalar"
    return say(code, words=words, sizes=numbers, shape="x".join(map(str, shape)))


def _length(spaces: tuple[str, ...], fusion: Fusion | None, known: KnownSizes) -> int | None:
    """Return the length an axis has to have; None if any length will do."""
    terms = axis_terms(spaces, fusion)
    if any(known.is_measured(name) for term in terms for name in term):
        return None
    lengths = [known.length(term) for term in terms]
    return None if None in lengths else sum(length or 0 for length in lengths)


def _words(spaces: tuple[str, ...], fusion: Fusion | None) -> str:
    terms = ["*".join(term) for term in axis_terms(spaces, fusion)]
    return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLayers:
    """Indices of layers, ascending."""

    kind: Kind
    """That of the family, unless one half of an encoder-decoder was left out."""
    main: tuple[int, ...]
    """Of the decoder, or of the encoder in a model without decoder."""
    encoder: tuple[int, ...]
    """Of the encoder of an encoder-decoder."""
    mtp: tuple[int, ...]
    """Of multi-token-prediction layers, which are stored after the decoder's."""
    notes: tuple[Message, ...]
    """What disagrees with the config, and gaps."""


def find_layers(
    found: list[tuple[Finding, list[TensorUse]]], kind: Kind, sizes: Mapping[str, int]
) -> FoundLayers:
    """Return the layers that exist.

    A multi-token-prediction layer is told by tensors that only such a layer has: configs also count those
    whose weights were left out, and a wrong number of layers would turn a decoder layer into one.
    """
    stacks: dict[str, set[int]] = {"decoder": set(), "encoder": set(), "shared": set()}
    mtp: set[int] = set()
    for finding, plan in found:
        if finding.layer is not None and finding.tensor is not None:
            stacks[finding.tensor.stack].add(finding.layer)
            if finding.layer not in mtp and plan[0].role.is_mtp:
                mtp.add(finding.layer)
    claimed = sizes.get("layers")
    if kind == "encoder-decoder" and not stacks["decoder"]:
        kind, claimed = "encoder", sizes.get("encoder_layers")
    elif kind == "encoder-decoder" and not stacks["encoder"]:
        kind = "decoder"
    main = stacks["encoder" if kind == "encoder" else "decoder"] - mtp
    encoder = stacks["encoder"] if kind == "encoder-decoder" else set()
    notes = [
        *_odd("", main, claimed),
        *(_odd("encoder-", encoder, sizes.get("encoder_layers")) if encoder else ()),
    ]
    if not mtp and (n := sizes.get("mtp_layers")):
        notes.append(say("config-mtp-layers", n=n))
    return FoundLayers(
        kind=kind,
        main=tuple(sorted(main)),
        encoder=tuple(sorted(encoder)),
        mtp=tuple(sorted(mtp)),
        notes=tuple(notes),
    )


def _odd(stack: str, present: set[int], claimed: int | None) -> list[Message]:
    notes = []
    if claimed is not None and claimed != len(present):
        notes.append(say(f"config-{stack}layers", n=claimed, m=len(present)))
    if present and max(present) + 1 != len(present):
        notes.append(say(f"{stack}layer-numbers", n=max(present), m=len(present)))
    return notes
