"""Weights that torch has written: its pickles are read by a machine that can do nothing but describe."""

from ._format import FORMAT

__all__ = ["FORMAT"]
