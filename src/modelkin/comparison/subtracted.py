"""How much of a model changed where it was subtracted: what declared relations are checked by."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from modelkin.architecture import Architecture
from modelkin.comparison.relation import TensorChange

_TABLES = ("embedding", "head")
_UNCHANGED = ("equal", "rounded", "rescaled", "mixed", "turned")
"""What a tensor is that differs by its format, factors or coordinates alone."""
_HIGHEST_RANK = 128
"""Directions of an adapter: common ones have 8 to 64. A matrix that was read whole was searched for a third
of its directions: an adapter of more has two thirds of the matrix's numbers."""
_NEARLY_ALL = 0.8
"""Share of a part's tensors from which nearly all of it changed; small matrices may look otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """How many of some tensors changed by more than their format, factors and coordinates."""

    n: int
    changed: int

    @property
    def nearly_all(self) -> bool:
        """Whether there are any, and nearly all of them changed."""
        return self.changed >= _NEARLY_ALL * self.n > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtracted:
    """What was subtracted of two relatives, and how much of it changed."""

    layers: int
    """Layers of the candidate of which something was subtracted."""
    of_layers: int
    """Layers that it has."""
    matrices: Changed
    """Of layers."""
    tables: Changed
    """Of tokens."""
    norms: Changed
    on_levels: int
    """Matrices whose numbers, on either side, lie on levels."""
    directions: int | None
    """Directions that were searched in the median of the changed matrices; None if in none."""
    beyond_adapters: int
    """Changed matrices whose change has more directions than adapters have."""
    structure: float | None
    """Largest singular value of what changed over that of random signs, in the median; None if not asked."""

    @property
    def has_every_layer(self) -> bool:
        """Whether something was subtracted of every layer."""
        return self.layers == self.of_layers


def subtracted(changes: Sequence[TensorChange], candidate: Architecture) -> Subtracted:
    """Sum up what became of tensors."""
    matrices = [item for item in changes if item.layer is not None and _is_matrix(item)]
    moved = [item for item in matrices if item.what not in _UNCHANGED]
    searched = [item.rank_most for item in moved if item.rank_most is not None]
    over = [item.over_chance for item in moved if item.over_chance is not None]
    return Subtracted(
        layers=len({item.layer for item in changes if item.layer is not None}),
        of_layers=candidate.n_layers,
        matrices=_changed(matrices),
        tables=_changed([item for item in changes if item.component in _TABLES]),
        norms=_changed([item for item in changes if item.component == "norms"]),
        on_levels=sum(item.bits is not None for item in changes),
        directions=statistics.median_low(searched) if searched else None,
        beyond_adapters=sum(_is_beyond_adapters(item) for item in moved),
        structure=statistics.median(over) if over else None,
    )


def _is_matrix(item: TensorChange) -> bool:
    return item.component != "norms" and not item.role.endswith("_bias")


def _changed(items: Sequence[TensorChange]) -> Changed:
    return Changed(n=len(items), changed=sum(item.what not in _UNCHANGED for item in items))


def _is_beyond_adapters(item: TensorChange) -> bool:
    """Say whether all directions that an adapter could have were searched, and more are left."""
    if item.rank is not None or item.rank_most is None:
        return False
    return item.whole or item.rank_most >= _HIGHEST_RANK
