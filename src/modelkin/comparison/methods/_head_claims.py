"""Two configs that name different numbers of heads for attention of one shape: no shape says which is right.

A query matrix is as wide for 6 heads of 16 as for 12 of 8. If one model comes from the other, one of the two
numbers is wrong, and heads would be compared with parts of heads. So both models are read with the heads of
one config. If heads of one are parts of the other's, the smaller ones are taken: values inside them can be
renumbered whichever is right, so that tests are exact. Where these are too small for a test, the larger ones
are taken, which holds if that config is right. Where neither divides the other both are tried, and that is
corrected for like any two tests of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from modelkin.architecture import Architecture, RoleEntry
from modelkin.message import Message, say

from ._interface import Pair, Side

_SIZES = ("heads", "kv_heads", "heads_per_kv", "qk_dim", "v_dim")
_ENOUGH = 16
"""Values of a head whose orders are enough for a finding: 16! is 10^13."""
_Key = tuple[object, ...]


def head_views(pair: Pair, *, both: bool = False) -> tuple[Pair, ...]:
    """Return the pair as it is, or with the same heads in both models if their configs contradict each other.

    With `both`, either config is tried in any case: rotary positions turn whole heads, so that keys of a part
    of one are no head.
    """
    if not _contradict(pair):
        return (pair,)
    mine, theirs = pair.sides
    views = (
        replace(pair, base=_with_heads_of(theirs, mine)),
        replace(pair, candidate=_with_heads_of(mine, theirs)),
    )
    small, large = sorted(views, key=_head_size)
    if both or not _head_size(small) or _head_size(large) % _head_size(small):
        return views
    return (small,) if _head_size(small) >= _ENOUGH else (large,)


def told_heads(pair: Pair) -> tuple[Message, ...]:
    """Say that configs contradict each other, and which heads were assumed; nothing if they do not."""
    if not _contradict(pair):
        return ()
    n, m = (side.architecture.sizes.get("heads") for side in pair.sides)
    return (say("flag-heads", n=n, m=m, sizes=tuple(map(_head_size, head_views(pair)))),)


def _head_size(view: Pair) -> int:
    return view.base.architecture.sizes.get("v_dim", 0)


def _contradict(pair: Pair) -> bool:
    """Say whether attention has the same shapes in both models, and other heads.

    A model that names no heads contradicts nobody.
    """
    mine, theirs = (side.architecture for side in pair.sides)
    if not mine.is_known or mine.family != theirs.family or _heads(mine) == _heads(theirs):
        return False
    if _heads(mine).keys() != _heads(theirs).keys():
        return False
    held = [_attention(side.architecture) for side in pair.sides]
    shared = held[0].keys() & held[1].keys()
    return bool(shared) and all(
        pair.candidate.index[held[0][key].tensor].shape == pair.base.index[held[1][key].tensor].shape
        for key in shared
    )


def _heads(architecture: Architecture) -> dict[str, int]:
    return {name: architecture.sizes[name] for name in _SIZES if name in architecture.sizes}


def _attention(architecture: Architecture) -> Mapping[_Key, RoleEntry]:
    return {
        (entry.role, entry.part, entry.stack, entry.layer): entry
        for entry in architecture.tensors
        if entry.component == "attention"
    }


def _with_heads_of(side: Side, other: Side) -> Side:
    """Read a model with the heads of the other: their number, and where fused tensors are taken apart."""
    known = _attention(other.architecture)
    entries = tuple(
        replace(entry, segment=known[key].segment)
        if (key := (entry.role, entry.part, entry.stack, entry.layer)) in known
        and entry.component == "attention"
        else entry
        for entry in side.architecture.tensors
    )
    kept = {name: size for name, size in side.architecture.sizes.items() if name not in _SIZES}
    sizes = kept | _heads(other.architecture)
    return replace(side, architecture=replace(side.architecture, sizes=sizes, tensors=entries))
