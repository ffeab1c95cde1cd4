"""What a method found: one piece of evidence, with its null and its limits; or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Excess cosine on the diagonal: 0 is chance, 1 is identical. With its interval."""

    value: float
    low: float
    high: float
    level: float = 0.99
    """Share of repetitions in which the interval holds the true value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One test on one part of two models, or the reason why it was not made."""

    method: str
    version: str
    component: str
    axis: str
    """The space whose order was tested."""
    role: str | None = None
    layers: tuple[int, ...] = ()
    """Layers of the candidate; empty for what is outside the layers."""
    base_layers: tuple[int, ...] = ()
    """Layers of the base that they were compared with, where these are not the ones of equal number."""
    frame: str = "identity"
    """Coordinates of the residual stream in which it was made: as they are, or mapped by an alignment."""
    statistic: float | None = None
    z: float | None = None
    log10_p: float | None = None
    """Rigorous: corrected for the parts of the test, never below what they can support."""
    log10_p_extrapolated: float | None = None
    """Normal tail of z; an extrapolation beyond what permutations can show."""
    effect: Effect | None = None
    n: int | None = None
    n_features: int | None = None
    n_matched: int | None = None
    """Units whose best match is the unit of the same number."""
    detection_limit: float | None = None
    """Smallest effect that this test finds with 99.9 % power."""
    exact: bool = False
    null: str = ""
    flags: tuple[str, ...] = ()
    status: Status = "ok"
    reason: str | None = None
    details: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the test was made."""
        return self.status == "ok"
