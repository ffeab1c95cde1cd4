"""From which models, and in which order: merges taken apart, and collections as forests.

``merging``
    `explain_merge`: is a model a mixture of others, with which weights, by which method.
``growing``
    `family_forest`: the families of a collection, who hangs on whom, and which came first.

What is read are the same places of all models (``samples``); what is said follows from where they lie to each
other (``geometry``, ``patterns``). Whether two models share weights at all is said by
`modelkin.comparison` alone.
"""

from __future__ import annotations

from .growing import family_forest
from .merge_result import MERGE_SCHEMA, MergeResult
from .merging import explain_merge
from .tree_result import TREE_SCHEMA, FamilyForest

__all__ = ["MERGE_SCHEMA", "TREE_SCHEMA", "FamilyForest", "MergeResult", "explain_merge", "family_forest"]
