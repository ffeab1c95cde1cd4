"""How finely a stored format tells numbers apart at each place. Pure arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modelkin.tensors import DTYPES, decode, encode

Floats = npt.NDArray[np.float32]

_DIGITS = {"F64": 24, "F32": 24, "F16": 11, "BF16": 8, "F8_E4M3": 4, "F8_E5M2": 3}
"""Bits of the significand, the leading one included; numbers are compared as F32."""
_LEAST = {"F16": 2.0**-24, "F8_E4M3": 2.0**-9, "F8_E5M2": 2.0**-16}
"""The step of the smallest numbers of formats that have few exponents."""
_LOWEST = -126
"""Exponent of the smallest normal number of F32 and of BF16; smaller ones and zero are as far apart."""
_EXPONENT = np.uint32(0x7F800000)  # the bits of a float32 that hold it
_FIRST = 4096
"""Numbers tested before all are: those of a finer format usually show at once."""
_COARSE = ("F8_E4M3", "BF16", "F16")


def stored_steps(values: Floats, dtype: str) -> Floats:
    """Return the distance of the next number that a format can hold, at each place; codes count as F32."""
    digits = _DIGITS.get(dtype, 24)
    held = np.ascontiguousarray(values, np.float32)
    # The exponent alone is the power of two at or below a number: ten times as fast as frexp.
    powers = (held.view(np.uint32) & _EXPONENT).view(np.float32)
    steps = powers * np.float32(2.0 ** (1 - digits))
    odd = ~np.isfinite(powers)
    if odd.any():
        steps[odd] = np.ldexp(np.float32(1.0), np.frexp(held[odd])[1] - digits)
    # Next to zero numbers are closest: its power of two is none, and no step is smaller than that.
    least = max(_LEAST.get(dtype, 0.0), 2.0 ** (_LOWEST + 1 - digits))
    return np.asarray(np.maximum(steps, np.float32(least)), np.float32)


def effective_format(values: Floats, dtype: str) -> str:
    """Return the coarsest format that all numbers fit into: BF16 saved as F32 is still BF16."""
    for coarse in _COARSE:
        finer = _DIGITS.get(dtype, 24) > _DIGITS[coarse]
        if finer and _fits(values.reshape(-1)[:_FIRST], coarse) and _fits(values, coarse):
            return coarse
    return dtype if dtype in DTYPES else "F32"


def _fits(values: Floats, dtype: str) -> bool:
    with np.errstate(over="ignore"):  # numbers too large for a format do not fit into it
        return np.array_equal(decode(encode(values, dtype), dtype, values.size), values.reshape(-1))
