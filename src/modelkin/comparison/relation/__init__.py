"""What was done to a model: differences of facing tensors, what they look like, and what follows from that.

``facing``, ``orders``, ``deltas``
    Which tensors, rows and columns face each other, and their rows, read within the byte allowance.
``steps``, ``scales``, ``lattice``, ``spectrum``
    Pure arrays: resolution of formats, factors, levels of quantisers, directions of differences.
``partners``
    Whether factors that were undone are taken back by other tensors.
``measure``, ``kinds``, ``values``, ``shapes``
    What became of one tensor; what all are called together; what is said of all values; of the shape.
``stage``
    The order of these.
``counts``
    Every value of both models, counted in one pass.
"""

from .counts import TensorCount, all_equal, count_tensors
from .kinds import kind_of_values
from .result import RelationFinding, TensorChange
from .shapes import BARE, shape_findings
from .stage import Deltas, deltas_at_most, read_deltas, wanted_deltas
from .values import findings_of_values, lost_in

__all__ = [
    "BARE",
    "Deltas",
    "RelationFinding",
    "TensorChange",
    "TensorCount",
    "all_equal",
    "count_tensors",
    "deltas_at_most",
    "findings_of_values",
    "kind_of_values",
    "lost_in",
    "read_deltas",
    "shape_findings",
    "wanted_deltas",
]
