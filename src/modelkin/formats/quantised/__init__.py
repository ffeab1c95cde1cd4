"""Quantised tensors put together: codes, scales and zero points become the weights that they stand for."""

from ._decode import decode_index, has_codes, put_together
from ._scheme import ReadSmall, small_reader

__all__ = ["ReadSmall", "decode_index", "has_codes", "put_together", "small_reader"]
