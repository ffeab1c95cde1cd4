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
    from modelkin.comparison import Comparison, compare
    from modelkin.describe import (
        ConfigComparison,
        EmbeddingComparison,
        Inspection,
        compare_configs,
        compare_embeddings,
        compare_tokenizers,
        inspect_model,
        plan_components,
    )
    from modelkin.describe.matrix import KnownRelation, MatrixOptions, MatrixResult, matrix
    from modelkin.model import Model, open_model
    from modelkin.options import CompareOptions, FetchOptions
    from modelkin.source import BytePlan, MemorySource, ModelRef
    from modelkin.tensors import TensorSlice, sample_blocks, sample_rows
    from modelkin.tokenizer import TokenizerComparison

_HOME = {
    "Architecture": "modelkin.architecture",
    "BytePlan": "modelkin.source",
    "CompareOptions": "modelkin.options",
    "Comparison": "modelkin.comparison",
    "ConfigComparison": "modelkin.describe",
    "EmbeddingComparison": "modelkin.describe",
    "FetchOptions": "modelkin.options",
    "Inspection": "modelkin.describe",
    "KnownRelation": "modelkin.describe.matrix",
    "MatrixOptions": "modelkin.describe.matrix",
    "MatrixResult": "modelkin.describe.matrix",
    "MemorySource": "modelkin.source",
    "Model": "modelkin.model",
    "ModelRef": "modelkin.source",
    "TensorSlice": "modelkin.tensors",
    "TokenizerComparison": "modelkin.tokenizer",
    "compare": "modelkin.comparison",
    "compare_configs": "modelkin.describe",
    "compare_embeddings": "modelkin.describe",
    "compare_tokenizers": "modelkin.describe",
    "inspect_model": "modelkin.describe",
    "matrix": "modelkin.describe.matrix",
    "open_model": "modelkin.model",
    "plan_components": "modelkin.describe",
    "sample_blocks": "modelkin.tensors",
    "sample_rows": "modelkin.tensors",
}

__all__ = [
    "Architecture",
    "BytePlan",
    "CompareOptions",
    "Comparison",
    "ConfigComparison",
    "EmbeddingComparison",
    "FetchOptions",
    "Inspection",
    "KnownRelation",
    "MatrixOptions",
    "MatrixResult",
    "MemorySource",
    "Model",
    "ModelRef",
    "TensorSlice",
    "TokenizerComparison",
    "__version__",
    "compare",
    "compare_configs",
    "compare_embeddings",
    "compare_tokenizers",
    "errors",
    "inspect_model",
    "matrix",
    "open_model",
    "plan_components",
    "sample_blocks",
    "sample_rows",
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
