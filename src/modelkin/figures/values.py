"""Numbers as descriptions hold them: tuples of floats, with None for what was not measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from modelkin.errors import UsageError
from modelkin.message import phrase, say

N = TypeVar("N", int, float)
MINUS = "\N{MINUS SIGN}"
Numbers: TypeAlias = tuple[float | None, ...]
Grid: TypeAlias = tuple[Numbers, ...]
Series: TypeAlias = Sequence[float | None] | npt.NDArray[np.generic]
Matrix: TypeAlias = Sequence[Sequence[float | None]] | npt.NDArray[np.generic]


def numbers(values: Iterable[float | None] | npt.NDArray[np.generic]) -> Numbers:
    """Take a sequence as a description holds it; NaN and None both mean not measured."""
    return tuple(_number(value) for value in values)


def grid(values: Matrix) -> Grid:
    """Take a matrix as a description holds it; all rows have one length."""
    rows = tuple(numbers(row) for row in values)
    if len({len(row) for row in rows}) > 1:
        raise UsageError("figure", say("problem.matrix-rows"))
    return rows


def _number(value: object) -> float | None:
    if value is None:
        return None
    number = float(value)  # type: ignore[arg-type]  # anything that counts as a number
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise UsageError("figure", say("problem.finite-numbers"), hint=say("hint.leave-out"))
    return number


def known(values: Iterable[N | None]) -> list[N]:
    """List the values that were measured."""
    return [value for value in values if value is not None]


def array(values: Series | Matrix) -> npt.NDArray[np.float64]:
    """Make an array in which NaN stands for what was not measured."""
    return np.array(values, dtype=np.float64)


def mean(values: Iterable[float | None]) -> float | None:
    """Average what was measured; None if nothing was."""
    measured = known(values)
    return math.fsum(measured) / len(measured) if measured else None


def spread(values: Iterable[float | None]) -> float | None:
    """Sample standard deviation of what was measured; None for fewer than two values."""
    measured = known(values)
    if len(measured) < 2:
        return None
    centre = math.fsum(measured) / len(measured)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in measured) / (len(measured) - 1))


def fixed(value: float, digits: int) -> str:
    """Write a number with this many decimals; what rounds to zero has no sign."""
    text = f"{value:.{digits}f}"
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", MINUS)


def digits_for(values: Iterable[float | None]) -> int:
    """Decimals with which the largest of some small values has two digits; at least 2, at most 6."""
    largest = max((abs(value) for value in known(values)), default=0.0)
    return 2 if largest == 0 else min(6, max(2, 1 - math.floor(math.log10(largest))))


def brief(value: float | None, digits: int = 3) -> str:
    """Write a number in few characters, for labels and alt text: about this many digits."""
    if value is None:
        return phrase("figure.not_measured")
    if value == 0:
        return "0"
    size = abs(value)
    # Beyond five digits, or where a tenth of the last digit shows nothing, powers of ten are shorter.
    if size >= 1e5 or size < 10.0 ** (-digits - 1):
        return f"{value:.2g}".replace("-", MINUS)
    whole = max(0, math.floor(math.log10(size)) + 1)
    return fixed(value, max(0, digits - whole))
