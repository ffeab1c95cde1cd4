"""Quantised tensors put together: codes, scales and zero points become the weights they stand for."""

from ._decode import put_together
