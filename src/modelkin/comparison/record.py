"""The complete record of one comparison: everything that a reader needs to check it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from modelkin.architecture import Architecture
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.case import CaseFile
from modelkin.comparison.extent import n_parameters
from modelkin.comparison.methods import Effect, Evidence
from modelkin.comparison.positions import checked_architecture
from modelkin.comparison.relation import RelationFinding
from modelkin.comparison.subtracted import Subtracted
from modelkin.comparison.verdict import Verdict
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.progress import Progress
from modelkin.source import FileState
from modelkin.tensors import TensorIndex
from modelkin.untrusted import quoted
from modelkin.written import JsonRecord

if TYPE_CHECKING:
    from modelkin.document.notebook import Plot

SCHEMA = "modelkin.comparison/1"
_NUMBER = re.compile(r"[0-9]+")
_N_KINDS = 3
"""Kinds of unknown tensors that are named: enough to recognise a layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSizes:
    """How many parameters are where: what a drawing of a model needs."""

    layers: Mapping[str, tuple[int, ...]]
    """Component -> parameters in each layer, from layer 0 on; 0 where a layer has none of it."""
    outside: Mapping[str, int]
    """Component -> parameters outside all layers. ``other``: those of other stacks or without a role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """One side of a comparison."""

    ref: str
    kind: str
    origin: str
    revision: str | None
    family: str | None
    model_type: str | None
    layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    parameters: int
    n_bytes: int
    dtypes: Mapping[str, int]
    skipped: tuple[Message, ...]
    """What was not examined in this model, each with its reason."""
    format: str = "safetensors"
    """File format of the weights."""
    notes: tuple[Message, ...] = ()
    """How the weights were read: which of several files, what was undone, recovered or guessed."""
    guessed: bool = False
    """Whether the names of tensors say nothing, so that their roles were guessed from shapes."""
    sizes: PartSizes | None = None
    """Where the parameters are; None for an unknown architecture, and in records of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord:
    """One map of the residual stream, and how well it fits rows it was not learned from."""

    kind: str
    learned_from: Message
    n_rows: int
    fit: float
    """Mean cosine of held-out rows, once mapped."""
    chance: float
    """The same for rows that do not belong together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentSummary:
    """Which parts faced each other."""

    layers: tuple[tuple[int, int, float | None], ...]
    """(candidate layer, base layer, strongest effect found there, if tested)."""
    residual: str
    """How residual dimensions were paired: identity, permutation, signed-permutation, rotation or none."""
    units: str
    """How units were paired: identity, reordered (another order or a selection), or none."""
    unpaired: tuple[Message, ...]
    frames: tuple[FrameRecord, ...] = ()
    """Maps of the residual stream that were tried; how well they fit is not evidence by itself."""
    maps: tuple[LayerMap, ...] = ()
    """All layers against all layers, if that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Which model came first, as far as the evidence goes."""

    parent: str | None
    reasons: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What kind of kinship it is, as far as the evidence goes."""

    kind: str
    details: Mapping[str, float | int | str]
    """What people are shown; no code reads it back."""
    direction: Direction
    findings: tuple[RelationFinding, ...] = ()
    """What was found about the change, each with its numbers and what it leaves open."""
    not_subtracted: Message | None = None
    """Why the weights of both models were not subtracted from each other, if they were not."""
    subtracted: Subtracted | None = field(default=None, metadata={"later": True})
    """How much changed of what was subtracted; None where every value was compared, and for strangers."""
    in_one_only: int = field(default=0, metadata={"later": True})
    """Tensors that only one of two copies has."""

    @property
    def is_sampled_copy(self) -> bool:
        """Whether it is a copy as far as samples go, while what was not read may have been trained."""
        if self.subtracted is None or self.kind not in ("copy", "precision-copy", "quantised-copy"):
            return False
        return self.kind != "quantised-copy" or not self.subtracted.has_every_layer


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResult:
    """What the same tests say about a model that is known, or hoped, to be unrelated."""

    pair: tuple[str, str]
    revision: str | None
    """Commit of the control."""
    conclusion: str | None
    effect: Effect | None
    log10_p: float | None
    usable: bool
    reason: Message | None = None
    """Why it cannot serve as a negative: different width, or itself a relative."""


