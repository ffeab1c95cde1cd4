"""Weights in GGUF, the format of llama.cpp: one file with everything, mostly quantised."""

from ._read import FORMAT
from ._storage import BlockRows, PickedRows, RopeRows, Straight
from ._types import TYPES, GgmlType

__all__ = ["FORMAT", "TYPES", "BlockRows", "GgmlType", "PickedRows", "RopeRows", "Straight"]
