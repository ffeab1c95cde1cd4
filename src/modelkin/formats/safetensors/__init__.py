"""safetensors: headers of files and shards, and the writing of small files."""

from ._write import RawTensor, StoredTensor, safetensors_bytes, safetensors_head
from .header import SafetensorsHeader, header_length, parse_header
from .reading import FORMAT
