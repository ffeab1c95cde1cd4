"""safetensors: headers of files and shards, and the writing of small files."""

from .header import header_length, parse_header
from .reading import FORMAT
from .writing import RawTensor, safetensors_bytes
