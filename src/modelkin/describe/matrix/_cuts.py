"""The truncation test: whether a smaller tensor is a part of a larger one, as pruning would leave it.

Two forms. `prefix`: the first rows (or columns). `groups`: the first heads of each group of heads that share
a key, which is what pruning a model with grouped queries keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelkin.architecture import Segment

from ._views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A way to cut a larger tensor to the shape of a smaller one."""

    name: str
    """``prefix`` or ``groups``."""
    segment: Segment
    note: str


def cuts(
    small: View,
    large: View,
    *,
    spaces: tuple[tuple[str, ...], ...],
    small_sizes: Mapping[str, int],
    large_sizes: Mapping[str, int],
) -> Iterator[Cut] | str:
    """Return the ways to cut `large` to the shape of `small`, or why there is none.

    Parameters
    ----------
    small, large
        The tensors.
    spaces
        What the axes of the larger tensor are, in the order of the file.
    small_sizes, large_sizes
        Sizes of both models: numbers of heads and of key heads.
    """
    if large.segment is not None or small.transposed != large.transposed:
        return "parts of fused tensors and tensors of different layout are not cut"
    mine, theirs = small.stored_shape, large.stored_shape
    different = [axis for axis, sizes in enumerate(zip(mine, theirs, strict=False)) if sizes[0] != sizes[1]]
    if len(mine) != len(theirs) or len(different) != 1:
        return "more than one axis differs"
    axis = different[0]
    return _cuts(axis, mine[axis], theirs[axis], _groups(spaces[axis], small_sizes, large_sizes))


def _cuts(axis: int, mine: int, theirs: int, groups: tuple[int, int, int] | None) -> Iterator[Cut]:
    what = "rows" if axis == 0 else "columns"
    whole = Segment(axis=axis, offset=0, length=mine, stride=mine, n_groups=1)
    yield Cut(name="prefix", segment=whole, note=f"the first {mine:,} of {theirs:,} {what}")
    if groups is None:
        return
    n_groups, kept, there = groups
    length, stride = mine // n_groups, theirs // n_groups
    if n_groups > 1 and length * there == stride * kept:
        segment = Segment(axis=axis, offset=0, length=length, stride=stride, n_groups=n_groups)
        note = f"the first {kept} of {there} heads in each of {n_groups} groups"
        yield Cut(name="groups", segment=segment, note=note)


def _groups(
    spaces: tuple[str, ...], small: Mapping[str, int], large: Mapping[str, int]
) -> tuple[int, int, int] | None:
    """Return number of groups, and heads of a group in both models; None where that makes no sense."""
    n_groups = large.get("kv_heads", 0)
    heads = small.get("heads", 0), large.get("heads", 0)
    if spaces[:1] != ("heads",) or not n_groups or small.get("kv_heads") != n_groups:
        return None
    if heads[0] % n_groups or heads[1] % n_groups or not heads[0] or heads[0] == heads[1]:
        return None
    return n_groups, heads[0] // n_groups, heads[1] // n_groups