Published = Literal["related", "unrelated"]
"""What a publication would say at its own level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceScore:
    """What a published method says about the pair: shown next to the verdict, in a type no verdict can use.

    Most of these methods have no valid null for the pair at hand, and none counts in the correction for
    multiple tests, so none of it is evidence.
    """

    method: str
    version: str
    score: float | None
    """Larger is more alike; None if there is none."""
    level: float | None
    """The score from which the publication calls two models related."""
    says: Published | None
    """What follows from both; None without a score or a level."""
    details: Mapping[str, float] = field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()
    """Layers (candidate, base) that the method compared, if it chooses them."""
    bytes_read: tuple[int, int]
    """Of candidate and base, whether already stored or not."""
    seconds: float
    reason: Message | None = None
    """Why there is no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRecord:
    """One range that was read."""

    model: str
    """``candidate`` or ``base``."""
    file: str
    start: int
    stop: int
    etag: str | None
    sha256: str
    """Empty for ranges of local files that were read in a pass over everything."""
    origin: str

    @property
    def n_bytes(self) -> int:
        """Length of the range."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What was read of one file, and whether its published digest was checked."""

    model: str
    """``candidate`` or ``base``."""
    file: str
    size: int
    n_bytes: int
    """Distinct bytes that were read."""
    state: FileState
    """``verified``: read whole, and it matches the published digest. ``whole``: read whole, but no digest is
    published, or a large file was not read in order. ``sampled``: read in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What was read of both models; reading for controls comes on top and is not listed."""

    requests: int
    bytes_fetched: int
    bytes_needed: int
    cache_hits: int
    seconds: float
    ranges: tuple[RangeRecord, ...]
    files: tuple[FileRecord, ...] = ()
    """How much was read of every file. Empty in records of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What produced the numbers."""

    modelkin: str
    methods: Mapping[str, str]
    rule: Message
    thresholds: Mapping[str, float]
    """What the rule requires: log10 p, effect floor, matched units."""
    seed: int
    depth: str
    byte_budget: int | None
    controls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(JsonRecord):
    """One comparison: JSON out, JSON in, equal."""

    candidate: ModelSummary
    base: ModelSummary
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    alignment: AlignmentSummary
    relation: Relation
    controls: tuple[ControlResult, ...]
    tokenizer: Mapping[str, int | float | str | bool | Message | None]
    """What both tokenizers have in common; says nothing about weights."""
    config: Mapping[str, tuple[str, str]]
    """Fields of the configs that differ, by common name: candidate's value, base's value, as JSON."""
    claims: Mapping[str, tuple[Message, ...]] = field(default_factory=dict)
    """What the models declare about themselves, by side (candidate, base). Unchecked."""
    ledger: LedgerRecord
    environment: Environment
    flags: tuple[Message, ...] = ()
    """What a person should look at more closely; never part of the verdict."""
    strong_flags: tuple[Message, ...] = ()
    """The flags that must accompany a verdict without a finding."""
    reference: tuple[ReferenceScore, ...] = field(default=(), metadata={"later": True})
    """What published methods say, if requested; never part of the verdict."""
    case: CaseFile | None = field(default=None, metadata={"later": True})
    """When, how and from which files it was made, if it belongs to a case."""

    def __repr__(self) -> str:
        from modelkin.document import three_lines

        return three_lines(self)

    def _repr_html_(self) -> str:
        from modelkin.document import notebook_html

        return notebook_html(self)

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas is no dependency
        """Return the evidence as a ``pandas.DataFrame``, one row for each piece."""
        from modelkin.document import to_pandas

        return to_pandas(self)

    def to_arrow(self) -> Any:  # noqa: ANN401  nor is Arrow
        """Return the evidence as a ``pyarrow.Table``, one row for each piece."""
        from modelkin.document import to_arrow

        return to_arrow(self)

    def plot(self, name: str = "layers") -> Plot:
        """Return a figure that notebooks can show: ``layers``, or a figure of the report by name.

        `figure` is its description, and `save` writes it to a file.
        """
        from modelkin.document import plot

        return plot(self, name)

    def write(
        self, folder: str, *, language: str = "en", figures: bool = False, progress: Progress | None = None
    ) -> None:
        """Write the report folder: comparison.json, report.html, REPORT.md, tensors.csv.

        The page and the document are in English (``en``) or Korean (``ko``); the record is the same in both.
        With `figures`, those for papers and slides are drawn too, as PNG and SVG.
        """
        from modelkin.document import write_folder

        formats: tuple[Literal["png", "svg"], ...] = ("png", "svg") if figures else ()
        write_folder(self, folder, language=language, formats=formats, progress=progress)


