"""Weights in GGUF, the format of llama.cpp: one file with everything, mostly quantised."""

from ._read import GgufFormat

__all__ = ["FORMAT", "GgufFormat"]

FORMAT = GgufFormat()
