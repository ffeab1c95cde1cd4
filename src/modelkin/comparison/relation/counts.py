"""Every value of two models, counted tensor by tensor in one pass: bounded memory, both cores.

For local models, each thread counts memory-mapped stretches of both files, without a copy. For others, pieces
are read ahead by the fetchers and counted as they arrive. numpy and numba release the interpreter lock while
they count.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from modelkin.comparison.names import shared_names
from modelkin.model import Model
from modelkin.tensors import DTYPES, TensorInfo, TensorSlice

from .tally import Kernel, Tally, chosen_kernel

_WALK = 1 << 20
"""Values of a tensor compared at a time: a few arrays of 4 MB, however large the tensor is."""
_AHEAD = 2
"""Pieces that wait per core."""
_STRETCH = 16 << 20
"""Bytes of a tensor that a thread takes at once: one entry of the ledger, and both files opened once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCount:
    """Every value of one tensor in both models."""

    tensor: str
    role: str
    component: str
    layer: int | None
    dtype: str
    base_dtype: str
    values: int
    equal: int
    within_1_ulp: int | None
    """At most one step of the stored format apart; None if the formats differ."""
    within_16_ulps: int | None
    zeros: int
    base_zeros: int
    relative_change: float | None
    """Size of the difference over the size of the base; None if one of them is not finite, or zero."""
    largest_change: float | None


def count_tensors(candidate: Model, base: Model, *, digested: bool = False) -> tuple[TensorCount, ...]:
    """Count every value of the tensors that both models have by name and shape, in the order of the files.

    A layer for multi-token prediction has such a counterpart only if it is one in both models.

    Parameters
    ----------
    candidate, base
        Opened models.
    digested
        Whether ranges read from local files get their digests in the ledger: that takes several times as long
        as counting. Ranges from elsewhere always get one.
    """
    infos = [candidate.index[name] for name in shared_names(candidate, base)]
    names = [info.name for info in infos if info.is_float and info.n_elements]
    tallies = {name: Tally() for name in names}
    plain = [name for name in names if _is_plain(candidate.index[name], base.index[name])]
    tally_bits = chosen_kernel(sum(candidate.index[name].n_bytes for name in plain))
    here = not (candidate.fetcher.source.remote or base.fetcher.source.remote)
    count = _count_here if here else _count_stream
    count(candidate, base, plain, tally_bits, tallies, digested=digested)
    for name in names:
        if name not in plain:
            tallies[name].add(_tally_numbers(candidate, base, name))
    known = candidate.architecture
    roles = {entry.tensor: entry for entry in reversed((*known.tensors, *known.mtp_tensors))}
    found = []
    for name in _in_files(candidate, names):
        entry, mine, theirs = roles.get(name), candidate.index[name], base.index[name]
        found.append(
            _counted(
                tallies[name],
                mine,
                theirs,
                role=entry.role.value if entry else "unknown",
                component=entry.component if entry else "other",
                layer=entry.layer if entry else None,
                alike=name in plain,
            )
        )
    return tuple(found)


def all_equal(candidate: Model, base: Model, counts: Sequence[TensorCount]) -> bool | None:
    """Say whether all stored values of two models are equal; None if some were not counted as stored."""
    if any(item.equal < item.values for item in counts if item.dtype == item.base_dtype):
        return False
    plain = {item.tensor for item in counts if item.within_1_ulp is not None}
    everything = {name for index in (candidate.index, base.index) for name in index}
    return True if plain == everything else None


def _counted(
    tally: Tally,
    mine: TensorInfo,
    theirs: TensorInfo,
    *,
    role: str,
    component: str,
    layer: int | None,
    alike: bool,
) -> TensorCount:
    finite = math.isfinite(tally.difference) and math.isfinite(tally.base) and tally.base > 0
    return TensorCount(
        tensor=mine.name,
        role=role,
        component=component,
        layer=layer,
        dtype=mine.dtype,
        base_dtype=theirs.dtype,
        values=tally.values,
        equal=tally.equal,
        within_1_ulp=tally.near if alike else None,
        within_16_ulps=tally.nearby if alike else None,
        zeros=tally.zeros,
        base_zeros=tally.base_zeros,
        relative_change=math.sqrt(tally.difference / tally.base) if finite else None,
        largest_change=tally.largest if math.isfinite(tally.largest) else None,
    )


def _is_plain(mine: TensorInfo, theirs: TensorInfo) -> bool:
    """Say whether stored bits can be compared: numbers of one format with a sign and an order."""
    plain = mine.storage is None and theirs.storage is None
    return plain and mine.dtype == theirs.dtype and mine.dtype in ("BF16", "F16", "F32")


def _in_files(model: Model, names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: model.index[name].place)


def _count_here(
    candidate: Model,
    base: Model,
    names: Sequence[str],
    tally_bits: Kernel,
    tallies: Mapping[str, Tally],
    *,
    digested: bool,
) -> None:
    """Count local files: each thread takes the next stretch of a tensor and looks at both sides."""

    def counted(stretch: tuple[str, int, int]) -> tuple[str, Tally]:
        with (
            candidate.mapped(*stretch, digested=digested) as left,
            base.mapped(*stretch, digested=digested) as right,
        ):
            return stretch[0], tally_bits(left, right, candidate.index[stretch[0]].dtype)

    stretches = (
        (name, start, min(start + step, candidate.index[name].n_elements))
        for name in _in_files(candidate, names)
        for step in [_STRETCH // DTYPES[candidate.index[name].dtype].group_bytes]
        for start in range(0, candidate.index[name].n_elements, step)
    )
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for name, found in pool.map(counted, stretches):
            tallies[name].add(found)


def _count_stream(
    candidate: Model,
    base: Model,
    names: Sequence[str],
    tally_bits: Kernel,
    tallies: Mapping[str, Tally],
    *,
    digested: bool,
) -> None:
    """Count pieces as they arrive, in step: as one stream if both models have tensors in the same order."""
    orders = [_in_files(model, names) for model in (candidate, base)]
    walks = [orders[0]] if orders[0] == orders[1] else [[name] for name in orders[0]]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting: deque[tuple[str, Future[Tally]]] = deque()
        most = _AHEAD * (os.cpu_count() or 1)
        for walk in walks:
            sides = [model.raw_chunks(walk, digested=digested) for model in (candidate, base)]
            for left, right in zip(*sides, strict=True):
                dtype = candidate.index[left.name].dtype
                waiting.append((left.name, pool.submit(tally_bits, left.values, right.values, dtype)))
                while len(waiting) >= most:
                    done, result = waiting.popleft()
                    tallies[done].add(result.result())
        while waiting:
            done, result = waiting.popleft()
            tallies[done].add(result.result())


def _tally_numbers(candidate: Model, base: Model, name: str) -> Tally:
    """Count numbers of a tensor that is stored in two ways."""
    total = Tally()
    n_elements = candidate.index[name].n_elements
    for start in range(0, n_elements, _WALK):
        block = TensorSlice.blocks(name, [(start, min(start + _WALK, n_elements))])
        mine, theirs = (np.asarray(model.read([block])[0], np.float32) for model in (candidate, base))
        change = mine - theirs
        total.add(
            Tally(
                values=mine.size,
                equal=int(np.count_nonzero(change == 0)),
                zeros=int(np.count_nonzero(mine == 0)),
                base_zeros=int(np.count_nonzero(theirs == 0)),
                difference=float(np.dot(change, change)),
                base=float(np.dot(theirs, theirs)),
                largest=float(np.abs(change).max(initial=0.0)),
            )
        )
    return total
