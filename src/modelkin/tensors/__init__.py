"""What the bytes are: names, formats, shapes, numbers. Where they come from is up to `modelkin.source`."""

from ._codes import Array, looked_up, unpacked
from ._dtypes import DTYPES, Buffer, decode, encode, float_table, raw_bits
from ._index import MAX_ELEMENTS, MAX_RANK, TensorIndex, TensorInfo
from ._reader import TensorChunk, TensorReader
from ._sampling import sample_blocks, sample_rows
from ._storage import (
    APART,
    ColumnStorage,
    LinePlan,
    LineRuns,
    Numbers,
    Storage,
    View,
    across_rows,
    by_file,
    count_lines,
    few_stretches,
    line_elements,
    numbers_of,
    runs_of,
)
from .slices import Blocks, Rows, SlicePlan, TensorSlice, plan_slice
