"""How the machine affects a measurement, and how to prevent that."""

from __future__ import annotations

import numpy as np


def touch_memory(n_bytes: int) -> None:
    """Use memory once and release it, so that its first use is not timed.

    Virtual machines often return free pages to their host: the first use of a page can then take ten times
    as long as the next, which would be counted for whichever way happens to come first.
    """
    np.ones(n_bytes, np.uint8)
