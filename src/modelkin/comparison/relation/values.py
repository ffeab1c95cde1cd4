"""What became of the values, all tensors together: copied, rounded, quantised, pruned, adapted, trained."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from modelkin.message import say

from .result import RelationFinding, TensorChange, Word
from .turned import Turn

Numbers = dict[str, float | int | str]

_NEARLY_ALL = 0.8
"""Share of changed matrices with one word that names the whole: small matrices may look otherwise."""
_MOSTLY = 0.9
"""Up to this share of quantised matrices the others tell what was done before the model was quantised."""
_SAME_DIRECTION = 0.9
"""Cosine of directions of several layers that count as one. In 100 dimensions chance stays below 0.5."""
_TWO_OF_FOUR = 0.99
"""Share of fours with two zeros or more from which a matrix was pruned in that pattern. Pruning half of all
at random leaves it in 11 of 16."""
_LOST_IN_STORING = 0.5
"""Changes smaller than this many steps are mostly not seen: half a step moves a number to the next."""
MATRIX_PARTS = ("attention", "mlp", "experts", "router", "embedding", "head", "positions", "other")
_KINDS: dict[Word, str] = {
    "quantised": "quantised-copy",
    "sparse": "sparse-copy",
    "low-rank": "low-rank",
    "noise": "noise",
}
"""What became of nearly all matrices that changed -> kind."""
_UNCHANGED = ("equal", "rounded", "rescaled", "mixed", "turned")


def kind_of_values(changes: Sequence[TensorChange]) -> str:
    """Name what became of the values of the matrices that have a counterpart; ``unknown`` if nothing fits."""
    matrices = [
        item
        for item in changes
        if item.rank_most is not None or item.what not in ("trained", "changed", "unlike")
    ]
    matrices = [item for item in matrices if item.component in MATRIX_PARTS and not _is_vector(item)]
    changed = [item for item in matrices if item.what not in (*_UNCHANGED, "unlike")]
    if not changed:
        return _unchanged(changes, matrices)
    words = Counter(item.what for item in changed)
    if words["quantised"] <= _MOSTLY * len(changed):
        # Levels alone tell how the model was stored, not what was done before.
        changed = [item for item in changed if item.what != "quantised"]
        words = Counter(item.what for item in changed)
    for word, kind in _KINDS.items():
        # Small matrices say little about directions, so a few may look different.
        if words[word] >= _NEARLY_ALL * len(changed):
            return kind
    # Models begun from the same random numbers still have some matrices that changed little enough.
    beyond = sum(item.what == "changed" and not _is_vector(item) for item in changes)
    return "fine-tune" if words["trained"] > beyond else "unknown"


def _unchanged(changes: Sequence[TensorChange], matrices: Sequence[TensorChange]) -> str:
    if not matrices or any(item.what == "unlike" and not _is_vector(item) for item in changes):
        return "unknown"  # what the others are says nothing about the whole
    vectors = [item.what for item in changes if _is_vector(item)]
    factors = any(item.what in ("rescaled", "mixed", "turned") for item in matrices)
    if "changed" in vectors and not factors:
        return "fine-tune"  # only gains and biases were trained
    return "precision-copy" if any(item.what == "rounded" for item in matrices) else "copy"


def _is_vector(item: TensorChange) -> bool:
    return item.component == "norms" or item.role.endswith("_bias")


def findings_of_values(
    kind: str, changes: Sequence[TensorChange], directions: float | None, turn: Turn | None = None
) -> list[RelationFinding]:
    """Return what the values say, each with its numbers, including tensors that changed unlike most.

    Parameters
    ----------
    kind
        Of the change.
    changes
        What became of each tensor.
    directions
        Least cosine between single directions of change, over layers.
    turn
        The map that the candidate's weights were rotated by first, if they were.
    """
    found: list[RelationFinding] = []
    by_word: dict[str, list[TensorChange]] = {}
    for item in changes:
        if item.component in MATRIX_PARTS and not _is_vector(item):
            by_word.setdefault(item.what, []).append(item)
    if same := [item for item in changes if kind in ("copy", "precision-copy") and item.what in _UNCHANGED]:
        found.append(_finding(kind, {"tensors": len(same)}, n=len(same)))
    if rescaled := [*by_word.get("rescaled", ()), *by_word.get("mixed", ())]:
        found.append(
            _finding("rescaled", {"tensors": len(rescaled)}, n=len(rescaled), parts=_parts(rescaled))
        )
    if first := [item for item in changes if item.refitted and item.what in _KINDS]:
        found.append(_finding("rescaled-first", {"tensors": len(first)}, n=len(first), parts=_parts(first)))
    if any(item.reordered for item in changes):
        found.append(_finding("reordered", {"tensors": sum(item.reordered for item in changes)}))
    if turn is not None:
        known: Numbers = {"rows": turn.n_rows, "error": turn.error}
        found.append(_finding("turned", known, n=turn.n_rows, error=turn.error))
    found += _levels(kind, changes)
    if sparse := by_word.get("sparse"):
        found.append(_sparse(sparse))
    if kind == "noise":
        found.append(_noise(by_word["noise"]))
    if kind == "low-rank":
        found += _low_rank(by_word["low-rank"], directions)
    if kind == "fine-tune":
        found += _trained(changes, by_word)
    found += _frozen(changes)
    return found


def _levels(kind: str, changes: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say on which levels numbers lie, whatever else became of them."""
    coded = [item for item in changes if item.bits is not None]
    if not coded or len(coded) < 2:
        return
    bits = statistics.mode(item.bits for item in coded if item.bits is not None)
    alike = [item for item in coded if item.bits == bits]
    group = statistics.mode(item.group for item in alike if item.group is not None)
    levels = statistics.mode(str(item.levels) for item in alike)
    numbers: Numbers = {"bits": bits, "group": group, "levels": levels, "tensors": len(coded)}
    name = "quantised-copy" if kind == "quantised-copy" else "on-levels"
    yield _finding(name, numbers, n=len(coded), bits=bits, group=group, levels=say(f"levels.{levels}"))


