"""What each tensor of a checkpoint is for, from config, names and shapes; never from a repository's name.

Not being able to tell is a value, not an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from msgspec import structs

from modelkin.message import Message, say

from ._bodies import united
from ._choose import choose, claimed_family, config_views
from ._doubt import believed_sizes
from ._entries import Finding, FoundLayers, Renaming, TensorUse, find_layers, findings, uses
from ._match import FamilyFit, NameGroup, group_names
from ._renamed import Renamed, restored, unprefixed
from ._result import Architecture, OtherTensor, RoleEntry, UnknownTensor
from ._roles import Role
from ._sizes import ConfigView, KnownSizes, resolve_sizes
from .guess import guess
from .loader import families, family
from .spec import ArchitectureSpec, Stack, TensorSpec

_MAX_LISTED: Final = 5
"""Missing tensors shown in a message; the rest is an ellipsis."""
_OTHER_POSITIONS: Final = ("alibi", "sinus")
"""Kinds of positions that order what is free in a Llama: if a config mentions one, nothing is guessed."""


def detect(
    config: Mapping[str, object] | None,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    order: Sequence[str] | None = None,
) -> Architecture:
    """Return what each tensor of a checkpoint, all shards together, is for.

    Anything in the config may be wrong: what contradicts the tensors is not believed, and noted. Where names
    say nothing, roles are guessed by `order`, the order of the file; by default that of `shapes`. `family` is
    None if no family fits; then every tensor is listed as unknown. `guessed` is set if roles follow from
    shapes alone.
    """
    found = _detected(config, shapes, order)
    possible = [found.family] if found.family else [spec.family for spec in families()]
    twice = max(
        filter(None, (united(shapes, name, found.model_type) for name in possible)), key=len, default=None
    )
    if twice is None or (usual := twice.shapes(shapes)) is None:
        return found
    names = [twice.usual.get(name, name) for name in order or shapes]
    again = detect(config, usual, order=[name for name in names if name in usual])
    if again.is_known:
        return restored(again, twice)
    return found


def _detected(
    config: Mapping[str, object] | None, shapes: Mapping[str, tuple[int, ...]], order: Sequence[str] | None
) -> Architecture:
    found = _named(config, shapes)
    if found.is_known or not shapes:
        return found
    for renamed in (*unprefixed(shapes), _guessed(config, shapes, order)):
        if renamed is None or (usual := renamed.shapes(shapes)) is None:
            continue
        again = _named(config, usual)
        if again.is_known:
            return restored(again, renamed)
    return found


def _guessed(
    config: Mapping[str, object] | None, shapes: Mapping[str, tuple[int, ...]], order: Sequence[str] | None
) -> Renamed | None:
    views, _ = config_views(config)
    if any(view.mentions(_OTHER_POSITIONS) for view in views):
        return None
    claimed = claimed_family(views)
    return guess(shapes, order or list(shapes), None if claimed is None else {claimed})


def _named(config: Mapping[str, object] | None, shapes: Mapping[str, tuple[int, ...]]) -> Architecture:
    groups = group_names(shapes)
    views, notes = config_views(config)
    model_type = views[-1].text("model_type") if views else None
    choice = choose(views, groups)
    notes += choice.notes
    if choice.reason is not None:
        return _unknown(choice.reason, model_type, views, groups, notes)
    reading = _best(choice.fits, choice.view, groups, shapes)
    if reading.as_said < choice.needed and choice.view is not None:
        notes.append(say("config-sizes"))
    if reading.contradicted and choice.view is not None:
        # A variant that the config asks for can be wrong as well.
        plain = _best(choice.fits, None, groups, shapes)
        if plain.explained > reading.explained:
            reading = replace(plain, contradicted=True)
    if reading.explained < choice.needed:
        reason = say("structure.shapes-contradict", family=reading.spec.title)
        return _unknown(reason, model_type, views, groups, notes)
    return _assemble(reading, model_type, [*notes, *_rivals(reading.spec, choice.fits)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _FamilyReading:
    """A checkpoint read with one family."""

    spec: ArchitectureSpec
    fit: FamilyFit
    view: ConfigView | None
    known: KnownSizes
    found: list[tuple[Finding, list[TensorUse]]]
    unknown: list[UnknownTensor]
    other: list[OtherTensor]
    vocab: int | None
    doubted: tuple[str, ...]
    """Keys of the config without which more tensors are explained."""
    n_as_said: int
    """How many tensors were explained if the whole config was believed."""
    contradicted: bool

    @property
    def explained(self) -> float:
        """The share of tensors that names and shapes explain."""
        return len(self.found) / max(len(self.found) + len(self.unknown), 1)

    @property
    def as_said(self) -> float:
        """The share if the whole config was believed."""
        return self.n_as_said / max(len(self.found) + len(self.unknown), 1)


def _best(
    fits: tuple[FamilyFit, ...],
    view: ConfigView | None,
    groups: tuple[NameGroup, ...],
    shapes: Mapping[str, tuple[int, ...]],
) -> _FamilyReading:
    """Read with each family that the names leave open, and return what the shapes bear out best."""
    readings = [_read(fit, view, groups, shapes) for fit in fits]
    return max(readings, key=lambda reading: (reading.explained, reading.n_as_said))


def _rivals(spec: ArchitectureSpec, fits: tuple[FamilyFit, ...]) -> list[Message]:
    """Say which other families the names fit equally well."""
    others = [fit.spec for fit in fits if fit.spec.family != spec.family]
    return [
        say("rival", family=other.title)
        if other.norm == spec.norm
        else say("rival-norms", family=other.title, norm=other.norm, other_norm=spec.norm)
        for other in others
    ]


def _read(
    fit: FamilyFit,
    view: ConfigView | None,
    groups: tuple[NameGroup, ...],
    shapes: Mapping[str, tuple[int, ...]],
) -> _FamilyReading:
    spec, roles = _varied(fit.spec, view)
    named, others = findings(fit.matcher, groups)
    renaming = Renaming(roles=roles, spaces=_merged(spec, fit))
    sized = believed_sizes(spec, view, named, shapes, renaming)
    found: list[tuple[Finding, list[TensorUse]]] = []
    unknown: list[UnknownTensor] = []
    plans: dict[tuple[TensorSpec | None, str, tuple[int, ...]], list[TensorUse] | Message] = {}
    for finding in named:
        shape = tuple(shapes[finding.name])
        key = (finding.tensor, finding.part, shape)
        if key not in plans:
            plans[key] = uses(finding, shape, sized.known, renaming)
        plan = plans[key]
        if isinstance(plan, Message):
            unknown.append(UnknownTensor(name=finding.name, reason=plan))
        else:
            found.append((finding, plan))
    unknown += [
        UnknownTensor(name=name, reason=say("structure.no-such-name", family=spec.title))
        for name, component in others
        if component is None
    ]
    return _FamilyReading(
        spec=spec,
        fit=fit,
        view=view,
        known=sized.known,
        found=found,
        unknown=unknown,
        other=[OtherTensor(name=name, component=what) for name, what in others if what is not None],
        vocab=_embedding_rows(found, shapes),
        doubted=sized.doubted,
        n_as_said=sized.n_as_said,
        contradicted=sized.n_as_said < len(named),
    )


def _varied(spec: ArchitectureSpec, view: ConfigView | None) -> tuple[ArchitectureSpec, Mapping[Role, Role]]:
    """Apply the variants of a family that the config asks for."""
    roles: dict[Role, Role] = {}
    for variant in spec.variants if view is not None else ():
        if view is not None and view.has_value(variant.key, variant.equals):
            roles |= variant.roles
            spec = structs.replace(
                spec,
                positions=variant.positions or spec.positions,
                norm=variant.norm or spec.norm,
                rope_layout=variant.rope_layout or spec.rope_layout,
                sizes={**spec.sizes, **variant.sizes},
            )
    return spec, roles


def _merged(spec: ArchitectureSpec, fit: FamilyFit) -> dict[str, str]:
    """Return the spaces that are one and the same, because no tensor stands between them."""
    return {space: one.into for space, one in spec.merged_spaces.items() if one.unless not in fit.roles}


def _embedding_rows(
    found: list[tuple[Finding, list[TensorUse]]], shapes: Mapping[str, tuple[int, ...]]
) -> int | None:
    """Return the real size of the vocabulary: that of the embedding, else of the output head."""
    for role in (Role.EMBEDDING, Role.OUTPUT_HEAD):
        for finding, plan in found:
            if plan[0].role is role and ("vocab",) in plan[0].axes:
                return shapes[finding.name][plan[0].axes.index(("vocab",))]
    return None


def _assemble(reading: _FamilyReading, model_type: str | None, notes: list[Message]) -> Architecture:
    spec, sizes = reading.spec, {name: size for name, size in reading.known.sizes.items() if name != "one"}
    layers = find_layers(reading.found, spec.kind, sizes)
    notes = [*notes, *_disbelieved(reading), *_missing(reading.fit)]
    notes += layers.notes
    if reading.vocab is not None:
        if sizes.get("vocab", reading.vocab) != reading.vocab:
            notes.append(say("config-vocabulary", n=sizes["vocab"], m=reading.vocab))
        sizes["vocab"] = reading.vocab
    sizes["layers"] = len(layers.main)
    if "encoder_layers" in sizes or layers.encoder:
        sizes["encoder_layers"] = len(layers.main if layers.kind == "encoder" else layers.encoder)
    entries = _entries(reading)
    return Architecture(
        family=spec.family,
        title=spec.title,
        model_type=model_type,
        kind=layers.kind,
        norm=spec.norm,
        positions=spec.positions,
        encoder_positions=spec.encoder_positions or reading.fit.spec.positions,
        rope_layout=spec.rope_layout if spec.positions == "rope" else None,
        prefix=reading.fit.matcher.placement.wrapped,
        sizes=MappingProxyType(sizes),
        layers=layers.main,
        encoder_layers=layers.encoder,
        mtp_layers=layers.mtp,
        tensors=tuple(entry for entry in entries if not _is_mtp(entry, layers)),
        mtp_tensors=tuple(entry for entry in entries if _is_mtp(entry, layers)),
        unknown=tuple(reading.unknown),
        other=tuple(reading.other),
        notes=tuple(notes),
        contradicted=reading.contradicted,
    )


def _disbelieved(reading: _FamilyReading) -> Iterator[Message]:
    """Say which values of the config are no sizes, and which the shapes contradict."""
    if reading.view is None:
        return
    yield from reading.view.notes.values()
    for key in reading.doubted:
        yield say("config-size", name=repr(key), value=reading.view.shown(key))


def _is_mtp(entry: RoleEntry, layers: FoundLayers) -> bool:
    return entry.layer in layers.mtp or entry.role.is_mtp


def _entries(reading: _FamilyReading) -> tuple[RoleEntry, ...]:
    stack: Stack = "encoder" if reading.spec.kind == "encoder" else "decoder"
    return tuple(
        RoleEntry(
            tensor=finding.name,
            role=use.role,
            part=finding.part,
            component=use.component,
            stack=finding.tensor.stack if finding.tensor else stack,
            layer=finding.layer,
            expert=finding.expert,
            axes=use.axes,
            segment=use.segment,
            transposed=finding.tensor.transposed if finding.tensor else False,
            fixed=finding.tensor.fixed if finding.tensor else True,
        )
        for finding, plan in reading.found
        for use in plan
    )


def _missing(fit: FamilyFit) -> list[Message]:
    if not fit.missing:
        return []
    listed = (*fit.missing[:_MAX_LISTED], *(["..."] if len(fit.missing) > _MAX_LISTED else ()))
    return [say("complete", family=fit.spec.title, tensors=listed)]


def _unknown(
    reason: Message,
    model_type: str | None,
    views: list[ConfigView],
    groups: tuple[NameGroup, ...],
    notes: list[Message],
) -> Architecture:
    """Return the value for an architecture nobody knows; sizes are guesses from the usual config keys."""
    sizes = resolve_sizes(family("llama").sizes, views[0], ()).sizes if views else {}
    entries, unknown, other = [], [], []
    for group in groups:
        for name, _ in group.members:
            if group.table:
                entries.append(_table(name))
            elif group.component is not None:
                other.append(OtherTensor(name=name, component=group.component))
            else:
                unknown.append(UnknownTensor(name=name, reason=reason))
    return Architecture(
        family=None,
        title=reason,
        model_type=model_type,
        kind="decoder",
        norm=None,
        positions="none",
        encoder_positions="none",
        rope_layout=None,
        prefix="",
        sizes=MappingProxyType({name: size for name, size in sizes.items() if name != "one"}),
        layers=(),
        encoder_layers=(),
        mtp_layers=(),
        tensors=tuple(entries),
        mtp_tensors=(),
        unknown=tuple(unknown),
        other=tuple(other),
        notes=tuple([*notes, *(views[0].notes.values() if views else ())]),
    )


def _table(name: str) -> RoleEntry:
    return RoleEntry(
        tensor=name,
        role=Role.FIXED_TABLE,
        part="weight",
        component=Role.FIXED_TABLE.component,
        stack="shared",
        layer=None,
        expert=None,
        axes=(),
        segment=None,
        transposed=False,
        fixed=True,
    )
