"""Units that are tied to coordinates by convention: there, equal numbers mean nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from modelkin.message import say
from modelkin.stats.ranks import ranks

Numbers = npt.NDArray[np.intp]

TIED = say("tied")
MOST_Z = 5.0
"""Chance reaches this once in two million models; an initialisation near the identity far exceeds it."""
MOST_RHO = 0.75
"""The same for few units, which cannot reach `MOST_Z`. Both models must be tied, so one in ten thousand here
is one in a hundred million."""
_STRIPE = 1024
"""Units examined at once: copies of a whole layer of a wide model take hundreds of megabytes."""
_FEWEST_UNITS, _FEWEST_FEATURES = 4, 3
"""With fewer units or places, ranks are perfectly correlated by chance: three units in one of three cases."""
_FEW_DISTANCES = 16
"""Up to as many, products are faster than a Fourier transform (periods of 24 to 11,008)."""
_PATTERN_P = 1e-5
"""Probability that an ordinary model shows a pattern. Both models must."""


def is_tied(
    rows: npt.ArrayLike,
    *,
    units: Numbers | None = None,
    features: Numbers | None = None,
    width: int | None = None,
) -> bool:
    """Say whether the strongest feature of a unit moves along with the unit's number.

    Some models begin near the identity (unit i reads dimension i), in blocks or in strides (unit i reads
    dimensions of the same remainder), by design and not by chance. Two strangers of that kind agree in their
    numbering, and an order test would take it for a common origin. In an ordinary model the place of a unit's
    strongest feature has nothing to do with its own.

    Each row is a unit. `units` and `features` are the numbers of rows and columns in the model, if these are
    not counted from 0; `width` is the size of the space that features live in, if there are more than
    columns.
    """
    values = np.asarray(rows)
    usable, strongest = _strongest(values)
    if features is not None:
        strongest = features[strongest]
    if len(strongest) < _FEWEST_UNITS or len(set(strongest.tolist())) < _FEWEST_FEATURES:
        return False
    places = np.flatnonzero(usable) if units is None else units[usable]
    rho = np.corrcoef(ranks(places), ranks(strongest))[0, 1]
    if abs(rho) > MOST_RHO or abs(rho) * math.sqrt(len(places) - 1) > MOST_Z:
        return True
    return _is_patterned(places, strongest, n_units=int(places.max()) + 1, width=width or values.shape[1])


def _strongest(rows: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.bool_], Numbers]:
    """Return which units are finite and not zero, and the strongest feature of each of these."""
    usable, places = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.intp)
    for start in range(0, len(rows) if rows.shape[1] else 0, _STRIPE):
        sizes = np.abs(np.asarray(rows[start : start + _STRIPE]))
        at = np.argmax(sizes, axis=1)  # the first NaN, if there is one
        largest = sizes[np.arange(len(sizes)), at]
        usable[start : start + _STRIPE] = np.isfinite(largest) & (largest > 0)
        places[start : start + _STRIPE] = at
    return usable, places[usable]


def _is_patterned(places: Numbers, strongest: Numbers, *, n_units: int, width: int) -> bool:
    """Say whether units and their strongest features keep a distance, modulo a divisor of the width.

    Each is numbered by its remainder or by its block. How often a distance occurs by chance depends on which
    units and features there are to pair: in a narrow run of a wide space all have the same block, and their
    distances are small whatever the model. So the rate is that of the same units and features, paired in any
    order.
    """
    periods = _divisors(width)
    price = math.log(4 * len(periods) / _PATTERN_P) if periods else 0.0
    for period in periods:
        units, features = (
            [_Numbered(numbers, period) for numbers in ways]
            for ways in (
                (places % period, places * period // n_units),
                (strongest % period, strongest * period // width),
            )
        )
        if any(_keeps_a_distance(unit, feature, period, price) for unit in units for feature in features):
            return True
    return False


@cache
def _divisors(width: int) -> tuple[int, ...]:
    return tuple(period for period in range(2, width + 1) if width % period == 0)


@dataclass(eq=False)
class _Numbered:
    """Remainders or blocks of units or features."""

    numbers: Numbers
    period: int

    @cached_property
    def shares(self) -> npt.NDArray[np.float64]:
        """How often each occurs."""
        return np.asarray(np.bincount(self.numbers, minlength=self.period) / len(self.numbers))

    @cached_property
    def rarest(self) -> float:
        """The share of what occurs least."""
        return float(self.shares.min())

    @cached_property
    def around(self) -> npt.NDArray[np.float64]:
        """The shares twice over, so that each cyclic shift of them is a slice."""
        return np.concatenate([self.shares, self.shares])

    @cached_property
    def spectrum(self) -> npt.NDArray[np.complex128]:
        """The shares as frequencies."""
        return np.fft.rfft(self.shares)


def _keeps_a_distance(unit: _Numbered, feature: _Numbered, period: int, price: float) -> bool:
    n = len(unit.numbers)
    counts = np.bincount((feature.numbers - unit.numbers) % period, minlength=period)
    price += math.log(int(np.count_nonzero(counts)))
    # No distance is expected to be rarer than the rarest unit or feature, so most counts are too low anyway.
    least = max(unit.rarest, feature.rarest)
    top = fewest = int(counts.max())
    while fewest and _log_tail(n, least, fewest) + price < 0.0:
        fewest -= 1
    if fewest == top:
        return False
    often = np.flatnonzero(counts > fewest)
    return any(
        count > n * rate + 1.0 and _log_tail(n, rate, count) + price < 0.0
        for count, rate in zip(counts[often].tolist(), _rates(unit, feature, often, period), strict=True)
    )


def _rates(unit: _Numbered, feature: _Numbered, distances: Numbers, period: int) -> list[float]:
    """Return the expected share of each distance: how often each number occurs on both sides."""
    if len(distances) <= _FEW_DISTANCES:
        return [float(unit.shares @ feature.around[at : at + period]) for at in distances.tolist()]
    rates: list[float] = np.fft.irfft(feature.spectrum * unit.spectrum.conj(), period)[distances].tolist()
    return rates


def _log_tail(n: int, rate: float, count: int) -> float:
    """Bound the log of the chance that a distance has this large a share (Chernoff)."""
    share, rate = count / n, max(rate, 1.0 / n**2)
    if share <= rate:
        return 0.0
    rest = (1.0 - share) * math.log((1.0 - share) / (1.0 - rate)) if share < 1.0 else 0.0
    return -n * (share * math.log(share / rate) + rest)
