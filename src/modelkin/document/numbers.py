"""Numbers as people write them. Rounding never makes a result look stronger than it is."""

from __future__ import annotations

import math
from collections.abc import Iterable

from modelkin.comparison.methods import Effect
from modelkin.comparison.verdict import NEVER, rounded_up

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SCALES = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
_SMALLEST_DECIMAL = -3.0


def size_text(n_bytes: int) -> str:
    """Write a number of bytes for people, in powers of 1000 as for disks and networks."""
    value, unit = float(n_bytes), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{n_bytes} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def digits_text(number: int | None) -> str:
    """Write a number with all its digits, in groups of three; a dash if it is not known."""
    return "-" if number is None else f"{number:,}"


def count_text(number: int) -> str:
    """Write a number of parameters as people say it: 7.24 B, 34.2 K."""
    for scale, letter in _SCALES:
        if number >= scale:
            return f"{number / scale:.3g} {letter}"
    return str(number)


def bound_text(log10_p: float) -> str:
    """Write the smallest round number that a p-value does not exceed: 10^-1124, 0.38, 1.

    Always rounded upwards: what is printed is never smaller than the p-value, and never 0.
    """
    if log10_p <= _SMALLEST_DECIMAL:
        return f"10^{math.ceil(log10_p)}"
    p = 10.0 ** min(0.0, log10_p)
    digits = 1 - math.floor(math.log10(p))
    return f"{min(1.0, math.ceil(p * 10**digits - 1e-9) / 10**digits):.2g}"


def p_text(log10_p: float) -> str:
    """Write a p-value as a statement: ``p < 10^-1124`` or ``p = 0.38``."""
    sign = "<" if log10_p < _SMALLEST_DECIMAL and log10_p != math.ceil(log10_p) else "="
    return f"p {sign} {bound_text(log10_p)}"


def effect_text(effect: Effect) -> str:
    """Write an effect with its interval."""
    return f"{_signed(effect.value)} [{_signed(effect.low)}, {_signed(effect.high)}]"


def limit_text(limit: float) -> str:
    """Write the smallest effect that would have been found; none is larger than that of equal weights."""
    return f"{rounded_up(limit):.2g}" if limit < NEVER else f"> {NEVER:g}"


def z_text(z: float) -> str:
    """Write a distance from chance with one digit."""
    return f"{round(z, 1) + 0.0:.1f}"


def runs_text(numbers: Iterable[int]) -> str:
    """Write sorted numbers in the layer grammar: 0-10,20,30-35."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def value_text(value: str | float | bool | None) -> str:
    """Write a value of any kind."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case str():
            return value


def brief_text(value: float) -> str:
    """Write a number with four significant digits; more if four would claim a 1 that was not found."""
    if value == 0:
        return "0"
    if 0.001 <= abs(value) < 1e6:  # outside, powers of ten are shorter
        digits = next((n for n in (4, 5, 6, 7) if float(f"{value:.{n}g}") != 1.0 or value == 1.0), 7)
        return f"{float(f'{value:.{digits}g}'):,.10g}"
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{mantissa}·10^{int(power)}"


def _signed(value: float) -> str:
    """Write three digits; more if three would claim an identity that was not found (0.9996 is not 1)."""
    digits = next((n for n in (3, 4, 5, 6) if abs(round(value, n)) != 1.0), 3)
    text = f"{value:.{digits}f}"
    return "0.000" if text == "-0.000" else text


def about_text(seconds: float) -> str:
    """Return a rough duration: one digit is all that is known.

    Examples
    --------
    >>> about_text(0.7), about_text(17.0), about_text(312.0), about_text(9_000.0)
    ('1 s', '20 s', '5 min', '3 h')
    """
    for unit, size in (("h", 3_600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:  # with one digit, less than that would become 1
            return f"{_one_digit(seconds / size)} {unit}"
    return f"{_one_digit(max(1.0, seconds))} s"


def _one_digit(value: float) -> int:
    power: int = 10 ** (len(str(int(value))) - 1)
    return max(1, round(value / power + 1e-9)) * power
