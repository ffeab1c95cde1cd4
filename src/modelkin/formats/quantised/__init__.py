"""Quantised tensors put together: codes, scales and zero points become the weights that they stand for."""

from ._decode import decode_index, has_codes
from ._found import ReadSmall, small_reader
from ._weights import put_together

__all__ = ["ReadSmall", "decode_index", "has_codes", "put_together", "small_reader"]
