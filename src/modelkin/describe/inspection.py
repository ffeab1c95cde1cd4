"""What is in a model, from headers alone: gathered into one frozen record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modelkin.architecture import RoleEntry, UnknownTensor
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.source import BytePlan, FileInfo, LedgerTotals, Location
from modelkin.tensors import TensorSlice
from modelkin.tokenizer import TokenizerSummary

INSPECTION_SCHEMA = "modelkin.inspection/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPurpose:
    """One thing a tensor is for. A fused tensor has several."""

    role: str
    part: str
    component: str
    layer: int | None
    expert: int | None
    stack: str | None
    axes: tuple[str, ...]
    """Space of each axis as stored, slowest first: ``kv_heads * v_dim``."""
    transposed: bool
    fixed: bool
    mtp: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedTensor:
    """One tensor with its purposes; empty if they are unknown."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    n_bytes: int
    purposes: tuple[TensorPurpose, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The record that ``modelkin inspect`` prints."""

    model: Location
    family: str | None
    """None for an unknown architecture; `notes` say why."""
    title: str | None
    kind: str | None
    model_type: str | None
    guessed: bool
    """Whether the names of tensors say nothing, so that their roles were guessed from shapes."""
    norm: str | None
    positions: str | None
    layers: int | None
    """Decoder (or encoder) layers; multi-token-prediction layers are not counted."""
    mtp_layers: tuple[int, ...]
    sizes: Mapping[str, int]
    parameters: int
    n_bytes: int
    format: str
    """File format of the weights."""
    dtypes: Mapping[str, int]
    """Parameters in each stored format."""
    files: tuple[FileInfo, ...]
    """Files that hold tensors."""
    tokenizer: TokenizerSummary
    tensors: tuple[InspectedTensor, ...]
    unknown: tuple[UnknownTensor, ...]
    other: Mapping[str, int]
    """Tensors of other parts, such as a vision tower: part -> number of tensors."""
    notes: tuple[Message, ...]
    ledger: LedgerTotals


def inspect_model(model: Model) -> Inspection:
    """Describe a model. Reads headers, config and small tokenizer files, no tensor."""
    index, architecture = model.index, model.architecture
    purposes: dict[str, list[TensorPurpose]] = {}
    for mtp, entries in ((False, architecture.tensors), (True, architecture.mtp_tensors)):
        for entry in entries:
            purposes.setdefault(entry.tensor, []).append(_purpose(entry, mtp=mtp))
    source = model.fetcher.source
    notes = [*model.weights.notes, *architecture.notes]
    if index.unlisted:
        notes.append(say("format.unlisted", n=len(index.unlisted)))
    return Inspection(
        model=model.location,
        family=architecture.family,
        title=str(architecture.title),
        kind=architecture.kind if architecture.is_known else None,
        model_type=architecture.model_type,
        guessed=architecture.guessed,
        norm=architecture.norm,
        positions=architecture.positions if architecture.is_known else None,
        layers=architecture.n_layers if architecture.is_known else None,
        mtp_layers=architecture.mtp_layers,
        sizes=dict(architecture.sizes),
        parameters=index.n_parameters,
        n_bytes=index.n_bytes,
        format=model.weights.format,
        dtypes=dict(index.dtypes),
        files=tuple(info for name in index.files if (info := source.find(name)) is not None),
        tokenizer=model.tokenizer,
        tensors=tuple(
            InspectedTensor(
                name=name,
                dtype=info.dtype,
                shape=info.shape,
                file=info.file,
                n_bytes=info.n_bytes,
                purposes=tuple(purposes.get(name, ())),
            )
            for name, info in index.items()
        ),
        unknown=architecture.unknown,
        other=dict(Counter(part.component for part in architecture.other)),
        notes=tuple(notes),
        ledger=model.totals(),
    )


def plan_components(model: Model, components: Iterable[str]) -> BytePlan:
    """Plan the reading of all tensors of some components (``norms``, ``mlp`` …); nothing is read."""
    wanted = set(components)
    names = {
        entry.tensor for entry in model.architecture.tensors if entry.component in wanted and not entry.fixed
    }
    return model.plan([TensorSlice.whole(name) for name in sorted(names)])


def _purpose(entry: RoleEntry, *, mtp: bool) -> TensorPurpose:
    return TensorPurpose(
        role=entry.role.value,
        part=entry.part,
        component=entry.component,
        layer=entry.layer,
        expert=entry.expert,
        stack=entry.stack,
        axes=tuple(" * ".join(spaces) for spaces in entry.axes),
        transposed=entry.transposed,
        fixed=entry.fixed,
        mtp=mtp,
    )
