"""What is kept of each model of a collection: some rows of every matrix, read once, and traces of changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.samples import Site, extent_of, sites_of
from modelkin.model import Model
from modelkin.options import Depth
from modelkin.tensors import TensorInfo, TensorSlice, sample_rows

Sample = NDArray[np.float32]

_MOST_VALUES = 8_192
"""Of one tensor: a hundred models of two hundred matrices stay below a gigabyte."""
_TOKEN_ROWS = ("embedding", "head")
_TOKEN_VALUES = 262_144
"""Of a token table: rows of some tokens change much, so more of them are read than of a matrix."""
_MOST_ROWS = 512
"""Rows of a token table, however narrow: more cost requests and show the same."""
_STRIDE = 61
"""Every n-th row of long token tables: the same rows of any two vocabularies."""
_GROUP = 32
"""Values that share a scale in most formats of four bits."""
_LEVELS = 16
"""Numbers that four bits can tell apart."""
_INT8 = 127
"""The largest number of eight bits with a sign."""
_SMALL = 12
"""Multiples of a step up to this can be told from rounding in bfloat16."""
# Distance from a grid left by rounding to bfloat16; 0.25 by chance.
_ON_GRID = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSample:
    """One model as a forest needs it."""

    name: str
    model: Model
    values: Mapping[Site, Sample]
    """Of matrices, as float32; flat."""
    shapes: Mapping[Site, tuple[int, ...]]
    dtypes: Mapping[Site, str]
    digests: Mapping[Site, bytes]
    """Of the values read: equal digests mean equal bits."""
    zeros: float
    """Share of exact zeros in the matrices of layers."""
    levels: int | None
    """Distinct values of a group, if they lie on a grid: 16 or 255."""
    turned: str | None = None
    """The map that brought values into the coordinates of relatives; NaN without a counterpart."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers of its layers."""
        return self.model.architecture.layers

    def size(self, name: str) -> int | None:
        """Return a size of its architecture."""
        return self.model.architecture.sizes.get(name)


def read_sample(name: str, model: Model, depth: Depth, seed: int) -> ModelSample:
    """Read some rows of every matrix: the same for one shape and role, the first of token tables."""
    n_values = min(_MOST_VALUES, extent_of([model], depth, seed).n_values)
    sites = {site: info for site, info in sites_of(model).items() if len(info.shape) >= 2}
    wanted = [_rows(site, info, n_values, seed) for site, info in sites.items()]
    arrays = dict(zip(sites, model.read(wanted), strict=True))
    values = {site: np.asarray(array, np.float32).reshape(-1) for site, array in arrays.items()}
    in_layers = [site for site in sites if site.layer >= 0]
    rows = [np.asarray(arrays[site], np.float32) for site in in_layers if arrays[site].ndim == 2]
    return ModelSample(
        name=name,
        model=model,
        values=values,
        shapes={site: info.shape for site, info in sites.items()},
        dtypes={site: info.dtype for site, info in sites.items()},
        digests={site: blake2b(array.tobytes(), digest_size=16).digest() for site, array in values.items()},
        zeros=_mean((values[site] == 0).mean() for site in in_layers),
        levels=_levels(rows),
    )


def _rows(site: Site, info: TensorInfo, n_values: int, seed: int) -> TensorSlice:
    if info.row_elements > n_values:
        blocks = [(0, min(info.n_elements, n_values))]
        return TensorSlice.blocks(info.name, blocks)
    n_rows = min(info.n_rows, max(1, n_values // info.row_elements))
    if site.group in _TOKEN_ROWS:
        n_rows = min(_MOST_ROWS, max(1, _TOKEN_VALUES // info.row_elements))
        step = 1 if n_rows == _MOST_ROWS else _STRIDE
        return TensorSlice.scattered(info.name, range(0, info.n_rows, step)[:n_rows])
    return sample_rows(info, n_rows=n_rows, seed=seed, key=f"{site.module}|{site.part}", contiguous=True)


def renumbered(sample: ModelSample, layers: Mapping[int, int]) -> ModelSample:
    """Return a model whose layers have the numbers of those they face, the first of several."""

    def moved(held: Mapping[Site, object]) -> dict[Site, object]:
        found: dict[Site, object] = {}
        for site, value in held.items():
            found.setdefault(replace(site, layer=layers.get(site.layer, site.layer)), value)
        return found

    return replace(
        sample,
        values=moved(sample.values),  # type: ignore[arg-type]
        shapes=moved(sample.shapes),  # type: ignore[arg-type]
        dtypes=moved(sample.dtypes),  # type: ignore[arg-type]
        digests=moved(sample.digests),  # type: ignore[arg-type]
    )


def facing_layers(mine: ModelSample, theirs: ModelSample) -> dict[int, tuple[int, float]]:
    """Return the closest layer of another model for each layer, and its distance, from what was read."""
    modules = {replace(site, layer=0) for site in mine.values if site.layer >= 0}
    found: dict[int, tuple[int, float]] = {}
    for layer in mine.layers:
        best: tuple[float, int] | None = None
        for other in theirs.layers:
            away = []
            for module in modules:
                here, there = replace(module, layer=layer), replace(module, layer=other)
                if here in mine.values and mine.shapes.get(here) == theirs.shapes.get(there):
                    away.append(distance(mine.values[here], theirs.values[there]))
            if away and (best is None or float(np.mean(away)) < best[0]):
                best = float(np.mean(away)), other
        if best is not None:
            found[layer] = best[1], best[0]
    return found


def distance(first: Sample, second: Sample) -> float:
    """Return the squared distance of two tensors over the product of their lengths: 2 for strangers."""
    lengths = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(np.square(first - second, dtype=np.float64).sum()) / lengths if lengths > 0 else 0.0


def _levels(rows: Sequence[Sample]) -> int | None:
    """Detect values on few levels: at most 16 in every 32 neighbours, or multiples of a 127th."""
    if not rows:
        return None
    distinct = [
        float(np.median([len(np.unique(group)) for group in _groups(array)]))
        for array in rows
        if array.shape[1] >= _GROUP
    ]
    if distinct and np.median(distinct) <= _LEVELS:
        return _LEVELS
    off = [_off_grid(array) for array in rows if array.shape[1] >= _GROUP]
    return 255 if off and float(np.median(off)) < _ON_GRID else None


def _groups(array: Sample) -> Iterable[Sample]:
    width = array.shape[1] // _GROUP * _GROUP
    return np.asarray(array[:16, :width]).reshape(-1, _GROUP)


def _off_grid(array: Sample) -> float:
    """Return how far small values are from multiples of a 127th of their row's largest: 0.25 by chance."""
    largest = np.abs(array).max(axis=1, keepdims=True)
    steps = array / np.where(largest > 0, largest / _INT8, 1.0)
    small = (np.abs(steps) <= _SMALL) & (array != 0)
    return float(np.abs(steps - np.round(steps))[small].mean()) if small.sum() >= _GROUP else 0.25


def _mean(values: Iterable[float]) -> float:
    listed = [float(value) for value in values]
    return float(np.mean(listed)) if listed else 0.0
