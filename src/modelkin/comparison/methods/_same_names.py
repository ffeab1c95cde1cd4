"""Tensors of equal name and shape with unknown purpose: equality and measures, no p-value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np

from modelkin.architecture import is_fixed_table, looks_fixed
from modelkin.comparison.names import shared_names
from modelkin.message import say
from modelkin.stats import cosine_decomposition
from modelkin.tensors import Array, TensorSlice, sample_blocks

from ._interface import Findings, Method, Pair, Planned, Probe, sample_probe
from ._result import Evidence, Likeness
from .blocks import spread
from .equality import count_equal

_MOST_TENSORS, _BLOCKS, _BLOCK_ELEMENTS = 48, 8, 4096
"""Tensors, spread over the file, places in each, and values at each place: 6 MB of a model in BF16 at most.
Nothing is decided by it, so more would only show more of the same."""


@final
class SameNames(Method):
    """Compare values of tensors with equal names, if the architecture is unknown."""

    def problem(self, pair: Pair) -> None:
        """No precondition: names always exist."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Sample tensors that both models have, unless both architectures are known."""
        if all(side.architecture.is_known for side in pair.sides):
            return []
        names = [
            name
            for name in shared_names(*pair.sides)
            if pair.candidate.index[name].n_elements > 1 and not is_fixed_table(name)
        ]
        if not names:
            return [say("no-names")]
        return [self._probe(pair, names[number]) for number in spread(len(names), _MOST_TENSORS)]

    def _probe(self, pair: Pair, name: str) -> Probe[Findings]:
        infos = pair.candidate.index[name], pair.base.index[name]
        whole = infos[0].n_elements <= _BLOCKS * _BLOCK_ELEMENTS
        slices = tuple(
            TensorSlice.whole(name)
            if whole
            else sample_blocks(
                info, n_blocks=_BLOCKS, block_elements=_BLOCK_ELEMENTS, seed=pair.seed, key=name
            )
            for info in infos
        )

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            return self._measured(name, candidate[0], base[0], (infos[0].dtype, infos[1].dtype))

        return sample_probe(slices[:1], slices[1:], evaluate=evaluate)

    def _measured(self, name: str, mine: Array, theirs: Array, dtypes: tuple[str, str]) -> Evidence:
        # Exporters' tables are recognised by shape, which a sample loses, so small tensors are read whole.
        fixed = looks_fixed(mine) or looks_fixed(theirs)
        if fixed is not None:
            return self.skip(say("fixed-table", tensor=name, reason=fixed), role=name)
        count = count_equal([mine], [theirs], dtypes=dtypes)
        if not count.n_compared:
            return self.skip(say("constant-tensor", tensor=name), role=name)
        finite = np.isfinite(mine) & np.isfinite(theirs)
        parts = None
        if mine[finite].any() and theirs[finite].any():
            parts = cosine_decomposition(candidate=mine[finite], base=theirs[finite])
        return Likeness(
            **self.heading(role=name),
            n=count.n_compared,
            share_equal=count.n_equal / count.n_compared,
            cosine=parts.cosine if parts else None,
            pearson=parts.pearson if parts else None,
        )
