"""Quantised tensors put together: codes, scales and zero points become the weights that they stand for."""

from ._decode import decode_index
from ._found import ReadSmall, small_reader

__all__ = ["ReadSmall", "decode_index", "small_reader"]
