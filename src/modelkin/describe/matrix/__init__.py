"""Measures over tensors of several models: choose roles and layers, read once, measure, add baselines."""

from ._items import find_item
from ._options import BASELINES, KnownRelation, MatrixOptions, RoleChoice, parse_layer_list, parse_role
from ._reading import MAX_WASTE
from ._result import MATRIX_SCHEMA, MatrixResult
from ._run import matrix, wanted_by_matrix
