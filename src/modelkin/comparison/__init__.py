"""Was one model derived from the other: read in stages, tested, decided, recorded.

In the order in which things happen:

``stages``
    `compare` and `plan_comparison`: the order of everything below.
``pair``, ``tokens``
    Two opened models as methods see them, how much of them may be read, and rows of the same tokens.
``identity``
    Published digests before anything is read; every value, where that is cheap.
``sampling``
    The stages quick and standard: samples of parts of equal number.
``deep``, ``frames``
    The deep stage: which parts face each other, in coordinates as they are or in others.
``reading``
    The executor of all probes: prices, reads and evaluates them, or only prices them in a dry run.
``controls``
    The same tests on unrelated models, and the rank of the pair among them.
``kinship``, ``adapters``, ``claims``
    What is said beside the verdict.
``record``
    The complete record of a comparison.

`methods` are the tests, `alignment` finds what faces what, `verdict` decides. The names below are imported
when they are first used, since methods are imported through this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.comparison.record import (
        SCHEMA,
        Comparison,
        ControlResult,
        Direction,
        FrameRecord,
        ModelSummary,
    )
    from modelkin.comparison.stages import compare, plan_comparison

__all__ = [
    "SCHEMA",
    "Comparison",
    "ControlResult",
    "Direction",
    "FrameRecord",
    "ModelSummary",
    "compare",
    "plan_comparison",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'modelkin.comparison' has no attribute {name!r}")
    home = "stages" if name in ("compare", "plan_comparison") else "record"
    value: object = getattr(import_module(f"modelkin.comparison.{home}"), name)
    globals()[name] = value
    return value
