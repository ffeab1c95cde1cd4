"""Weights written by torch: its pickles are read by a machine that can only describe, not execute."""

from ._format import FORMAT
