"""The truth table of kinship: derived models, what they come from, and what must come out.

Rows by arithmetic are made from stored models, trained rows are models of the zoo. A row is built on demand,
once, and always the same. `strangers` is the other half of the truth: pairs that must never be accused.
"""

from __future__ import annotations

from functools import cache

from tests.comparison.disguises import DISGUISES, disguised, suitable, zoo_model
from tests.comparison.relation import COMPONENTS, FAMILIES, Relation
from tests.comparison.relations_arithmetic import arithmetic
from tests.comparison.relations_trained import trained
from tests.comparison.strangers import Strangers, lineages, strangers

__all__ = [
    "COMPONENTS",
    "DISGUISES",
    "FAMILIES",
    "Relation",
    "Strangers",
    "arithmetic",
    "disguised",
    "lineages",
    "relations",
    "strangers",
    "suitable",
    "trained",
    "zoo_model",
]


@cache
def relations() -> tuple[Relation, ...]:
    """Return all rows."""
    return (*arithmetic(), *trained())
