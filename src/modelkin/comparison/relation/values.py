"""What became of the values, all tensors together: copied, rounded, quantised, pruned, adapted, trained."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from modelkin.architecture import Role
from modelkin.message import Message, say

from .measure import KEPT
from .result import RelationFinding, Side, TensorChange, Word
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
_MADE_UP = 1.3
"""Largest singular value of what quantising left, over that of random signs, in the median of all matrices,
above which it was not quantising alone. GPTQ on correlated inputs leaves 1.0 to 1.24; fine-tunes and adapters
that were put on 4-bit levels leave 1.4 to 2.5."""
MATRIX_PARTS = ("attention", "mlp", "experts", "router", "embedding", "head", "positions", "other")
_KINDS: dict[Word, str] = {
    "quantised": "quantised-copy",
    "sparse": "sparse-copy",
    "low-rank": "low-rank",
    "noise": "noise",
}
"""What became of nearly all matrices that changed -> kind."""
_COPIES = ("copy", "precision-copy", "quantised-copy", "sparse-copy")
_UNCHANGED = ("equal", "rounded", "rescaled", "mixed", "turned")


def kind_of_values(changes: Sequence[TensorChange]) -> str:
    """Name what became of the values of the matrices that have a counterpart; ``unknown`` if nothing fits."""
    kind = _kind_of_values(changes)
    # What computes something else is no copy, and no kind has a name for factors or single values.
    altered = kind in _COPIES and any(item.what in ("scaled", "edited") for item in changes)
    return "unknown" if altered else kind


def _kind_of_values(changes: Sequence[TensorChange]) -> str:
    matrices = [
        item
        for item in changes
        if item.rank_most is not None or item.what not in ("trained", "changed", "unlike")
    ]
    matrices = [item for item in matrices if item.component in MATRIX_PARTS and not _is_vector(item)]
    changed = [item for item in matrices if item.what not in (*_UNCHANGED, "scaled", "unlike")]
    if not changed:
        return _unchanged(changes, matrices)
    small = _too_small(changed)
    changed = [item for item in changed if item not in small]
    words = Counter(item.what for item in changed)
    coded, thinned = _coded(changed), _thinned(changed)
    if len(coded) <= _MOSTLY * len(changed):
        # Levels alone tell how the model was stored, not what was done before.
        changed = [item for item in changed if item.what != "quantised"]
        words = Counter(item.what for item in changed)
        if _is_made_up(coded) and words["low-rank"] > words["trained"]:
            return "unknown"  # training that hardly rises above levels has few directions that do
    elif _trained_beside(changed, coded):
        return "fine-tune"
    elif _is_made_up(coded):
        return "unknown"  # of a quantiser that makes up for its errors, and of training before it
    if len(thinned) >= _NEARLY_ALL * len(changed) or (thinned and _trained_beside(changed, thinned)):
        return "fine-tune" if _trained_beside(changed, thinned) else "unknown"
    for word, kind in _KINDS.items():
        # Small matrices say little about directions, so a few may look different.
        if words[word] >= _NEARLY_ALL * len(changed):
            return kind
    # Models begun from the same random numbers still have some matrices that changed little enough.
    beyond = sum(item.what == "changed" and not _is_vector(item) for item in changes)
    return "fine-tune" if words["trained"] > beyond else "unknown"


def _coded(changed: Sequence[TensorChange]) -> list[TensorChange]:
    return [item for item in changed if item.what == "quantised"]


def _thinned(changed: Sequence[TensorChange]) -> list[TensorChange]:
    """Return what has zeros, and other numbers that changed too."""
    return [item for item in changed if item.what == "sparse" and (item.kept_equal or 0.0) < KEPT]


def _trained_beside(changed: Sequence[TensorChange], treated: Sequence[TensorChange]) -> bool:
    """Say whether matrices of other roles were trained: levels or zeros came after that."""
    roles = {item.role for item in treated}
    others = [item for item in changed if item.role not in roles]
    return sum(item.what == "trained" for item in others) > len(others) / 2


def _is_made_up(coded: Sequence[TensorChange]) -> bool:
    """Say whether what levels left has more structure than rounding to them leaves."""
    over = [item.over_chance for item in coded if item.over_chance is not None]
    return bool(over) and statistics.median(over) > _MADE_UP


def _too_small(changed: Sequence[TensorChange]) -> list[TensorChange]:
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
    if not matrices or any(item.what == "unlike" and not _is_vector(item) for item in changes):
        return "unknown"  # what the others are says nothing about the whole
    vectors = [item.what for item in changes if _is_vector(item)]
    factors = any(item.what in ("rescaled", "mixed", "turned", "scaled") for item in matrices)
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
    found += _equal_otherwise(changes, by_word)
    if first := [item for item in changes if item.refitted and item.what in _KINDS]:
        found.append(_finding("rescaled-first", {"tensors": len(first)}, n=len(first), parts=_parts(first)))
    if any(item.reordered for item in changes):
        found.append(_finding("reordered", {"tensors": sum(item.reordered for item in changes)}))
    if turn is not None:
        known: Numbers = {"rows": turn.n_rows, "error": turn.error}
        found.append(_finding("turned", known, n=turn.n_rows, error=turn.error))
    found += _levels(kind, changes)
    found += _with_zeros(by_word.get("sparse", ()))
    if kind == "noise":
        found.append(_noise(by_word["noise"]))
    if kind == "low-rank":
        found += _low_rank(by_word["low-rank"], directions)
        found += _not_counted(_too_small([item for item in changes if item.what not in _UNCHANGED]))
    if kind == "fine-tune":
        found += _trained(changes, by_word)
    found += _frozen(changes)
    return found


def _levels(kind: str, changes: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say on which levels numbers lie, and whose, whatever else became of them."""
    coded = [item for item in changes if item.bits is not None]
    if not coded or len(coded) < 2:
        return
    bits = statistics.mode(item.bits for item in coded if item.bits is not None)
    alike = [item for item in coded if item.bits == bits]
    group = statistics.mode(item.group for item in alike if item.group is not None)
    levels = statistics.mode(str(item.levels) for item in alike)
    side = lost_in(coded) or "candidate"
    numbers: Numbers = {"bits": bits, "group": group, "levels": levels, "tensors": len(coded), "side": side}
    name = "quantised-copy" if kind == "quantised-copy" else "on-levels"
    code = f"{name}-base" if side == "base" else name
    yield RelationFinding(
        kind=name,
        what=say(f"found.{code}", n=len(coded), bits=bits, group=group, levels=say(f"levels.{levels}")),
        numbers=numbers,
        cannot_tell=say(f"cannot.{name}"),
    )
    quantised = _coded(changes)
    if quantised and kind != "quantised-copy" and _is_made_up(quantised):
        over = statistics.median(item.over_chance or 0.0 for item in quantised)
        made: Numbers = {"over_chance": over, "tensors": len(quantised)}
        yield _finding("levels-made-up", made, n=len(quantised), over=over)


