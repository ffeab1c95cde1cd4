"""Effective gains: what is stored may be the gain itself or its difference from one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Architecture, Role, RoleEntry
from modelkin.tensors import Array, TensorSlice

_READ_BY = {
    Role.MLP_GATE: Role.MLP_NORM,
    Role.MLP_UP: Role.MLP_NORM,
    Role.EXPERT_GATE: Role.MLP_NORM,
    Role.EXPERT_UP: Role.MLP_NORM,
    Role.SHARED_EXPERT_GATE: Role.MLP_NORM,
    Role.SHARED_EXPERT_UP: Role.MLP_NORM,
    Role.ROUTER: Role.MLP_NORM,
    Role.ATTENTION_KEY: Role.ATTENTION_NORM,
    Role.ATTENTION_VALUE: Role.ATTENTION_NORM,
}
"""Tensors that read the residual stream, and the norm in front of them."""


def acting_gain(values: Array, architecture: Architecture) -> npt.NDArray[np.float32]:
    """Return the factor that a stored gain stands for (Gemma stores the difference from one)."""
    gain = np.asarray(values, dtype=np.float32)
    return gain + np.float32(1) if architecture.norm == "rms-one-plus" else gain


def gain_before(architecture: Architecture, entry: RoleEntry) -> RoleEntry | None:
    """Return the norm gain that multiplies the input of a reader of the residual stream, if there is one.

    Folding it into the reader removes a freedom: a factor can be moved between the two at will.
    """
    norm = _READ_BY.get(entry.role)
    if norm is None:
        return None
    return architecture.find(norm, layer=entry.layer, stack=entry.stack)


def gain_slices(entry: RoleEntry | None) -> tuple[TensorSlice, ...]:
    """Return the slices that read a gain: one, or none."""
    return () if entry is None else (TensorSlice.whole(entry.tensor),)
