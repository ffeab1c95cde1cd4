"""The complete record of one comparison: everything that a reader needs to check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.methods import Effect, Evidence
from modelkin.comparison.verdict import Verdict
from modelkin.message import Message, say
from modelkin.model import Model

SCHEMA = "modelkin.comparison/1"


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
    """What of this model was not looked at, each with its reason."""
    format: str = "safetensors"
    """File format of the weights."""
    notes: tuple[Message, ...] = ()
    """How the weights were read: which of several files, what was undone, recovered or guessed."""
    guessed: bool = False
    """Whether the names of tensors say nothing, so that their roles were guessed from shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRecord:
    """One map of the residual stream and how well it fits rows that it was not learned from."""

    kind: str
    learned_from: Message
    n_rows: int
    fit: float
    """Mean cosine of rows kept apart, once mapped."""
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
    """Maps of the residual stream that were tried; how well they fit is no evidence by itself."""
    maps: tuple[LayerMap, ...] = ()
    """All layers against all layers, where that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Who came first, as far as the evidence goes."""

    parent: str | None
    reasons: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What kind of kinship it is, as far as the evidence goes."""

    kind: str
    details: Mapping[str, float | int | str]
    direction: Direction


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
    """Why it cannot serve as a negative: other width, or a relative itself."""


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
    origin: str

    @property
    def n_bytes(self) -> int:
        """Length of the range."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """What was read, of both models; reading for controls comes on top and is not listed."""

    requests: int
    bytes_fetched: int
    bytes_needed: int
    cache_hits: int
    seconds: float
    ranges: tuple[RangeRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What made the numbers."""

    modelkin: str
    methods: Mapping[str, str]
    rule: Message
    thresholds: Mapping[str, float]
    """What the rule asks for: log10 p, effect floor, matched units."""
    seed: int
    depth: str
    byte_budget: int | None
    controls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
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
    """What the models declare about themselves, by side (candidate, base). Nobody has checked it."""
    ledger: LedgerRecord
    environment: Environment
    flags: tuple[Message, ...] = ()
    """What a person should look at more closely; never part of the verdict."""

    def to_json(self) -> str:
        """Write the record as JSON (schema ``modelkin.comparison/1``)."""
        from modelkin.document import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read a record back; it is equal to the one that was written."""
        from modelkin.document import comparison_from_json

        return comparison_from_json(text)

    def write(self, folder: str, *, language: str = "en") -> None:
        """Write the report folder: comparison.json, report.html, REPORT.md, tensors.csv, figures.

        The page and the document are in English (``en``) or Korean (``ko``); the record never changes.
        """
        from modelkin.document import write_folder

        write_folder(self, folder, language=language)


def model_summary(model: Model) -> ModelSummary:
    """Describe one side of a comparison."""
    location, index, architecture = model.location, model.index, model.architecture
    skipped = [say("no-role", n=len(architecture.unknown))] if architecture.unknown else []
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
    )


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
    )
