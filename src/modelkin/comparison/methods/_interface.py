"""What an evidence method is: a card, a plan of what to read on both sides, and what to conclude."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar, Unpack

from modelkin.architecture import Architecture, Role
from modelkin.comparison.alignment import Frame, LayerMap
from modelkin.message import Message, say
from modelkin.tensors import Array, TensorIndex, TensorSlice
from modelkin.tokenizer import TokenPairs

from ._result import Evidence, FindingHeading, Skipped, Where

Stage = Literal["quick", "standard", "deep"]
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """What a reader must know about a method before believing it."""

    name: str
    version: str
    claim: Message
    """One line: what a positive result says."""
    component: str
    axis: str
    exact: bool
    null: Message
    """The hypothesis under which the p-value is computed."""
    needs: Message
    defeated_by: Message
    reference: str
    stage: Stage
    class_path: str = field(repr=False, metadata={"json": False})
    """Module and class of its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Names of two matrices whose product an adapter adds to a weight: (rank, inputs), (outputs, rank)."""

    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One model, as far as methods see it: nothing here reads."""

    name: str
    index: TensorIndex = field(repr=False)
    architecture: Architecture = field(repr=False)
    updates: Mapping[tuple[Role, int], Factors] | None = field(default=None, repr=False)
    """For an adapter without its base: its matrices by the role and layer of the weight they belong to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two models and how they are compared."""

    candidate: Side
    base: Side
    seed: int
    tokens: TokenPairs | Message
    """Rows that stand for the same tokens, or why there are none."""
    byte_allowance: int = 17_000_000
    """Bytes per model that the methods of the standard stage may request together."""
    n_layers: int = 4
    """Layers that are looked at, spread over the depth."""
    frame: Frame | None = None
    """How the candidate's residual coordinates map to the base's; None if they are used unchanged."""
    layer_pairs: tuple[tuple[int, int], ...] = ()
    """Layers that seem to face each other (candidate, base), for methods that look at chosen layers. If
    empty, methods that look at all of them pair equal numbers."""

    only_layers: frozenset[int] | None = None
    """Layers that may be tested in this frame; others were used to learn it. None means all."""
    begun_alike: frozenset[tuple[str, int]] = frozenset()
    """Components and candidate layers whose units agree with layers that they do not face."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """Candidate and base."""
        return self.candidate, self.base

    @property
    def widths(self) -> tuple[int | None, int | None]:
        """The hidden sizes of both models, as far as they are known."""
        mine, theirs = (side.architecture.sizes.get("residual") for side in self.sides)
        return mine, theirs

    @property
    def n_layer_pairs(self) -> int:
        """How many pairs of layers `layer_pairs` was chosen from.

        The choice may rest on the very weights that are tested, and layers may be dropped for what they show.
        So a test of one of the pairs is corrected for all that could have been chosen.
        """
        return max(1, len(self.candidate.architecture.layers) * len(self.base.architecture.layers))

    @property
    def frame_kind(self) -> str:
        """The name of the frame."""
        return "identity" if self.frame is None else self.frame.kind

    def mapped(self, rows: Array) -> Array:
        """Return rows of the candidate in the coordinates of the base."""
        return rows if self.frame is None else self.frame.apply(rows)

    def residual_problem(self) -> Message | None:
        """Say why the residual streams of two models cannot be compared dimension by dimension."""
        for side in self.sides:
            if not side.architecture.is_known:
                return say("unknown-architecture", model=side.name)
            space = side.architecture.space("residual")
            if not space.exchangeable:
                return say("residual-fixed", model=side.name, reason=space.why)
        n, m = self.widths
        return say("hidden-sizes", n=n, m=m) if n is None or n != m else None

    def frame_problem(self) -> Message | None:
        """Say why rows over the residual streams cannot be compared in the frame of this pair."""
        for side in self.sides:
            if not side.architecture.is_known:
                return say("unknown-architecture", model=side.name)
        n, m = self.widths
        if n is None or m is None:
            return say("hidden-unknown")
        if self.frame is None:
            return say("hidden-sizes", n=n, m=m) if n != m else None
        known = self.frame.widths
        return say("other-widths", n=known[0], m=known[1]) if known != (n, m) else None

    def order_problem(self, candidate: str, base: str) -> Message | None:
        """Say in which model the order of a space is fixed; the units of the base may have another space."""
        for side, name in zip(self.sides, (candidate, base), strict=True):
            space = side.architecture.space(name)
            if not space.exchangeable:
                return say("order-fixed", space=space.name, model=side.name, reason=space.why)
        return None


def _as_read(arrays: Sequence[Array]) -> Array:
    return arrays[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of one model that is read and reduced at once, so that memory does not grow with depth."""

    slices: tuple[TensorSlice, ...]
    reduce: Callable[[Sequence[Array]], Array] = field(default=_as_read, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Generic[Found]):
    """What to read of both models, and how to evaluate it. Its cost is known before it is read."""

    candidate: tuple[Part, ...]
    base: tuple[Part, ...]
    evaluate: Callable[[list[Array], list[Array]], Found] = field(repr=False)
    same_parts: bool = False
    """Whether both sides are the same parts of the two models, so that equal values can be counted."""
    keep: str = ""
    """Probes with the same name reduce the same slices alike, so the result is kept for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a probe found."""

    evidence: tuple[Evidence, ...] = ()
    maps: tuple[LayerMap, ...] = ()
    frames: tuple[Frame, ...] = ()


