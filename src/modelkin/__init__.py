"""Was language model B derived from model A? An honest answer from the weights.

The names below are imported when they are first used, so that ``import modelkin`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from modelkin._version import __version__

if TYPE_CHECKING:
    from modelkin import errors
    from modelkin._config import FetchOptions
    from modelkin._inspection import Inspection, inspect_model, plan_components
    from modelkin._model import Model, open_model
    from modelkin.architecture import Architecture
    from modelkin.source import BytePlan, MemorySource, ModelRef
    from modelkin.tensors import TensorSlice, sample_blocks, sample_rows

_HOME = {
    "Architecture": "modelkin.architecture",
    "BytePlan": "modelkin.source",
    "FetchOptions": "modelkin._config",
    "Inspection": "modelkin._inspection",
    "MemorySource": "modelkin.source",
    "Model": "modelkin._model",
    "ModelRef": "modelkin.source",
    "TensorSlice": "modelkin.tensors",
    "inspect_model": "modelkin._inspection",
    "open_model": "modelkin._model",
    "plan_components": "modelkin._inspection",
    "sample_blocks": "modelkin.tensors",
    "sample_rows": "modelkin.tensors",
}

__all__ = [
    "Architecture",
    "BytePlan",
    "FetchOptions",
    "Inspection",
    "MemorySource",
    "Model",
    "ModelRef",
    "TensorSlice",
    "__version__",
    "errors",
    "inspect_model",
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
