"""What the machine does to a measurement, and how that is kept out of it."""

from __future__ import annotations

import numpy as np


def touch_memory(n_bytes: int) -> None:
    """Use memory once and give it back, so that the clock does not run over its first use.

    Virtual machines often return free pages to their host: the first use of a page can then take ten times
    as long as the next, which would be counted for whichever way happens to come first.
    """
    np.ones(n_bytes, np.uint8)
