"""Was language model B derived from model A? An honest answer from the weights.

The names below are imported when they are first used, so that ``import modelkin`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from modelkin._version import __version__

if TYPE_CHECKING:
    from modelkin import errors
    from modelkin.architecture import Architecture
    from modelkin.atlas import Atlas, AtlasOptions, make_atlas
    from modelkin.comparison import Comparison, ModelDiff, ReferenceScore, compare, diff
    from modelkin.describe import (
        ConfigComparison,
        EmbeddingComparison,
        Inspection,
        compare_configs,
        compare_embeddings,
        compare_repositories,
        compare_tokenizers,
        inspect_model,
        plan_components,
    )
    from modelkin.describe.matrix import KnownRelation, MatrixOptions, MatrixResult, matrix
    from modelkin.fingerprint import Fingerprint, fingerprint_model
    from modelkin.lineage import FamilyForest, MergeResult, explain_merge, family_forest
    from modelkin.lineage.cards import CardCheck, check_card
    from modelkin.model import Model, open_model
    from modelkin.options import CompareOptions, FetchOptions
    from modelkin.reference import ReferenceOptions, reference_scores
    from modelkin.registry import Registry, ScanOptions, ScanResult, create_registry, open_registry, scan
    from modelkin.source import BytePlan, MemorySource, ModelRef
    from modelkin.tensors import TensorSlice, sample_blocks, sample_rows
    from modelkin.tokenizer import TokenizerComparison

_HOME = {
    "Architecture": "modelkin.architecture",
    "Atlas": "modelkin.atlas",
    "AtlasOptions": "modelkin.atlas",
    "BytePlan": "modelkin.source",
    "CardCheck": "modelkin.lineage.cards",
    "CompareOptions": "modelkin.options",
    "Comparison": "modelkin.comparison",
    "ConfigComparison": "modelkin.describe",
    "EmbeddingComparison": "modelkin.describe",
    "FamilyForest": "modelkin.lineage",
    "FetchOptions": "modelkin.options",
    "Fingerprint": "modelkin.fingerprint",
    "Inspection": "modelkin.describe",
    "KnownRelation": "modelkin.describe.matrix",
    "MatrixOptions": "modelkin.describe.matrix",
    "MatrixResult": "modelkin.describe.matrix",
    "MemorySource": "modelkin.source",
    "MergeResult": "modelkin.lineage",
    "Model": "modelkin.model",
    "ModelDiff": "modelkin.comparison",
    "ModelRef": "modelkin.source",
    "ReferenceOptions": "modelkin.reference",
    "ReferenceScore": "modelkin.comparison",
    "Registry": "modelkin.registry",
    "ScanOptions": "modelkin.registry",
    "ScanResult": "modelkin.registry",
    "TensorSlice": "modelkin.tensors",
    "TokenizerComparison": "modelkin.tokenizer",
    "check_card": "modelkin.lineage.cards",
    "compare": "modelkin.comparison",
    "compare_configs": "modelkin.describe",
    "compare_embeddings": "modelkin.describe",
    "compare_repositories": "modelkin.describe",
    "compare_tokenizers": "modelkin.describe",
    "create_registry": "modelkin.registry",
    "diff": "modelkin.comparison",
    "explain_merge": "modelkin.lineage",
    "family_forest": "modelkin.lineage",
    "fingerprint_model": "modelkin.fingerprint",
    "inspect_model": "modelkin.describe",
    "make_atlas": "modelkin.atlas",
    "matrix": "modelkin.describe.matrix",
    "open_model": "modelkin.model",
    "open_registry": "modelkin.registry",
    "plan_components": "modelkin.describe",
    "reference_scores": "modelkin.reference",
    "sample_blocks": "modelkin.tensors",
    "sample_rows": "modelkin.tensors",
    "scan": "modelkin.registry",
}

__all__ = [
    "Architecture",
    "Atlas",
    "AtlasOptions",
    "BytePlan",
    "CardCheck",
    "CompareOptions",
    "Comparison",
    "ConfigComparison",
    "EmbeddingComparison",
    "FamilyForest",
    "FetchOptions",
    "Fingerprint",
    "Inspection",
    "KnownRelation",
    "MatrixOptions",
    "MatrixResult",
    "MemorySource",
    "MergeResult",
    "Model",
    "ModelDiff",
    "ModelRef",
    "ReferenceOptions",
    "ReferenceScore",
    "Registry",
    "ScanOptions",
    "ScanResult",
    "TensorSlice",
    "TokenizerComparison",
    "__version__",
    "check_card",
    "compare",
    "compare_configs",
    "compare_embeddings",
    "compare_repositories",
    "compare_tokenizers",
    "create_registry",
    "diff",
    "errors",
    "explain_merge",
    "family_forest",
    "fingerprint_model",
    "inspect_model",
    "make_atlas",
    "matrix",
    "open_model",
    "open_registry",
    "plan_components",
    "reference_scores",
    "sample_blocks",
    "sample_rows",
    "scan",
]


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("modelkin.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'modelkin' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