def lost_in(changes: Sequence[TensorChange]) -> Side | None:
    """Return the side that lost numbers to levels or zeros, if it is the same one in all that lost any."""
    sides = {item.lost_in for item in changes if item.lost_in is not None}
    return sides.pop() if len(sides) == 1 else None


def _with_zeros(sparse: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say where zeros are, apart for what else became of the other numbers."""
    thinned = _thinned(sparse)
    if kept := [item for item in sparse if item not in thinned]:
        yield _sparse(kept)
    if thinned:
        yield _zeros(thinned)


def _sparse(sparse: Sequence[TensorChange]) -> RelationFinding:
    side = lost_in(sparse) or "candidate"
    zeros = statistics.fmean(_zeros_of(item, side) for item in sparse)
    kept = statistics.fmean(item.kept_equal or 0.0 for item in sparse)
    fours = [item.two_of_four for item in sparse if item.two_of_four is not None]
    pattern = bool(fours) and min(fours) >= _TWO_OF_FOUR
    numbers: Numbers = {"zeros": zeros, "kept_equal": kept, "tensors": len(sparse), "side": side}
    if fours:
        numbers["two_of_four"] = statistics.fmean(fours)
    name = "sparse-two-of-four" if pattern else "sparse-copy"
    code = f"{name}-base" if side == "base" else name
    return RelationFinding(
        kind=name,
        what=say(f"found.{code}", n=len(sparse), zeros=zeros, kept=kept),
        numbers=numbers,
        cannot_tell=say(f"cannot.{name}"),
    )


def _zeros(thinned: Sequence[TensorChange]) -> RelationFinding:
    """Say that zeros were set and the other numbers changed too."""
    side = lost_in(thinned) or "candidate"
    zeros = statistics.fmean(_zeros_of(item, side) for item in thinned)
    other = statistics.fmean(
        _zeros_of(item, "base" if side == "candidate" else "candidate") for item in thinned
    )
    kept = statistics.fmean(item.kept_equal or 0.0 for item in thinned)
    numbers: Numbers = {"zeros": zeros, "kept_equal": kept, "tensors": len(thinned), "side": side}
    code = "zeros-base" if side == "base" else "zeros"
    return RelationFinding(
        kind="zeros",
        what=say(f"found.{code}", n=len(thinned), zeros=zeros, other=other, kept=kept),
        numbers=numbers,
        cannot_tell=say("cannot.zeros"),
    )


def _zeros_of(item: TensorChange, side: Side) -> float:
    return item.base_zeros if side == "base" else item.zeros


def _equal_otherwise(
    changes: Sequence[TensorChange], by_word: dict[str, list[TensorChange]]
) -> Iterable[RelationFinding]:
    """Say where factors, mixtures or a few values are all that differs."""
    if rescaled := [*by_word.get("rescaled", ()), *by_word.get("mixed", ())]:
        yield _finding("rescaled", {"tensors": len(rescaled)}, n=len(rescaled), parts=_parts(rescaled))
    if scaled := [item for item in changes if item.what == "scaled"]:
        yield _finding("scaled", {"tensors": len(scaled)}, n=len(scaled), parts=_parts(scaled))
    if edited := by_word.get("edited"):
        yield _edited(edited)


def _edited(edited: Sequence[TensorChange]) -> RelationFinding:
    """Say how many values were changed, and that all others were not."""
    compared = sum(item.values for item in edited)
    values = sum(round((1 - item.share_within_a_step) * item.values) for item in edited)
    numbers: Numbers = {"values": values, "share": values / compared, "tensors": len(edited)}
    return _finding(
        "edited", numbers, n=len(edited), values=values, compared=compared, share=values / compared
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
        roles=_role_names(roles),
        left=left,
    )
    if directions is not None and directions >= _SAME_DIRECTION and max(ranks) <= 2:
        yield _finding("common-direction", {"cosine": directions, "tensors": len(adapted)}, cosine=directions)


def _not_counted(small: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say which matrices did not count, since too few of their directions can be counted."""
    if small:
        most = max(item.rank_most or 0 for item in small)
        roles = sorted({item.role for item in small})
        numbers: Numbers = {"tensors": len(small), "rank_most": most, "modules": ", ".join(roles)}
        yield _finding("rank-not-counted", numbers, n=len(small), most=most, roles=_role_names(roles))


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
    if "trained" in by_word:
        searched = [item.rank_most for item in trained if item.rank_most is not None]
        numbers |= {"least_searched": min(searched, default=0), "most_searched": max(searched, default=0)}
        yield _finding(
            "fine-tune",
            numbers,
            n=len(trained),
            size=size,
            searched=_span(searched),
            most=max(searched, default=0),
        )
    else:
        yield _finding("gains-trained", numbers, n=len(trained), size=size)
    steps = statistics.median(item.change_in_steps for item in trained)
    if steps < _LOST_IN_STORING:
        resolution = statistics.median(item.resolution for item in trained)
        lost: Numbers = {"change_in_steps": steps, "resolution": resolution}
        yield _finding("below-resolution", lost, steps=steps, resolution=resolution)
    if "trained" in by_word:
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
    """Return the roles and the layers that did not change at all, if others did."""
    roles = _still(changes, lambda item: item.role)
    if roles:
        values = sum(item.values for item in changes if item.role in roles)
        numbers: Numbers = {"values_equal": values, "modules": ", ".join(sorted(roles))}
        yield _finding("frozen", numbers, roles=_role_names(sorted(roles)), n=values)
    inner = [item for item in changes if item.layer is not None]
    layers = _still(inner, lambda item: item.layer or 0)
    if layers:
        values = sum(item.values for item in inner if item.layer in layers)
        told = _runs(layers)
        held: Numbers = {"values_equal": values, "layers": told}
        yield _finding("frozen-layers", held, n=len(layers), values=values, layers=told)


Name = TypeVar("Name", int, str)


def _still(changes: Sequence[TensorChange], name: Callable[[TensorChange], Name]) -> list[Name]:
    """Return the names under which everything is equal, if that is not so under all."""
    still: dict[Name, bool] = {}
    for item in changes:
        still[name(item)] = still.get(name(item), True) and item.what == "equal"
    found = [key for key, equal in still.items() if equal]
    return found if len(found) < len(still) else []


def _runs(numbers: Sequence[int]) -> str:
    """Write numbers, neighbours as a range: ``0-2, 5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(_span(run) for run in runs)


def _span(numbers: Sequence[int]) -> str:
    if not numbers:
        return "0"
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def _role_names(roles: Iterable[str]) -> tuple[Message, ...]:
    """Return what roles are called in a sentence."""
    return tuple(
        say(f"role.{role}")
        if role in _ROLES
        else say("role-bias", role=say(f"role.{role.removesuffix('_bias')}"))
        for role in roles
    )


_ROLES = frozenset({*(role.value for role in Role), "unknown"})


def _parts(changes: Iterable[TensorChange]) -> tuple[Message, ...]:
    return _role_names(sorted({item.role for item in changes}))


def _finding(kind: str, numbers: Numbers, **values: object) -> RelationFinding:
    return RelationFinding(
        kind=kind,
        what=say(f"found.{kind}", **values),  # type: ignore[arg-type]
        numbers=numbers,
        cannot_tell=say(f"cannot.{kind}"),
    )
