"""From which models, and in which order: merges decomposed, and collections as forests.

``merging``
    `explain_merge`: is a model a mixture of others, with which weights, by which method.
``growing``
    `family_forest`: the families of a collection, which model descends from which, and which came first.

The same places of all models are read (``samples``); conclusions follow from where they lie relative to each
other (``geometry``, ``patterns``). Whether two models share weights at all is decided only by
`modelkin.comparison`.
"""

from __future__ import annotations

from .growing import family_forest
from .merge_result import MERGE_SCHEMA, MergeResult
from .merging import explain_merge
from .tree_result import TREE_SCHEMA, FamilyForest

__all__ = ["MERGE_SCHEMA", "TREE_SCHEMA", "FamilyForest", "MergeResult", "explain_merge", "family_forest"]
