"""float32 to bfloat16, in numpy alone: an oracle that shares no code with the decoder it tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bit patterns of the nearest bfloat16 values, ties to even; NaN stays NaN."""
    values = np.asarray(values, dtype="<f4")
    bits = values.view("<u4")
    # Adding just under half of the last kept place, plus that place's own bit, rounds ties to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    # The addition above would carry a NaN with a large payload over into zero.
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype("<u2")
