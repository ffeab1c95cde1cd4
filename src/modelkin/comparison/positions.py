"""What a config says about positions, checked against the weights before a test is given up because of it."""

from __future__ import annotations

from dataclasses import replace

from modelkin.architecture import Architecture, Role, looks_fixed
from modelkin.message import say
from modelkin.model import Model
from modelkin.tensors import TensorSlice

_ROWS = 8
"""Rows of a table of positions: a sinusoid rotates by one angle per row, which trained rows never do."""


def checked_architecture(model: Model) -> Architecture:
    """Return a model's architecture, without a fixed sinusoid that is not there.

    Its residual dimensions would have a fixed order, and most tests would be given up. A config can claim
    that of any model, so the stored table must confirm it. If none is stored, the claim cannot be checked.
    """
    architecture = model.architecture
    entry = architecture.find(Role.POSITION_EMBEDDING)
    if architecture.positions != "sinusoidal" or entry is None:
        return architecture
    n_rows = model.index[entry.tensor].n_rows
    if n_rows < _ROWS or looks_fixed(model.tensor(entry.tensor, rows=slice(0, _ROWS))) is not None:
        return architecture
    return without_sinusoid(architecture)


def without_sinusoid(architecture: Architecture) -> Architecture:
    """Return an architecture whose positions are learned, as their table shows, with a note about it."""
    return replace(architecture, positions="learned", notes=(*architecture.notes, say("no-sinusoid")))


def table_bytes(model: Model) -> int:
    """Return what checking a config against the table of positions costs, once."""
    architecture = model.architecture
    entry = architecture.find(Role.POSITION_EMBEDDING)
    if architecture.positions != "sinusoidal" or entry is None or model.index[entry.tensor].n_rows < _ROWS:
        return 0
    return model.cost([TensorSlice.rows(entry.tensor, 0, _ROWS)])