def sample_probe(
    candidate: Iterable[TensorSlice],
    base: Iterable[TensorSlice],
    *,
    evaluate: Callable[[Sequence[Array], Sequence[Array]], Evidence],
    same_parts: bool = True,
    keep: str = "",
) -> Probe[Findings]:
    """Return a probe of single slices that is one test."""
    mine, theirs = (tuple(Part(slices=(item,)) for item in slices) for slices in (candidate, base))
    return Probe(
        candidate=mine,
        base=theirs,
        evaluate=lambda left, right: Findings(evidence=(evaluate(left, right),)),
        same_parts=same_parts,
        keep=keep,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The probes of one method for one pair, and what it cannot do."""

    probes: tuple[Probe[Findings], ...] = ()
    skipped: tuple[Skipped, ...] = ()


Planned: TypeAlias = Probe[Findings] | Skipped | Message
"""What to read and what cannot be read, or why there is nothing to read at all."""


class Method(ABC):
    """One way to look for a common origin."""

    def __init__(self, card: MethodCard) -> None:
        self.card = card

    def plan(self, pair: Pair) -> Plan:
        """Say what to read. Only headers are known here."""
        problem = self.problem(pair)
        planned = tuple(self.planned(pair)) if problem is None else (problem,)
        return Plan(
            probes=tuple(item for item in planned if isinstance(item, Probe)),
            skipped=tuple(
                self.skip(item, frame=pair.frame_kind) if isinstance(item, Message) else item
                for item in planned
                if not isinstance(item, Probe)
            ),
        )

    def problem(self, pair: Pair) -> Message | None:
        """Say why two models cannot be compared in this way at all."""
        return pair.residual_problem()

    @abstractmethod
    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan the probes for a pair that has no such problem."""

    def heading(self, **where: Unpack[Where]) -> FindingHeading:
        """Return what a finding of this method begins with."""
        card = self.card
        usual: FindingHeading = {
            "method": card.name,
            "version": card.version,
            "component": card.component,
            "axis": card.axis,
            "null": card.null,
        }
        return {**usual, **where}

    def skip(self, reason: Message, **where: Unpack[Where]) -> Skipped:
        """Return the value that stands for a test that was not made."""
        return Skipped(**self.heading(**where), exact=self.card.exact, reason=reason)
