"""Which layer of a parent faces a layer of the candidate, also in rearranged stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.samples import Extent, Site, facing, sites_of
from modelkin.model import Model
from modelkin.tensors import TensorInfo

_VALUES = 2_048
"""Of each tensor: a cosine is then known to 0.02, and layers of one model are farther apart."""
_MOST_MODULES = 4
"""Tensors of a layer that are looked at: one could have been replaced, and more show the same."""
_CLOSER = 0.9
"""A layer with another number must be this much closer than the one with the same number."""

Floats = NDArray[np.float64]


def layer_maps(candidate: Model, others: Sequence[Model], seed: int) -> list[dict[int, int]]:
    """Return for each other model which of its layers faces a layer of the candidate.

    Layers of the same number face each other unless another one is clearly closer, or there is no such layer.
    """
    mine, extent = sites_of(candidate), Extent(n_values=_VALUES, seed=seed)
    found: list[dict[int, int]] = []
    for other in others:
        theirs = sites_of(other)
        modules = _modules(mine, theirs)
        numbers = candidate.architecture.layers
        there = other.architecture.layers
        if not modules or not there:
            found.append({layer: layer for layer in numbers})
            continue
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(_signatures, candidate, mine, {site: site for site in modules}, numbers, extent),
                pool.submit(
                    _signatures,
                    other,
                    theirs,
                    {site: _dense(site, theirs) for site in modules},
                    there,
                    extent,
                ),
            ]
            a, b = (job.result() for job in jobs)
        found.append(_nearest(numbers, there, a, b))
    return found


def _nearest(mine: Sequence[int], theirs: Sequence[int], a: Floats, b: Floats) -> dict[int, int]:
    sizes = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :]
    away = 1.0 - 2 * (a @ b.T) / np.where(sizes > 0, sizes, 1.0)
    chosen: dict[int, int] = {}
    for row, layer in enumerate(mine):
        best = int(np.argmin(away[row]))
        if layer in theirs and away[row, best] > _CLOSER * away[row, theirs.index(layer)]:
            chosen[layer] = layer
        else:
            chosen[layer] = theirs[best]
    return chosen


def _modules(mine: Mapping[Site, TensorInfo], theirs: Mapping[Site, TensorInfo]) -> list[Site]:
    """Choose matrices that both models have in their layers, of one shape."""
    chosen: dict[Site, None] = {}
    there = {_anywhere(site): info.shape for site, info in theirs.items() if site.layer >= 0}
    for site, info in mine.items():
        if site.layer < 0 or site.expert > 0 or len(info.shape) != 2:
            continue
        key = _anywhere(site)
        facing_shape = there.get(key) or there.get(_anywhere(_dense(site, theirs)))
        if facing_shape == info.shape:
            chosen[key] = None
    return sorted(chosen)[:: max(1, len(chosen) // _MOST_MODULES)][:_MOST_MODULES]


def _anywhere(site: Site) -> Site:
    return replace(site, layer=0)


def _dense(site: Site, there: Mapping[Site, TensorInfo]) -> Site:
    """Return the name of a site in another model, where experts may be one MLP."""
    for layer in sorted({item.layer for item in there if item.layer >= 0}):
        info = facing(site, there, layer)
        if info is not None:
            named = next(key for key, value in there.items() if value is info)
            return replace(named, layer=0)
    return site


def _signatures(
    model: Model,
    sites: Mapping[Site, TensorInfo],
    modules: Mapping[Site, Site],
    layers: Sequence[int],
    extent: Extent,
) -> Floats:
    """Read a few values of every layer; a matrix that a layer lacks counts as zeros.

    `modules` are the candidate's, which decide where to read, with their names in this model.
    """
    wanted, places = [], []
    for row, layer in enumerate(layers):
        for column, (key, module) in enumerate(modules.items()):
            info = sites.get(replace(module, layer=layer))
            if info is not None:
                wanted += extent.slices(key, [info])
                places.append((row, column))
    read = model.read(wanted)
    width = max((array.size for array in read), default=1)
    values = np.zeros((len(layers), len(modules), width))
    for (row, column), array in zip(places, read, strict=True):
        flat = np.asarray(array, np.float64).reshape(-1)
        size = float(np.linalg.norm(flat))
        values[row, column, : flat.size] = flat / size if size > 0 else flat
    return values.reshape(len(layers), -1)
