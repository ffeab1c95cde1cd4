"""Are dimensions or units in another order than those of another model? Then places say nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.samples import facing, sites_of
from modelkin.model import Model
from modelkin.tensors import TensorInfo, TensorSlice

_ROWS = 64
"""Lines in which columns are compared: columns of strangers have cosines of 0.13 in them, the best of ten
thousand 0.5."""
_FOUND = 0.8
"""Cosine from which two columns are one: fine-tunes of the zoo keep 0.9, merges of them more."""
_NEARLY_ALL = 0.5
"""Share of the columns that are found, elsewhere or in place, so that there is an order at all."""
_MOVED = 0.2
"""Share of the columns that are found in another place, from which it is another order."""
_MOST_COLUMNS = 1_024
"""Columns that are looked for."""
SHOWN_BY = {"residual": ("embedding",), "units": ("mlp_down",), "heads": ("attention_output",)}
"""What may be in another order -> matrices whose columns show it, in rows that kept their places."""
Floats = NDArray[np.float32]


def reordered_spaces(
    candidate: Model, parent: Model, layers: Mapping[int, int], left: Mapping[tuple[str, int], float]
) -> tuple[str, ...]:
    """Return what is in another order: `residual`, or else `units` or `heads` of one layer.

    Where residual dimensions moved, units are not looked for: their lines moved too.

    Parameters
    ----------
    candidate, parent
        Two models.
    layers
        Which layer of the parent faces each layer of the candidate.
    left
        What is left unexplained of matrices, by module and layer: each order is looked for in the layer with
        most of it.
    """
    mine, theirs = sites_of(candidate), sites_of(parent)
    found = []
    for name, modules in SHOWN_BY.items():
        sites = [one for one in sorted(mine) if one.module in modules and one.part == "weight"]
        site = max(sites, key=lambda one: left.get((one.module, one.layer), 0.0), default=None)
        other = None if site is None else facing(site, theirs, layers.get(site.layer, site.layer))
        if site is None or other is None or not _comparable(mine[site], other):
            continue
        if _moved(_lines(candidate, mine[site]), _lines(parent, other)):
            found.append(name)
        if found == ["residual"]:
            break
    return tuple(found)


def _comparable(one: TensorInfo, other: TensorInfo) -> bool:
    return len(one.shape) == len(other.shape) == 2 and one.shape[1] == other.shape[1]


def _lines(model: Model, info: TensorInfo) -> Floats:
    n = min(_ROWS, info.shape[0])
    read = model.read([TensorSlice.blocks(info.name, [(0, n * math.prod(info.shape[1:]))])])[0]
    return np.asarray(read, np.float32).reshape(n, -1)


def _moved(mine: Floats, theirs: Floats) -> bool:
    """Say whether columns are found again, in other places or with other signs."""
    n = min(len(mine), len(theirs))
    asked = np.linspace(0, mine.shape[1] - 1, min(_MOST_COLUMNS, mine.shape[1])).astype(np.intp)
    cosines = _unit(mine[:n, asked]).T @ _unit(theirs[:n])
    best = np.argmax(np.abs(cosines), axis=1)
    nearest = cosines[np.arange(len(asked)), best]
    found = np.abs(nearest) >= _FOUND
    moved = found & ((best != asked) | (nearest < 0))
    # Each is found once: a column that is like all of them is no place.
    once = len(set(best[moved].tolist())) >= _NEARLY_ALL * np.count_nonzero(moved)
    return bool(np.mean(found) >= _NEARLY_ALL and np.mean(moved) >= _MOVED and once)


def _unit(columns: Floats) -> Floats:
    centred = columns - columns.mean(axis=0)
    sizes = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(sizes > 0, sizes, 1.0), np.float32)
