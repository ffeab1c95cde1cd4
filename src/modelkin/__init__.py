"""Was language model B derived from model A? An honest answer from the weights.

The names below are imported when they are first used, so that ``import modelkin`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from modelkin._version import __version__

if TYPE_CHECKING:
    from modelkin import errors
    from modelkin._compare import compare
    from modelkin._comparison import Comparison
    from modelkin._config import CompareOptions, FetchOptions
    from modelkin._configs import ConfigComparison, compare_configs
    from modelkin._embeddings import EmbeddingComparison, compare_embeddings
    from modelkin._inspection import Inspection, inspect_model, plan_components
    from modelkin._matrix import KnownRelation, MatrixOptions, MatrixResult, matrix
    from modelkin._model import Model, open_model
    from modelkin._tokenizers import compare_tokenizers
    from modelkin.architecture import Architecture
    from modelkin.source import BytePlan, MemorySource, ModelRef
    from modelkin.tensors import TensorSlice, sample_blocks, sample_rows
    from modelkin.tokenizer import TokenizerComparison

_HOME = {
    "Architecture": "modelkin.architecture",
    "BytePlan": "modelkin.source",
    "CompareOptions": "modelkin._config",
    "Comparison": "modelkin._comparison",
    "ConfigComparison": "modelkin._configs",
    "EmbeddingComparison": "modelkin._embeddings",
    "FetchOptions": "modelkin._config",
    "Inspection": "modelkin._inspection",
    "KnownRelation": "modelkin._matrix",
    "MatrixOptions": "modelkin._matrix",
    "MatrixResult": "modelkin._matrix",
    "MemorySource": "modelkin.source",
    "Model": "modelkin._model",
    "ModelRef": "modelkin.source",
    "TensorSlice": "modelkin.tensors",
    "TokenizerComparison": "modelkin.tokenizer",
    "compare": "modelkin._compare",
    "compare_configs": "modelkin._configs",
    "compare_embeddings": "modelkin._embeddings",
    "compare_tokenizers": "modelkin._tokenizers",
    "inspect_model": "modelkin._inspection",
    "matrix": "modelkin._matrix",
    "open_model": "modelkin._model",
    "plan_components": "modelkin._inspection",
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
