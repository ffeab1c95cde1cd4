"""What a benchmark is asked to do, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelkin.comparison import Published
from modelkin.message import Message
from modelkin.options import Depth

from .pairs import LabelledPair
from .rates import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How methods are run on labelled pairs."""

    methods: tuple[str, ...] = ("all",)
    """Names; ``modelkin`` is our own comparison, ``all`` means that and every method that reads weights."""
    depth: Depth = "standard"
    """Of our own comparison."""
    method_bytes: int | None = 1_000_000_000
    """Most bytes of a model that one published method may read for a pair."""
    byte_budget: int | None = None
    """Most bytes that all pairs together may cost in this run; pairs beyond it are listed and wait."""
    side_by_side: int = 2
    """Pairs processed at the same time."""
    controls: tuple[str, ...] = ()
    """Unrelated models, for the method that ranks behaviour among them; opened and run once for all pairs."""
    prompts: tuple[str, ...] = ()
    """For methods that run models; empty takes those that come with the package."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.side_by_side <= 64:
            raise ValueError(f"side_by_side must be between 1 and 64, got {self.side_by_side}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """What one method said about one pair."""

    key: str
    """Pair, method, version and options: what makes a kept row usable again."""
    pair: LabelledPair
    method: str
    version: str
    score: float | None
    """Larger is more alike; for our own comparison, minus log10 p."""
    says: Published | None
    """At the method's own level, fixed beforehand."""
    bytes_read: tuple[int, int]
    seconds: float
    reason: Message | None = None
    """Why there is no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A pair that was not obtained."""

    pair: LabelledPair
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """All rows, what was not obtained, and what follows."""

    pairs: int
    rows: tuple[BenchRow, ...]
    unavailable: tuple[Unavailable, ...]
    rates: tuple[Rates, ...] = ()
    """One per method."""
    options: BenchOptions
    modelkin: str
    bytes_read: int = field(default=0)
    """Of this run, not of rows that were kept from an earlier one."""
