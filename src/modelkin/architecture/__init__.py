"""What each tensor of a checkpoint is for: its role, its layout, and the space of each axis.

Families are data files (``data/*.toml``); `detect` finds the one that fits config, names and shapes. This
layer reads no tensor and uses no network: config and shapes come in, an `Architecture` goes out.
"""

from __future__ import annotations

from ._detect import detect
from ._fixed import is_fixed_table, looks_fixed
from ._result import Architecture, RoleEntry, Segment, UnknownTensor
from ._roles import Part, Role
