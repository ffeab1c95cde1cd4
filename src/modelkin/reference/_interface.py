"""What a reference method is: a card, what it wants to read, and one score that decides nothing."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from modelkin.comparison import Published
from modelkin.message import Message
from modelkin.model import Model
from modelkin.tensors import TensorSlice

from .reading import SideReader
from .tokens import RowPairs, pair_rows

_Made = TypeVar("_Made")
Needs = Literal["weights", "running"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCard:
    """What a reader must know about a published method before believing it."""

    name: str
    version: str
    needs: Needs
    """``weights``: reads tensors. ``running``: runs both models, extra ``repr``."""
    level: float | None
    """Score from which the publication calls two models related; None if it names no level."""
    measures: Message
    survives: Message
    """Function-preserving changes that leave the score unchanged."""
    defeated_by: Message
    level_from: Message
    """Where the level comes from, or that there is none."""
    publication: str
    reference: str
    """Its page in the documentation."""
    class_path: str = field(repr=False, metadata={"json": False})
    """Module and class of its code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawScore:
    """A score, and what it is made of."""

    score: float
    """Larger is more alike."""
    details: Mapping[str, float] = field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()
    """Which layer of the candidate was compared with which of the base, if the method chooses."""


class RunMemory:
    """What was computed from opened models, so that several methods and pairs run a model once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while something is computed from a model that several pairs share."""
        self._made: dict[Hashable, tuple[object, int]] = {}

    def recall(self, reader: SideReader, key: Hashable, make: Callable[[SideReader], _Made]) -> _Made:
        """Return what was computed from a model before, or compute it. The bytes read count every time."""
        whole = id(reader.model), key
        with self.lock:
            if whole not in self._made:
                before = reader.n_bytes
                self._made[whole] = make(reader), reader.n_bytes - before
            else:
                reader.n_bytes += self._made[whole][1]
            return self._made[whole][0]  # type: ignore[return-value]


class ReferencePair:
    """Two opened models, as reference methods see them."""

    def __init__(
        self,
        candidate: Model,
        base: Model,
        *,
        seed: int = 0,
        controls: Sequence[Model] = (),
        prompts: Sequence[str] = (),
        layers: tuple[int, int] | None = None,
        of_controls: RunMemory | None = None,
    ) -> None:
        self.candidate = candidate
        self.base = base
        self.seed = seed
        self.controls = tuple(controls)
        self.prompts = tuple(prompts)
        self.layers = layers
        self.of_pair = RunMemory()
        self.of_controls = of_controls or RunMemory()
        """Shared by other pairs with the same controls."""
        self._rows: RowPairs | Message | None = None

    @property
    def models(self) -> tuple[Model, Model]:
        """Candidate and base."""
        return self.candidate, self.base

    @property
    def rows(self) -> RowPairs | Message:
        """Rows of both embeddings that stand for the same tokens, or why there are none."""
        if self._rows is None:
            self._rows = pair_rows(self.candidate, self.base)
        return self._rows


Wanted = tuple[list[TensorSlice], list[TensorSlice]]
"""What is read of candidate and base."""


class ReferenceMethod(ABC):
    """One published way to compare two models."""

    uses_tokens: bool = False
    """Whether tokenizers are read."""
    uses_controls: bool = False
    """Whether unrelated models are read too."""

    def __init__(self, card: ReferenceCard) -> None:
        self.card = card

    @abstractmethod
    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Return what would be read, from headers alone, or why there can be no score."""

    @abstractmethod
    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Read and compute the score; what was read is what `wanted` said."""

    def says(self, score: float) -> Published | None:
        """Return what the publication would say about a score."""
        if self.card.level is None:
            return None
        return "related" if score >= self.card.level else "unrelated"
