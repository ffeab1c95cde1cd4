"""What became of the values, all tensors together: copied, rounded, quantised, pruned, adapted, trained."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from modelkin.architecture import Role
from modelkin.message import Message, say

from .kinds import (
    KINDS,
    MATRIX_PARTS,
    UNCHANGED,
    is_made_up,
    is_vector,
    may_be_levels,
    on_finer_levels,
    rounded_to_levels,
    thinned_and_changed,
    too_small,
)
from .result import RelationFinding, Side, TensorChange
from .turned import Turn

Numbers = dict[str, float | int | str]

_SAME_DIRECTION = 0.9
"""Cosine of directions of several layers that count as one. In 100 dimensions chance stays below 0.5."""
_TWO_OF_FOUR = 0.99
"""Share of fours with two zeros or more from which a matrix was pruned in that pattern. Pruning half of all
at random leaves it in 11 of 16."""
_LOST_IN_STORING = 0.5
"""Changes smaller than this many steps are mostly not seen: half a step moves a number to the next."""


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
        if item.component in MATRIX_PARTS and not is_vector(item):
            by_word.setdefault(item.what, []).append(item)
    if same := [item for item in changes if kind in ("copy", "precision-copy") and item.what in UNCHANGED]:
        found.append(_finding(kind, {"tensors": len(same)}, n=len(same)))
    found += _equal_otherwise(changes, by_word)
    if first := [item for item in changes if item.refitted and item.what in KINDS]:
        found.append(_finding("rescaled-first", {"tensors": len(first)}, n=len(first), parts=_parts(first)))
    if any(item.reordered for item in changes):
        found.append(_finding("reordered", {"tensors": sum(item.reordered for item in changes)}))
    if turn is not None:
        known: Numbers = {"rows": turn.n_rows, "error": turn.error}
        found.append(_finding("turned", known, n=turn.n_rows, error=turn.error))
    found += _levels(kind, changes)
    found += _with_zeros(by_word.get("sparse", ()))
    found += _zeroed(changes)
    found += _like_noise(kind, changes, by_word.get("noise", ()))
    if kind == "low-rank":
        found += _low_rank(by_word["low-rank"], directions)
        found += _trained_as_well(by_word)
        found += _not_counted(too_small([item for item in changes if item.what not in UNCHANGED]))
    if kind == "fine-tune":
        found += _trained(changes, by_word)
    if kind == "unknown":
        found += _changed_otherwise(by_word)
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
    # Numbers beyond the outer of three levels may be further off than one.
    told = "quantised-copy-ternary" if (name, levels) == ("quantised-copy", "ternary") else name
    code = f"{told}-base" if side == "base" else told
    yield RelationFinding(
        kind=name,
        what=say(f"found.{code}", n=len(coded), bits=bits, group=group, levels=say(f"levels.{levels}")),
        numbers=numbers,
        cannot_tell=say(f"cannot.{name}"),
    )
    quantised = rounded_to_levels(changes)
    if quantised and kind != "quantised-copy" and is_made_up(quantised):
        over = statistics.median(item.over_chance or 0.0 for item in quantised)
        made: Numbers = {"over_chance": over, "tensors": len(quantised)}
        yield _finding("levels-made-up", made, n=len(quantised), over=over)


def lost_in(changes: Sequence[TensorChange]) -> Side | None:
    """Return the side that lost numbers to levels or zeros, if it is the same one in all that lost any."""
    sides = {item.lost_in for item in changes if item.lost_in is not None}
    return sides.pop() if len(sides) == 1 else None


def _with_zeros(sparse: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say where zeros are, apart for what else became of the other numbers."""
    thinned = thinned_and_changed(sparse)
    if kept := [item for item in sparse if item not in thinned]:
        yield _sparse(kept)
    if thinned:
        yield _zeros(thinned)


def _zeroed(changes: Sequence[TensorChange]) -> Iterable[RelationFinding]:
    """Say which matrices hold nothing but zeros on one side."""
    matrices = [item for item in changes if not is_vector(item)]
    for code, found in (
        ("zeroed", [item for item in matrices if item.zeros == 1.0 > item.base_zeros]),
        ("zeroed-base", [item for item in matrices if item.base_zeros == 1.0 > item.zeros]),
    ):
        if found:
            layers = _runs(sorted({item.layer for item in found if item.layer is not None}))
            yield RelationFinding(
                kind="zeroed",
                what=say(f"found.{code}", n=len(found), parts=_parts(found), layers=layers or "-"),
                numbers={
                    "tensors": len(found),
                    "layers": layers,
                    "side": "base" if code == "zeroed-base" else "candidate",
                },
                cannot_tell=say("cannot.zeroed"),
            )


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
    fours = [item.two_of_four for item in thinned if item.two_of_four is not None]
    numbers: Numbers = {"zeros": zeros, "kept_equal": kept, "tensors": len(thinned), "side": side}
    name = "zeros"
    if fours:
        numbers["two_of_four"] = statistics.fmean(fours)
        name = "zeros-two-of-four" if min(fours) >= _TWO_OF_FOUR else name
    code = f"{name}-base" if side == "base" else name
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


def _like_noise(
    kind: str, changes: Sequence[TensorChange], noisy: Sequence[TensorChange]
) -> Iterable[RelationFinding]:
    """Say what looks like noise, if it can be told from levels that are as fine as the number format."""
    if kind == "noise":
        yield _noise(noisy)
    elif kind == "quantised-copy" and (finer := on_finer_levels(changes)):
        yield _finding("levels-not-resolved", {"tensors": len(finer)}, n=len(finer), parts=_parts(finer))
    elif kind == "unknown" and may_be_levels(changes):
        others = [item for item in changes if item.what not in (*UNCHANGED, "noise") and not is_vector(item)]
        if len(others) >= len(noisy):
            return
        steps = statistics.median(item.change_in_steps for item in noisy)
        numbers: Numbers = {"change_in_steps": steps, "tensors": len(noisy)}
        yield _finding("noise-or-levels", numbers, n=len(noisy), steps=steps)


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


def _trained_as_well(by_word: dict[str, list[TensorChange]]) -> Iterable[RelationFinding]:
    """Say which other parts changed in more directions than few, beside a change of low rank."""
    roles = {item.role for item in by_word["low-rank"]}
    beside = [item for item in by_word.get("trained", ()) if item.role not in roles]
    if beside:
        size = statistics.median(item.relative_change for item in beside)
        numbers: Numbers = {
            "relative_change": size,
            "tensors": len(beside),
            "modules": ", ".join(sorted({item.role for item in beside})),
        }
        yield _finding("trained-beside", numbers, n=len(beside), parts=_parts(beside), size=size)


def _changed_otherwise(by_word: dict[str, list[TensorChange]]) -> Iterable[RelationFinding]:
    """Say which matrices changed in a way that has no name."""
    if changed := by_word.get("changed"):
        size = statistics.median(item.relative_change for item in changed)
        numbers: Numbers = {"relative_change": size, "tensors": len(changed)}
        yield _finding("changed", numbers, n=len(changed), parts=_parts(changed), size=size)


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
        item for item in changes if item.what == "changed" and is_vector(item)
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
