"""Which files hold the weights, and in which format: every format gives tensors under one set of names."""

from ._interface import Format, Request, Weights
from ._known import KNOWN, KnownFormat
from ._open import describes_itself, fills_in, read_weights

__all__ = [
    "KNOWN",
    "Format",
    "KnownFormat",
    "Request",
    "Weights",
    "describes_itself",
    "fills_in",
    "read_weights",
]
