"""What is said about a candidate and its possible parents: weights, method, and how well they fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modelkin.comparison import ModelSummary
from modelkin.message import Message
from modelkin.options import Depth
from modelkin.source import ReadRecord
from modelkin.written import Reported

MERGE_SCHEMA = "modelkin.merge/1"

MergeConclusion = Literal["merge", "single-parent", "not-a-merge", "undetermined", "not-testable"]
MergeMethod = Literal[
    "linear",
    "slerp",
    "linear-or-slerp",
    "task-arithmetic",
    "ties",
    "dare",
    "della",
    "breadcrumbs",
    "sce",
    "model-stock",
    "passthrough",
    "mixture-of-experts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureShare:
    """A mixture weight with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCell:
    """One tensor of the candidate and the closest mixture."""

    tensor: str
    module: str
    group: str
    layer: int | None
    expert: int | None
    facing: tuple[int | None, ...]
    """Layer of each parent that faces it, the base last."""
    weights: tuple[MixtureShare, ...]
    """Of the parents in the order given, the base last; empty if they are all equal here."""
    nearest: int | None
    """Index of the closest parent."""
    left: float | None
    """Squared distance of the mixture from the candidate, over the parents' mean squared distance."""
    left_single: float | None
    """The same for the closest parent alone."""
    opposition: float | None
    to_rounding: bool | None
    """Whether the mixture equals the candidate up to rounding in its format; None if unknown."""
    n: int
    reason: Message | None = None
    """Why there are no weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """Weights of one kind of module over all layers, or of one layer over all modules."""

    group: str
    layer: int | None
    weights: tuple[MixtureShare, ...]
    left: float
    n_tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodFit:
    """How well one way to merge predicts the candidate."""

    method: str
    left: float | None
    """Squared distance of its prediction, over the parents' mean squared distance; None if not tried."""
    details: tuple[tuple[str, float], ...] = ()
    reason: Message | None = None
    """Why it was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Reported):
    """Whether the candidate is a mixture of the parents, and which."""

    candidate: ModelSummary
    parents: tuple[ModelSummary, ...]
    base: ModelSummary | None
    conclusion: MergeConclusion
    method: MergeMethod | None
    summary: Message
    weights: tuple[MixtureShare, ...]
    """Over all tensors, equally weighted: for the parents in order, the base last if there is one."""
    opposition: MixtureShare | None
    """How far the parents lie on opposite sides of the candidate: 1 a mixture, 0 a common ancestor."""
    gain: float | None
    """Share of the distance to the best single parent that mixing removes. Ancestors have 1 - 1/k too."""
    best_single: str | None
    left: float | None
    to_rounding: float | None
    """Share of tensors that the mixture reproduces up to rounding."""
    collinearity: tuple[float, ...]
    methods: tuple[MethodFit, ...]
    groups: tuple[GroupShare, ...]
    layers: tuple[GroupShare, ...]
    layer_map: tuple[tuple[int, ...], ...]
    """For each layer of the candidate: itself, then the layer of each parent (and base) that faces it."""
    cells: tuple[MergeCell, ...]
    recipe: str | None
    """The nearest recipe for mergekit, as YAML."""
    warnings: tuple[Message, ...]
    limitations: tuple[Message, ...]
    depth: Depth
    seed: int
    read: ReadRecord
    modelkin: str

    @property
    def names(self) -> tuple[str, ...]:
        """References of the parents, the base last."""
        return (*(item.ref for item in self.parents), *([self.base.ref] if self.base else []))
