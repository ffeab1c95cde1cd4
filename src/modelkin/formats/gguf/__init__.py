"""Weights in GGUF, the format of llama.cpp: one file with everything, mostly quantised."""

from .reading import FORMAT
from .storage import BlockRows, PickedRows, RopeRows, Straight
from .types import TYPES, GgmlType
