"""safetensors: headers of files and shards, and the writing of small files."""

from ._header import SafetensorsHeader, header_length, parse_header
from ._read import FORMAT
from ._write import RawTensor, StoredTensor, safetensors_bytes, safetensors_head

__all__ = [
    "FORMAT",
    "RawTensor",
    "SafetensorsHeader",
    "StoredTensor",
    "header_length",
    "parse_header",
    "safetensors_bytes",
    "safetensors_head",
]