def _sparse(sparse: Sequence[TensorChange]) -> RelationFinding:
    zeros = statistics.fmean(item.zeros for item in sparse)
    kept = statistics.fmean(item.kept_equal or 0.0 for item in sparse)
    fours = [item.two_of_four for item in sparse if item.two_of_four is not None]
    pattern = bool(fours) and min(fours) >= _TWO_OF_FOUR
    numbers: Numbers = {"zeros": zeros, "kept_equal": kept, "tensors": len(sparse)}
    if fours:
        numbers["two_of_four"] = statistics.fmean(fours)
    return _finding(
        "sparse-two-of-four" if pattern else "sparse-copy", numbers, n=len(sparse), zeros=zeros, kept=kept
    )


def _noise(noisy: Sequence[TensorChange]) -> RelationFinding:
    over = max(item.over_chance or 0.0 for item in noisy)
    edge = statistics.median(item.over_marchenko_pastur or 0.0 for item in noisy)
    size = statistics.median(item.relative_change for item in noisy)
    numbers: Numbers = {
        "over_chance": over,
        "over_marchenko_pastur": edge,
        "relative_change": size,
        "tensors": len(noisy),
    }
    return _finding("noise", numbers, n=len(noisy), over=over, edge=edge, size=size)


def _low_rank(adapted: Sequence[TensorChange], directions: float | None) -> Iterable[RelationFinding]:
    ranks = [item.rank for item in adapted if item.rank is not None]
    left = max(item.left_in_steps or 0.0 for item in adapted)
    roles = sorted({item.role for item in adapted})
    numbers: Numbers = {
        "rank": statistics.mode(ranks),
        "lowest_rank": min(ranks),
        "highest_rank": max(ranks),
        "left_in_steps": left,
        "tensors": len(adapted),
        "modules": ", ".join(roles),
    }
    yield _finding(
        "low-rank",
        numbers,
        n=len(adapted),
        rank=statistics.mode(ranks),
        low=min(ranks),
        high=max(ranks),
        roles=tuple(roles),
        left=left,
    )
    if directions is not None and directions >= _SAME_DIRECTION and max(ranks) <= 2:
        yield _finding("common-direction", {"cosine": directions, "tensors": len(adapted)}, cosine=directions)


def _trained(
    changes: Sequence[TensorChange], by_word: dict[str, list[TensorChange]]
) -> Iterable[RelationFinding]:
    trained = by_word.get("trained") or [
        item for item in changes if item.what == "changed" and _is_vector(item)
    ]
    size = statistics.median(item.relative_change for item in trained)
    over = [item.over_chance for item in trained if item.over_chance is not None]
    left = [item.left_in_steps for item in trained if item.left_in_steps is not None]
    numbers: Numbers = {"relative_change": size, "tensors": len(trained)}
    if over and left:
        numbers |= {"over_chance": statistics.median(over), "left_in_steps": statistics.median(left)}
    # Gains and biases have no directions to speak of.
    name = "fine-tune" if "trained" in by_word else "gains-trained"
    yield _finding(name, numbers, n=len(trained), size=size)
    steps = statistics.median(item.change_in_steps for item in trained)
    if steps < _LOST_IN_STORING:
        resolution = statistics.median(item.resolution for item in trained)
        lost: Numbers = {"change_in_steps": steps, "resolution": resolution}
        yield _finding("below-resolution", lost, steps=steps, resolution=resolution)
    yield from _by_depth(trained)


def _by_depth(trained: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say where the change is large, in matrices only: gains have another resolution."""
    layers = sorted({item.layer for item in trained if item.layer is not None})
    if len(layers) < 3:
        return
    third = max(1, len(layers) // 3)
    sizes = [
        statistics.median(item.relative_change for item in trained if item.layer in part)
        for part in (layers[:third], layers[-third:])
    ]
    numbers: Numbers = {"first_layers": sizes[0], "last_layers": sizes[1], "layers": len(layers)}
    yield _finding("by-depth", numbers, first=sizes[0], last=sizes[1])


def _frozen(changes: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Return the roles that did not change at all, if others did."""
    still: dict[str, bool] = {}
    for item in changes:
        still[item.role] = still.get(item.role, True) and item.what == "equal"
    frozen = [role for role, equal in still.items() if equal]
    if frozen and len(frozen) < len(still):
        values = sum(item.values for item in changes if item.role in frozen)
        numbers: Numbers = {"values_equal": values, "modules": ", ".join(sorted(frozen))}
        yield _finding("frozen", numbers, roles=tuple(sorted(frozen)), n=values)


def _parts(changes: Iterable[TensorChange]) -> tuple[str, ...]:
    return tuple(sorted({item.role for item in changes}))


def _finding(kind: str, numbers: Numbers, **values: object) -> RelationFinding:
    return RelationFinding(
        kind=kind,
        what=say(f"found.{kind}", **values),  # type: ignore[arg-type]
        numbers=numbers,
        cannot_tell=say(f"cannot.{kind}"),
    )
