"""Was one model derived from the other: read in stages, tested, decided, recorded.

In the order in which things happen:

``stages``
    `compare`: the order of everything below.
``pair``, ``tokens``
    Two opened models as methods see them, how much of them may be read, and rows of shared tokens.
``identity``
    Published digests before anything is read; every value, where that is cheap.
``sampling``
    The stages quick and standard: samples of parts with the same number.
``deep``, ``frames``
    The deep stage: which parts face each other, in the original coordinates or in others.
``reading``
    The executor of all probes: prices, reads and evaluates them, or only prices them in a dry run.
``dry_run``, ``cost``
    `price_comparison`: what is read at most, and about how long it takes.
``controls``
    The same tests on unrelated models, and the rank of the pair among them.
``kinship``, ``adapters``, ``claims``, ``relation``
    What is said alongside the verdict; `relation` subtracts weights and says what was done.
``difference``
    What was changed, tensor by tensor.
``record``
    The complete record of a comparison.

`methods` are the tests, `alignment` finds what faces what, `verdict` decides. The names below are imported
when they are first used, since methods are imported through this package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelkin.comparison.difference import DIFF_SCHEMA, ModelDiff, diff
    from modelkin.comparison.dry_run import price_comparison, wanted_by_comparison
    from modelkin.comparison.record import (
        SCHEMA,
        Comparison,
        ControlResult,
        ModelSummary,
        PartSizes,
        Published,
        ReferenceScore,
    )
    from modelkin.comparison.stages import compare

__all__ = [
    "DIFF_SCHEMA",
    "SCHEMA",
    "Comparison",
    "ControlResult",
    "ModelDiff",
    "ModelSummary",
    "PartSizes",
    "Published",
    "ReferenceScore",
    "compare",
    "diff",
    "price_comparison",
    "wanted_by_comparison",
]

_HOME = {
    "compare": "stages",
    **dict.fromkeys(("price_comparison", "wanted_by_comparison"), "dry_run"),
    **dict.fromkeys(("DIFF_SCHEMA", "ModelDiff", "diff"), "difference"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'modelkin.comparison' has no attribute {name!r}")
    home = _HOME.get(name, "record")
    value: object = getattr(import_module(f"modelkin.comparison.{home}"), name)
    globals()[name] = value
    return value
