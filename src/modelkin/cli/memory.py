"""How much freed memory the process keeps: a matter of the process, so the library leaves it alone."""

from __future__ import annotations

import sys

_M_ARENA_MAX = -8
"""The parameter of glibc's ``mallopt`` that limits its arenas, from ``malloc.h``."""


def share_one_arena() -> None:
    """Let all threads allocate from one arena, if the C library has arenas.

    glibc gives each thread an arena of its own and returns little of what is freed there. Bytes are read and
    decoded by many threads: a study of three models kept half a gigabyte that nothing could use any more.
    Arrays are large and few, so threads hardly ever wait for each other.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries of Linux have none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
