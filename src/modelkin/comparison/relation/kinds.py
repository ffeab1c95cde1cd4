"""What all changes together are called: the kind, if they agree on one."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from .measure import KEPT
from .result import TensorChange, Word

_NEARLY_ALL = 0.8
"""Share of changed matrices with one word that names the whole: small matrices may look otherwise."""
_MOSTLY = 0.9
"""Up to this share of quantised matrices the others tell what was done before the model was quantised."""
_MADE_UP = 1.3
"""Largest singular value of what quantising left, over that of random signs, in the median of all matrices,
above which it was not quantising alone. GPTQ on correlated inputs leaves 1.0 to 1.24; fine-tunes and adapters
that were put on 4-bit levels leave 1.4 to 2.5."""
_NO_COARSER = 1.5
"""Size of what looks like noise, over that of what levels left in most other matrices, up to which it may be
rounding to such levels: those of small groups are as close together as the steps of BF16."""
_UNRESOLVED = 1.15
"""Steps of the number format, up to which rounding to levels leaves no trace of them: a step is a quarter of
a level then (over the square root of twelve), as `find_lattice` asks for at most."""
_COARSEST = 2.0**-7
"""Steps of BF16, relative to numbers, at most: larger ones are those of a rotation that was undone, where
levels are found as the numbers are stored."""
_LEAST_ROUNDED = 0.0045
"""Size of what rounding to levels of 8 bits leaves, relative to the weights: 0.005 in groups of 16, the
smallest in which so many levels are searched for. It was 0.003, until held-out rows with noise of
0.004 were not told from levels."""
MATRIX_PARTS = ("attention", "mlp", "experts", "router", "embedding", "head", "positions", "other")
KINDS: dict[Word, str] = {
    "quantised": "quantised-copy",
    "sparse": "sparse-copy",
    "low-rank": "low-rank",
    "noise": "noise",
}
"""What became of nearly all matrices that changed -> kind."""
_COPIES = ("copy", "precision-copy", "quantised-copy", "sparse-copy")
UNCHANGED = ("equal", "rounded", "rescaled", "mixed", "turned")


def kind_of_values(changes: Sequence[TensorChange]) -> str:
    """Name what became of the values of the matrices that have a counterpart; ``unknown`` if nothing fits."""
    kind = _kind_of_values(changes)
    # What computes something else is no copy, and no kind has a name for factors or single values.
    if kind == "noise" and may_be_levels(changes):
        return "unknown"
    altered = kind in _COPIES and any(item.what in ("scaled", "edited") for item in changes)
    return "unknown" if altered else kind


def _kind_of_values(changes: Sequence[TensorChange]) -> str:
    matrices = [
        item
        for item in changes
        if item.rank_most is not None or item.what not in ("trained", "changed", "unlike")
    ]
    matrices = [item for item in matrices if item.component in MATRIX_PARTS and not is_vector(item)]
    changed = [item for item in matrices if item.what not in (*UNCHANGED, "scaled", "unlike")]
    if not changed:
        return _unchanged(changes, matrices)
    left_out = [*too_small(changed), *on_finer_levels(changed)]
    changed = [item for item in changed if item not in left_out]
    words = Counter(item.what for item in changed)
    coded, thinned = rounded_to_levels(changed), thinned_and_changed(changed)
    if len(coded) <= _MOSTLY * len(changed):
        # Levels alone tell how the model was stored, not what was done before.
        changed = [item for item in changed if item.what != "quantised"]
        words = Counter(item.what for item in changed)
        if is_made_up(coded) and words["low-rank"] > words["trained"]:
            return "unknown"  # training that hardly rises above levels has few directions that do
    elif _trained_beside(changed, coded):
        return "fine-tune"
    elif is_made_up(coded):
        return "unknown"  # of a quantiser that makes up for its errors, and of training before it
    if len(thinned) >= _NEARLY_ALL * len(changed) or (thinned and _trained_beside(changed, thinned)):
        return "fine-tune" if _trained_beside(changed, thinned) else "unknown"
    for word, kind in KINDS.items():
        # Small matrices say little about directions, so a few may look different.
        if words[word] >= _NEARLY_ALL * len(changed):
            return kind
    # Models begun from the same random numbers still have some matrices that changed little enough.
    beyond = sum(item.what == "changed" and not is_vector(item) for item in changes)
    return "fine-tune" if words["trained"] > beyond else "unknown"


def rounded_to_levels(changed: Sequence[TensorChange]) -> list[TensorChange]:
    """Return what was put on levels."""
    return [item for item in changed if item.what == "quantised"]


def on_finer_levels(changed: Sequence[TensorChange]) -> list[TensorChange]:
    """Return what looks like noise beside levels in most matrices, and is no larger than what these left."""
    coded = rounded_to_levels(changed)
    if not coded:
        return []
    most = _NO_COARSER * statistics.median(item.relative_change for item in coded)
    found = [item for item in changed if item.what == "noise" and item.relative_change <= most]
    return found if len(found) < len(coded) else []


def may_be_levels(changes: Sequence[TensorChange]) -> bool:
    """Say whether what looks like noise is of the size of levels that the number format does not resolve."""
    noisy = [item for item in changes if item.what == "noise" and not is_vector(item)]
    if not noisy:
        return False
    steps, size, resolution = (
        statistics.median(getattr(item, name) for item in noisy)
        for name in ("change_in_steps", "relative_change", "resolution")
    )
    return bool(steps <= _UNRESOLVED and size >= _LEAST_ROUNDED and resolution <= _COARSEST)


def thinned_and_changed(changed: Sequence[TensorChange]) -> list[TensorChange]:
    """Return what has zeros, and other numbers that changed too."""
    return [item for item in changed if item.what == "sparse" and (item.kept_equal or 0.0) < KEPT]


def _trained_beside(changed: Sequence[TensorChange], treated: Sequence[TensorChange]) -> bool:
    """Say whether matrices of other roles were trained: levels or zeros came after that."""
    roles = {item.role for item in treated}
    others = [item for item in changed if item.role not in roles]
    return sum(item.what == "trained" for item in others) > len(others) / 2


def is_made_up(coded: Sequence[TensorChange]) -> bool:
    """Say whether what levels left has more structure than rounding to them leaves."""
    over = [item.over_chance for item in coded if item.over_chance is not None]
    return bool(over) and statistics.median(over) > _MADE_UP


def too_small(changed: Sequence[TensorChange]) -> list[TensorChange]:
    """Return matrices in which fewer directions can be counted than the change of most others has."""
    ranks = [item.rank for item in changed if item.what == "low-rank" and item.rank is not None]
    if not ranks:
        return []
    usual = statistics.mode(ranks)
    small = [
        item
        for item in changed
        if item.what not in ("low-rank", "quantised") and (item.rank_most or usual) < usual
    ]
    return small if len(small) <= len(ranks) else []


def _unchanged(changes: Sequence[TensorChange], matrices: Sequence[TensorChange]) -> str:
    if not matrices or any(item.what == "unlike" and not is_vector(item) for item in changes):
        return "unknown"  # what the others are says nothing about the whole
    vectors = [item.what for item in changes if is_vector(item)]
    factors = any(item.what in ("rescaled", "mixed", "turned", "scaled") for item in matrices)
    if "changed" in vectors and not factors:
        return "fine-tune"  # only gains and biases were trained
    return "precision-copy" if any(item.what == "rounded" for item in matrices) else "copy"


def is_vector(item: TensorChange) -> bool:
    """Say whether a tensor holds gains or biases."""
    return item.component == "norms" or item.role.endswith("_bias")