def model_summary(model: Model) -> ModelSummary:
    """Describe one side of a comparison."""
    location, index, architecture = model.location, model.index, checked_architecture(model)
    skipped = [_without_role(index, architecture)] if architecture.unknown else []
    skipped += [say("other-parts", n=len(architecture.other))] if architecture.other else []
    skipped += [*architecture.notes]
    return ModelSummary(
        ref=location.ref,
        kind=location.kind,
        origin=location.origin,
        revision=location.revision,
        family=architecture.family,
        model_type=architecture.model_type,
        layers=architecture.n_layers if architecture.is_known else None,
        hidden_size=architecture.sizes.get("residual"),
        vocab_size=architecture.sizes.get("vocab"),
        parameters=index.n_parameters,
        n_bytes=index.n_bytes,
        dtypes=dict(index.dtypes),
        skipped=tuple(skipped),
        format=model.weights.format,
        notes=model.weights.notes,
        guessed=architecture.guessed,
        sizes=_part_sizes(model, architecture) if architecture.is_known else None,
    )


def _without_role(index: TensorIndex, architecture: Architecture) -> Message:
    """Say which tensors nothing is known about, by kind, and how much of the model they are."""
    names = [item.name for item in architecture.unknown]
    kinds = list(dict.fromkeys(_NUMBER.sub("*", name) for name in names))
    listed = (*map(quoted, kinds[:_N_KINDS]), *(["..."] if len(kinds) > _N_KINDS else ()))
    n_values = sum(index[name].n_elements for name in names if name in index)
    return say("no-role", n=len(names), share=n_values / max(1, index.n_parameters), names=listed)


def _part_sizes(model: Model, architecture: Architecture) -> PartSizes:
    """Count the parameters of each component in each layer of the main stack, and outside layers."""
    n_layers = 1 + max(architecture.layers, default=-1)
    layers: dict[str, list[int]] = {}
    outside: Counter[str] = Counter()
    for entry in architecture.tensors:
        if entry.fixed or entry.tensor not in model.index:
            continue
        count = n_parameters(model, entry)
        main = entry.stack == architecture.main_stack
        if main and entry.layer is not None and entry.layer < n_layers:
            layers.setdefault(entry.component, [0] * n_layers)[entry.layer] += count
        else:
            outside[entry.component if entry.layer is None else "other"] += count
    rest = model.index.n_parameters - sum(outside.values()) - sum(map(sum, layers.values()))
    if rest > 0:
        outside["other"] += rest
    return PartSizes(layers={name: tuple(each) for name, each in layers.items()}, outside=dict(outside))


def ledger_record(models: Mapping[str, Model]) -> LedgerRecord:
    """Sum up what was read of both models, and list it."""
    totals = [model.totals() for model in models.values()]
    return LedgerRecord(
        requests=sum(item.requests for item in totals),
        bytes_fetched=sum(item.bytes_fetched for item in totals),
        bytes_needed=sum(item.bytes_needed for item in totals),
        cache_hits=sum(item.cache_hits for item in totals),
        seconds=max(item.seconds for item in totals),
        ranges=tuple(
            RangeRecord(
                model=name,
                file=entry.file,
                start=entry.start,
                stop=entry.stop,
                etag=entry.etag,
                sha256=entry.sha256,
                origin=entry.origin,
            )
            for name, model in models.items()
            for entry in model.fetcher.ledger.entries
        ),
        files=tuple(
            FileRecord(model=name, file=item.file, size=item.size, n_bytes=item.n_bytes, state=item.state)
            for name, model in models.items()
            for item in model.fetcher.ledger.files()
        ),
    )
