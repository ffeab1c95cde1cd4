"""The truth table of kinship at realistic sizes: rows of the zoo's Llamas and Mixtrals, on drawn models."""

from __future__ import annotations

from functools import cache

from tests.comparison.relation import Family, Relation
from tests.comparison.relations_arithmetic import rows_of
from tests.scale.lifelike import GROWN, LIFELIKE

_WHOLE = ("width 256", "width 1,024")
CHOSEN = {
    "width 4,096": (
        "one-layer",
        "only-norms",
        "third-of-layers",
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
    "width 4,096, 2 layers": (
        "only-embeddings",
        "only-mlps",
        "new-attention",
        "residual-signs of a copy",
        "residual-rotation of a copy",
        "folded-gains of a copy",
        "inserted-gains of a copy",
        "residual-scale of a copy",
        "unit-scales of a copy",
        "unit-signs of a copy",
        "head-scales of a copy",
        "rope-pairs of a copy",
        "mixed-values of a copy",
        "tokens of a copy",
        "doubled-layers of a copy",
        "pruned-units of a copy",
        "new-embeddings of a copy",
        "more-tokens of a copy",
        "padded-tokens of a copy",
        "pruned-scrambled-residual of a copy",
        "idle-layer of a copy",
        "fewer-heads of a copy",
        "tuned-units-int8",
        "heavy-rotated",
        "scaled-signed-permuted",
        "pruned-permuted-int4",
    ),
    "width 5,120": (
        "only-mlps",
        "units of a copy",
        "residual-rotation of a copy",
        "depth-up of a copy",
        "tuned-units-heads-residual-int8",
    ),
    "64 experts": (
        "one-layer",
        "only-mlps",
        "experts of a copy",
        "units of a copy",
        "residual-permutation of a copy",
        "rotation-and-gains of a copy",
        "pruned-units of a copy",
        "tuned-units-heads-residual-int8",
        "everything",
    ),
    "8 experts, width 4,096": (
        "one-layer",
        "only-mlps",
        "experts of a copy",
        "units of a fine-tune",
        "residual-permutation of a copy",
        "pruned-units of a copy",
        "tuned-units-heads-int8",
    ),
    "64 experts, width 2,048": (
        "experts of a fine-tune",
        "units of a copy",
        "rotation-and-gains of a copy",
        "pruned-units of a copy",
        "tuned-units-heads-int8",
    ),
    "256 experts, width 1,024": (
        "only-mlps",
        "experts of a fine-tune",
        "units of a copy",
        "residual-permutation of a copy",
        "tuned-units-heads-int8",
    ),
    "96 layers": (
        "one-layer",
        "third-of-layers",
        "units of a copy",
        "rotation-and-gains of a copy",
        "removed-layer of a copy",
        "depth-up of a copy",
        "tuned-units-heads-residual-int8",
    ),
    "256 k tokens": (
        "only-embeddings",
        "new-embeddings of a copy",
        "more-tokens of a copy",
        "residual-permutation of a copy",
        "rotation-and-gains of a copy",
        "tuned-units-heads-residual-int8",
    ),
}
"""Where a row takes a minute, or one size is beyond the others: at least one of each kind of change that may
depend on it, and the hardest. At width 4,096 every change is in one of both sizes (test_relatives.py)."""


def family_at(key: str) -> Family:
    """Return the family of drawn models of a size."""
    size = GROWN[key]
    inner = {"experts", "router"} if size.experts else {"mlp"}
    return Family(
        base=f"{LIFELIKE}{key}-base",
        tuned=f"{LIFELIKE}{key}-tuned",
        stranger=f"{LIFELIKE}{key}-stranger",
        components=frozenset({"embedding", "attention", "norms", "head"} | inner),
        n_layers=size.layers,
        fewer_units=size.units * 7 // 10,
        narrower=size.width * 3 // 4,
        per_group=size.heads // size.kv_heads // 2,
    )


@cache
def rows_at(key: str) -> tuple[Relation, ...]:
    """Return the rows of a size; those that are chosen where each takes long."""
    rows = rows_of(key, family_at(key))
    if key in _WHOLE:
        return tuple(rows)
    return tuple(row for row in rows if row.name.removeprefix(f"{key}: ") in CHOSEN[key])
