"""What number formats do to gains: how much of a pattern rounding destroys, and what a norm loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FormatName = Literal["BF16", "FP16"]
_DRAWS: Final = 4
"""Inputs that a norm is applied to: errors are summed over all their values."""
_EPSILON: Final = 1e-6
"""Added under the root, as the norms of many public models do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """A format of floating-point numbers."""

    mantissa: int
    """Stored digits after the point, base two."""
    least_exponent: int
    """Of normal numbers; below it steps stay constant."""


FORMATS: Final[Mapping[FormatName, NumberFormat]] = {
    "BF16": NumberFormat(mantissa=7, least_exponent=-126),
    "FP16": NumberFormat(mantissa=10, least_exponent=-14),
}


def step_sizes(values: Floats, name: FormatName) -> Floats:
    """Return how far neighbouring numbers of a format are apart at each value.

    Examples
    --------
    >>> step_sizes(np.array([0.3, 0.6, 1.5]), "BF16") * 256
    array([0.5, 1. , 2. ])
    """
    kind = FORMATS[name]
    sizes = np.abs(values)
    exponents = np.where(sizes > 0, np.frexp(sizes)[1] - 1, kind.least_exponent)
    found: Floats = np.ldexp(1.0, np.maximum(exponents, kind.least_exponent) - kind.mantissa)
    return found


def rounded(values: Floats, name: FormatName) -> Floats:
    """Round to the nearest number of a format, ties to even; overflow is ignored."""
    steps = step_sizes(values, name)
    return np.asarray(np.round(values / steps) * steps, dtype=np.float64)


def pattern_loss(values: Floats, name: FormatName, *, centre: float = 0.0) -> float | None:
    """Return the variance that rounding adds, as a share of the variance of the values; None if that is zero.

    The rounding error is uniform within half a step to both sides, so its variance is a twelfth of the
    squared step. It depends only on the sizes of the values, so it is known even for already rounded values,
    whose own error is not. 0.01 means that a hundredth of what looks like a pattern is rounding.

    `centre` is subtracted before values are stored: 0 for plain gains, 1 for the difference from one, their
    mean if scale and pattern are stored separately.
    """
    variance = float(values.var())
    if variance == 0.0:
        return None
    return float((step_sizes(values - centre, name) ** 2).mean() / 12.0 / variance)


def norm_error(gain: Floats, name: FormatName, *, promoted: bool, centred: bool, seed: int) -> float:
    """Return the relative error of a norm's output in a format, over drawn normal inputs.

    If `promoted`, the norm itself computes in full precision, as frameworks recommend; otherwise every
    operation except the sums is rounded. A `centred` norm is a LayerNorm, which subtracts the mean; otherwise
    it is an RMSNorm.
    """
    random = np.random.default_rng([29, seed])
    inputs = rounded(random.standard_normal((_DRAWS, gain.size)), name)
    exact = _norm(inputs, gain, centred=centred, name=None)
    found = _norm(inputs, gain, centred=centred, name=None if promoted else name)
    error = rounded(found, name) - exact
    return float(np.sqrt((error**2).sum() / (exact**2).sum()))


def _norm(inputs: Floats, gain: Floats, *, centred: bool, name: FormatName | None) -> Floats:
    def kept(values: Floats) -> Floats:
        return values if name is None else rounded(values, name)

    moved = kept(inputs - kept(inputs.mean(axis=1, keepdims=True))) if centred else inputs
    squares = kept(kept(moved * moved).mean(axis=1, keepdims=True))
    scaled = kept(moved * kept(1.0 / np.sqrt(squares + _EPSILON)))
    return kept(scaled * kept(gain))
