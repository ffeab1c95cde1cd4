"""What the bytes are: names, formats, shapes, numbers. Where bytes come from is `modelkin.source`'s part."""

from ._dtypes import DTYPES, Array, Dtype, decode, encode, raw_bits
from ._index import TensorIndex, TensorInfo
from ._reader import CHUNK_BYTES, Fetched, Fetcher, TensorChunk, TensorReader
from ._safetensors import MAX_HEADER_BYTES, PREFIX_BYTES, SafetensorsHeader, header_length, parse_header
from ._sampling import sample_blocks, sample_rows
from ._shards import MAX_INDEX_BYTES, ShardIndex, join_shards, parse_shard_index
from ._slices import Blocks, Rows, ScatteredRows, SlicePlan, TensorSlice, Whole, plan_slice
from ._weights import read_index

__all__ = [
    "CHUNK_BYTES",
    "DTYPES",
    "MAX_HEADER_BYTES",
    "MAX_INDEX_BYTES",
    "PREFIX_BYTES",
    "Array",
    "Blocks",
    "Dtype",
    "Fetched",
    "Fetcher",
    "Rows",
    "SafetensorsHeader",
    "ScatteredRows",
    "ShardIndex",
    "SlicePlan",
    "TensorChunk",
    "TensorIndex",
    "TensorInfo",
    "TensorReader",
    "TensorSlice",
    "Whole",
    "decode",
    "encode",
    "header_length",
    "join_shards",
    "parse_header",
    "parse_shard_index",
    "plan_slice",
    "raw_bits",
    "read_index",
    "sample_blocks",
    "sample_rows",
]
