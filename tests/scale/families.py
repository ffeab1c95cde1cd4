"""The truth table of kinship at realistic widths: the rows of the zoo's Llamas, on drawn models."""

from __future__ import annotations

from functools import cache

from tests.comparison.relation import Family, Relation
from tests.comparison.relations_arithmetic import rows_of
from tests.scale.lifelike import GROWN, LIFELIKE

_NARROW = (256, 1_024)
CHOSEN = {
    4_096: (
        "one-layer",
        "only-norms",
        "units of a copy",
        "heads of a copy",
        "residual-permutation of a copy",
        "rotation-and-gains of a copy",
        "pruned-scrambled-units of a copy",
        "pruned-residual of a copy",
        "removed-layer of a copy",
        "tuned-units-heads-int8",
        "tuned-units-heads-residual-int8",
        "everything",
    ),
    5_120: (
        "only-mlps",
        "units of a copy",
        "residual-rotation of a copy",
        "depth-up of a copy",
        "tuned-units-heads-residual-int8",
    ),
}
"""Where a row takes a minute: at least one of each kind of change, and the hardest."""


def family_at(width: int) -> Family:
    """Return the family of drawn models of a width."""
    size = GROWN[width]
    return Family(
        base=f"{LIFELIKE}{width}-base",
        tuned=f"{LIFELIKE}{width}-tuned",
        stranger=f"{LIFELIKE}{width}-stranger",
        components=frozenset({"embedding", "attention", "mlp", "norms", "head"}),
        n_layers=size.layers,
        fewer_units=size.units * 7 // 10,
        narrower=size.width * 3 // 4,
        per_group=size.heads // size.kv_heads // 2,
    )


@cache
def rows_at(width: int) -> tuple[Relation, ...]:
    """Return the rows of a width; those that are chosen where each takes long."""
    key = f"width {width:,}"
    rows = rows_of(key, family_at(width))
    if width in _NARROW:
        return tuple(rows)
    return tuple(row for row in rows if row.name.removeprefix(f"{key}: ") in CHOSEN[width])
