"""How small an effect a test would have found: what a negative result is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modelkin.message import say

from ._axis import N_PARTS
from ._result import NotTestable
from ._tail_bound import normal_loss
from ._tails import LN10, log10_factorial, normal_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionLimit:
    """The smallest effect that is found with the stated power at the stated threshold."""

    effect: float
    z: float
    """The z that this effect has on average."""
    log10_alpha: float
    power: float


def needed_z(*, n_units: int, log10_alpha: float) -> float | NotTestable:
    """Return the z from which `AxisTest.log10_p` is below `log10_alpha`, by the tail bound, two-sided.

    The bound holds for all data; this is its value for normal similarities. Where drawing orders can reach
    the threshold, less may be enough. If not even n! orders reach it, nothing does.
    """
    if not -math.inf < log10_alpha < 0.0:
        raise ValueError(f"log10_alpha: expected a finite number below 0, got {log10_alpha}")
    parts = math.log10(2.0 * N_PARTS)
    if n_units < 2 or -log10_factorial(n_units) + parts >= log10_alpha:
        return NotTestable(reason=say("few-orders", n=n_units, p=log10_alpha))
    return math.sqrt(2.0 * LN10 * (parts - log10_alpha)) + normal_loss(n_units)


def detection_limit(
    *, n_units: int, standard_error: float, log10_alpha: float = -6.0, power: float = 0.999
) -> DetectionLimit | NotTestable:
    """Return the smallest effect that `axis_test` finds with probability `power`.

    Not a test: it has no null hypothesis. It takes T as normal around its mean with the variance it has under
    the null, which is right for effects much smaller than 1, and where similarities are not much heavier than
    normal. With too few units for the threshold there is no limit to state.

    `n_units` and `standard_error` are those that `AxisTest` measured; `log10_alpha` is the threshold that
    `AxisTest.log10_p` must fall below.
    """
    if not 0.0 < standard_error < math.inf:
        raise ValueError(f"standard_error: expected a positive number, got {standard_error}")
    if not 0.0 < power < 1.0:
        raise ValueError(f"power: expected a chance between 0 and 1, got {power}")
    threshold = needed_z(n_units=n_units, log10_alpha=log10_alpha)
    if isinstance(threshold, NotTestable):
        return threshold
    z = threshold + normal_quantile(math.log10(1.0 - power))
    return DetectionLimit(effect=z * standard_error, z=z, log10_alpha=log10_alpha, power=power)
