"""Which part of a model a tensor belongs to, for the few families that the lab trains.

The lab makes these models itself, so names are enough; models from elsewhere are read by
`modelkin.architecture`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

__all__ = ["PARTS", "Part", "layer_of", "part_of"]

Part = Literal["embeddings", "head", "norms", "attention", "mlp"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

# The first pattern that is found decides: `attn.c_proj` before `mlp`, norms before everything.
_PATTERNS: Final[tuple[tuple[Part, str], ...]] = (
    ("norms", r"norm|\bln_"),
    ("head", r"^lm_head\.|^cls\."),
    ("embeddings", r"embed|\bwte\.|\bwpe\."),
    ("attention", r"attn|attention"),
    ("mlp", r"mlp|block_sparse_moe|intermediate|\boutput\."),
)


def part_of(name: str) -> Part:
    """Return the part of a tensor; raise ValueError for a name no family of the lab has."""
    for part, pattern in _PATTERNS:
        if re.search(pattern, name, flags=re.IGNORECASE):
            return part
    raise ValueError(f"name must be a tensor of a family that the lab trains, got {name!r}")


def layer_of(name: str) -> int | None:
    """Return the number of the layer a tensor is in, None outside of the layers."""
    found = re.search(r"\b(?:layers|layer|h)\.(\d+)\.", name)
    return int(found[1]) if found else None
