"""What the bytes are: names, formats, shapes, numbers. Where bytes come from is `modelkin.source`'s part."""

from ._dtypes import DTYPES, Array, Dtype, decode, encode, raw_bits
from ._index import TensorIndex, TensorInfo
from ._reader import CHUNK_BYTES, Fetched, Fetcher, TensorChunk, TensorReader
from ._safetensors import MAX_HEADER_BYTES, PREFIX_BYTES, SafetensorsHeader, header_length, parse_header
from ._sampling import sample_blocks, sample_rows
from ._shards import MAX_INDEX_BYTES, ShardIndex, join_shards, parse_shard_index
from ._slices import Blocks, Rows, ScatteredRows, SlicePlan, TensorSlice, Whole, plan_slice
from ._storage import (
    ColumnStorage,
    LinePlan,
    LineRuns,
    Storage,
    View,
    count_lines,
    line_elements,
    numbers_of,
    runs_of,
)
from ._weights import find_entry, read_index
from ._write import RawTensor, Tensor, safetensors_bytes, safetensors_head, sharded, write_safetensors

__all__ = [
    "CHUNK_BYTES",
    "DTYPES",
    "MAX_HEADER_BYTES",
    "MAX_INDEX_BYTES",
    "PREFIX_BYTES",
    "Array",
    "Blocks",
    "ColumnStorage",
    "Dtype",
    "Fetched",
    "Fetcher",
    "LinePlan",
    "LineRuns",
    "RawTensor",
    "Rows",
    "SafetensorsHeader",
    "ScatteredRows",
    "ShardIndex",
    "SlicePlan",
    "Storage",
    "Tensor",
    "TensorChunk",
    "TensorIndex",
    "TensorInfo",
    "TensorReader",
    "TensorSlice",
    "View",
    "Whole",
    "count_lines",
    "decode",
    "encode",
    "find_entry",
    "header_length",
    "join_shards",
    "line_elements",
    "numbers_of",
    "parse_header",
    "parse_shard_index",
    "plan_slice",
    "raw_bits",
    "read_index",
    "runs_of",
    "safetensors_bytes",
    "safetensors_head",
    "sample_blocks",
    "sample_rows",
    "sharded",
    "write_safetensors",
]
