"""Tables that code computes and training never touches: told by name, or by their values.

Two unrelated models agree in them to the last bit, so agreement there proves nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from modelkin.message import Message, say
from modelkin.structs import Fields, read_toml

from .loader import read_data

_FILE: Final = "fixed_tables.toml"

_MIN_VALUES: Final = 4  # two or three values make no pattern
_MIN_GEOMETRIC: Final = 8  # a handful of trained values easily look geometric

# Tables are often kept in bfloat16, whose steps are 2**-8 of the value.
_TOLERANCE: Final = 2.0**-7


class FixedTables(Fields):
    """The data file: name suffixes, and what such a table is."""

    format: Literal[1]
    endings: dict[str, str]


@cache
def _endings() -> tuple[str, ...]:
    return tuple(read_toml(_FILE, read_data(_FILE), FixedTables).endings)


def is_fixed_table(name: str) -> bool:
    """Say whether a tensor of this name is a computed table in any family.

    Whole components are compared, so ``my_alibi`` is not ``alibi``.
    """
    return any(
        name == ending or name.endswith(f".{ending}") for ending in _endings() if name.endswith(ending)
    )


def looks_fixed(values: NDArray[Any]) -> Message | None:
    """Return what computed table a whole tensor is, or None if its values look trained or random.

    Constants, consecutive integers, causal masks, sinusoids (both layouts) and geometric sequences of at
    least eight values (RoPE frequencies) are recognised. Fewer than four values only if they are constant.
    """
    array = np.asarray(values)
    if array.size == 0 or array.dtype.kind not in "biuf":
        return None
    numbers = array.astype(np.float64)
    if bool(np.all(numbers == numbers.flat[0])):
        return say("structure.constant", value=float(numbers.flat[0]))
    flat = np.squeeze(numbers)
    if flat.size < _MIN_VALUES:
        return None
    if flat.ndim == 1:
        return _sequence(flat)
    if flat.ndim == 2:
        return _mask(flat) or _sinusoid(flat)
    return None


def _sequence(values: NDArray[np.float64]) -> Message | None:
    if not np.all(np.isfinite(values)):
        return None
    if bool(np.all(np.diff(values) == 1)):
        return say("structure.counting")
    if values.size < _MIN_GEOMETRIC or np.any(values <= 0):
        return None
    steps = np.diff(np.log(values))
    typical = float(np.median(steps))
    # The steps of rounded values scatter by the rounding; a geometric sequence has one step.
    if typical and bool(np.all(np.abs(steps - typical) <= min(_TOLERANCE, abs(typical) / 4))):
        return say("structure.geometric")
    return None


def _mask(values: NDArray[np.float64]) -> Message | None:
    if values.shape[0] != values.shape[1]:
        return None
    lower = np.tril(np.ones(values.shape, dtype=bool))
    inside, outside = values[lower], values[~lower]
    if bool(np.all(inside == inside[0])) and bool(np.all(outside == outside[0])):
        return say("structure.causal-mask")
    return None


def _sinusoid(values: NDArray[np.float64]) -> Message | None:
    """Recognise sines and cosines at geometric frequencies, concatenated or interleaved."""
    rows, columns = values.shape
    if columns % 2 or columns < _MIN_VALUES or rows < _MIN_VALUES or not np.all(np.isfinite(values)):
        return None
    if np.max(np.abs(values)) > 1 + _TOLERANCE:
        return None
    half = columns // 2
    layouts = {
        "structure.sinusoid-beside": (values[:, :half], values[:, half:]),
        "structure.sinusoid-turns": (values[:, 0::2], values[:, 1::2]),
    }
    for code, (sines, cosines) in layouts.items():
        if _turns_evenly(sines, cosines) or _turns_evenly(cosines, sines):
            return say(code)
    return None


def _turns_evenly(sines: NDArray[np.float64], cosines: NDArray[np.float64]) -> bool:
    """Whether every pair is on the unit circle and rotates by the same angle from row to row.

    Row 0 may be a padding row of zeros, as fairseq writes it, and is left out.
    """
    sines, cosines = sines[1:], cosines[1:]
    if np.any(np.abs(np.hypot(sines, cosines) - 1) > 2 * _TOLERANCE):
        return False
    turn = (cosines[1:] + 1j * sines[1:]) * np.conj(cosines[:-1] + 1j * sines[:-1])
    return bool(np.all(np.abs(turn - turn[0]) <= 8 * _TOLERANCE))
