"""Measures over tensors of several models: choose roles and layers, read once, measure, set a null beside."""

from ._items import find_item
from ._options import BASELINES, KnownRelation, MatrixOptions
from ._result import SCHEMA, MatrixModel, MatrixResult, ReadRecord, TensorRecord
from ._run import matrix
from ._selection import RoleChoice, parse_layer_list, parse_layers, parse_role

__all__ = [
    "BASELINES",
    "SCHEMA",
    "KnownRelation",
    "MatrixModel",
    "MatrixOptions",
    "MatrixResult",
    "ReadRecord",
    "RoleChoice",
    "TensorRecord",
    "find_item",
    "matrix",
    "parse_layer_list",
    "parse_layers",
    "parse_role",
]
