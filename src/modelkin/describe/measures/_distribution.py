"""Many numbers in a few: what a baseline is summed up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Numbers summed up. It describes them; the standard deviation is not an error of the mean."""

    n: int
    mean: float
    sd: float | None
    """None for a single number."""
    minimum: float
    q05: float
    median: float
    q95: float
    maximum: float


def distribution(values: npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]) -> Distribution | None:
    """Sum up numbers; what is masked or not a number does not count. None if nothing is left."""
    plain = np.ma.filled(np.ma.asarray(values).astype(np.float64), np.nan).ravel()
    plain = plain[np.isfinite(plain)]
    if not plain.size:
        return None
    low, middle, high = np.quantile(plain, [0.05, 0.5, 0.95])
    return Distribution(
        n=plain.size,
        mean=float(plain.mean()),
        sd=float(plain.std(ddof=1)) if plain.size > 1 else None,
        minimum=float(plain.min()),
        q05=float(low),
        median=float(middle),
        q95=float(high),
        maximum=float(plain.max()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a measure is where nothing, or something known, connects the tensors."""

    baseline: str
    """Its name."""
    measure: str
    role: str
    scope: str
    """Which models, layers, groups or tokens."""
    observed: float | None
    """The number it is to be held against; None where there is none."""
    null: Distribution | None
    """None where it could not be had; `reason` says why."""
    reason: str | None
    note: str
    """What was drawn or averaged, and what must not be read into it."""
