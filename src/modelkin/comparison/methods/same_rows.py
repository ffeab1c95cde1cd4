"""Rows that hold the other model's numbers in another order: one part of a stranger may have been taken over.

A permutation of the residual stream, of units or of tokens hides a copied table, matrix or set of gains from
every test in unchanged numbering, and a map that was learned from the very rows that it fits proves nothing.
Numbers that are the same bit for bit do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from modelkin.architecture import RoleEntry, looks_fixed
from modelkin.comparison.alignment import EqualRows, Frame, equal_rows
from modelkin.message import say
from modelkin.tensors import Array, TensorSlice
from modelkin.tokenizer import TokenPairs

from ._interface import Findings, Method, Pair, Part, Planned, Probe, Side
from ._norm_profile import stream_vectors
from ._result import EQUAL_VALUES, Effect, Tested
from ._token_rows import near_rows
from .blocks import spread

_EXPECTED = 48
"""Equal rows expected in samples of two tables whose rows are in unrelated orders: at least `_FEWEST` of them
are found in all but one of 10^9 samples."""
_FEWEST = 12
"""Fewest equal rows of a matrix that count, as many as the rule asks of matched units."""
_SHARE = 0.2
"""Share of the rows that could be found from which a part counts as taken over: what the rule asks of units
that agree in the pair's own layers."""
_TABLES, _BODY = ("embedding", "head"), ("mlp", "attention", "experts", "router")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Some rows of two tensors of one purpose."""

    mine: RoleEntry
    theirs: RoleEntry
    rows: tuple[tuple[int, ...], tuple[int, ...]]
    n_rows: int
    """Rows of the longer tensor."""
    n_bytes: int

    @property
    def n_pairs(self) -> int:
        return len(self.rows[0]) * len(self.rows[1])

    def slices(self) -> tuple[TensorSlice, TensorSlice]:
        mine, theirs = self.rows
        return TensorSlice.scattered(self.mine.tensor, mine), TensorSlice.scattered(
            self.theirs.tensor, theirs
        )


@final
class SameRows(Method):
    """Ask whether rows of a part hold exactly the numbers of rows of the other model, in another order."""

    def problem(self, pair: Pair) -> None:
        """No precondition: parts that do not fit each other are not read."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Read all gains, and as many rows as two samples need to have some in common.

        Nothing is recorded where no row is equal: the p-value is corrected for every row that was compared,
        whatever it showed.
        """
        # Equal tables with a guessed role may be untrained random numbers.
        if any(not side.architecture.is_known or side.architecture.guessed for side in pair.sides):
            return
        vectors = [stream_vectors(side) for side in pair.sides]
        gains = [key for key in vectors[0] if key in vectors[1]]
        tables = list(_of_tables(pair))
        samples = [
            *tables,
            *_of_layers(pair, room=pair.byte_allowance - sum(item.n_bytes for item in tables)),
        ]
        n_pairs = len(gains) ** 2 + sum(sample.n_pairs for sample in samples)
        if gains:
            parts = [
                tuple(Part(slices=(TensorSlice.whole(held[key].tensor),)) for key in gains)
                for held in vectors
            ]
            yield Probe(candidate=parts[0], base=parts[1], evaluate=self._judge_gains(n_pairs))
        for sample in samples:
            mine, theirs = (Part(slices=(item,)) for item in sample.slices())
            yield Probe(candidate=(mine,), base=(theirs,), evaluate=self._judge_rows(pair, sample, n_pairs))

    def _judge_gains(self, n_pairs: int) -> Callable[[list[Array], list[Array]], Findings]:
        def evaluate(candidate: list[Array], base: list[Array]) -> Findings:
            if len({len(vector) for vector in (*candidate, *base)}) != 1:
                return Findings()
            found = equal_rows(np.stack(candidate), np.stack(base), n_pairs=n_pairs, table=False)
            if found is None or found.in_order or len(found) < _SHARE * min(found.n_usable):
                return Findings()
            return self._findings(found, min(found.n_usable), component="norms", of_stream=True)

        return evaluate

    def _judge_rows(
        self, pair: Pair, sample: _Sample, n_pairs: int
    ) -> Callable[[list[Array], list[Array]], Findings]:
        def evaluate(candidate: list[Array], base: list[Array]) -> Findings:
            mine, theirs = candidate.pop(), base.pop()
            if looks_fixed(mine) is not None or looks_fixed(theirs) is not None:
                return Findings()
            found = equal_rows(mine, theirs, n_pairs=n_pairs)
            if found is None or len(found) < _FEWEST:
                return Findings()
            moved_rows = 2 * found.in_place < len(found)
            if found.in_order and not moved_rows:
                return Findings()  # nothing was moved: other tests are about that
            could = min(found.n_usable)
            if moved_rows:
                could = math.ceil(math.prod(found.n_usable) / sample.n_rows)
            if len(found) < _SHARE * could:
                return Findings()
            return self._findings(
                found,
                could,
                component=sample.mine.component,
                role=sample.mine.role.value,
                layer=sample.mine.layer,
                base_layer=sample.theirs.layer,
                of_stream=sample.mine.axes[-1] == ("residual",),
                moved_rows=moved_rows,
                rows_are_stream=sample.mine.axes[0] == ("residual",),
            )

        return evaluate

    def _findings(
        self,
        found: EqualRows,
        could: int,
        *,
        component: str,
        of_stream: bool,
        role: str | None = None,
        layer: int | None = None,
        base_layer: int | None = None,
        moved_rows: bool = False,
        rows_are_stream: bool = False,
    ) -> Findings:
        n = max(could, len(found))
        share = len(found) / n
        error = 2.58 * math.sqrt(max(share * (1 - share), 1.0 / n) / n)
        moved_stream = (of_stream and not found.in_order) or (rows_are_stream and moved_rows)
        test = Tested(
            **self.heading(
                component=component,
                role=role,
                layers=() if layer is None else (layer,),
                base_layers=() if base_layer in (None, layer) else (base_layer,),
                frame="permutation" if moved_stream else "identity",
            ),
            statistic=share,
            log10_p=found.log10_p,
            effect=Effect(value=share, low=max(0.0, share - error), high=min(1.0, share + error)),
            n=n,
            n_matched=len(found),
            n_features=len(found.columns),
            reordered=True,
            flags=(EQUAL_VALUES,),
        )
        frames = (_frame(found),) if of_stream and not found.in_order else ()
        return Findings(evidence=(test,), frames=frames)


def _frame(found: EqualRows) -> Frame:
    width = len(found.columns)
    return Frame(
        kind="permutation",
        learned_from=say("equal-rows"),
        n_rows=len(found),
        fit=1.0,
        chance=0.0,
        widths=(width, width),
        places=found.columns,
        signs=np.ones(width, dtype=np.float32),
    )


def _of_tables(pair: Pair) -> Iterator[_Sample]:
    """Yield rows of shared tokens, or of equal number where tokens are unknown."""
    for mine, theirs in _facing(pair, [(None, None)], _TABLES):
        infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
        row_bytes = max(1, *(info.row_bits // 8 for info in infos))
        wanted = min(*(_wanted(info.n_rows) for info in infos), pair.byte_allowance // 4 // row_bytes)
        if isinstance(pair.tokens, TokenPairs):
            rows = near_rows(pair.tokens, infos)[:wanted]
        else:
            rows = [(row, row) for row in range(wanted)]
        if len(rows) >= _FEWEST:
            yield _sample(pair, mine, theirs, rows)


def _of_layers(pair: Pair, *, room: int) -> Iterator[_Sample]:
    """Yield rows of matrices in as many layers as the bytes allow, spread over the depth."""
    by_layer = []
    for both in pair.layer_pairs:
        samples = []
        for mine, theirs in _facing(pair, [both], _BODY):
            infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
            wanted = min(_wanted(info.n_rows) for info in infos)
            if wanted >= _FEWEST:
                samples.append(_sample(pair, mine, theirs, [(row, row) for row in range(wanted)]))
        by_layer.append(samples)
    cost = max((sum(item.n_bytes for item in samples) for samples in by_layer), default=0)
    affordable = max(0, room) // max(1, cost)
    for number in spread(len(by_layer), min(len(by_layer), affordable)) if affordable else ():
        yield from by_layer[number]


def _sample(pair: Pair, mine: RoleEntry, theirs: RoleEntry, rows: Sequence[tuple[int, int]]) -> _Sample:
    infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
    return _Sample(
        mine=mine,
        theirs=theirs,
        rows=(tuple(row for row, _ in rows), tuple(row for _, row in rows)),
        n_rows=max(info.n_rows for info in infos),
        n_bytes=len(rows) * max(info.row_bits // 8 for info in infos),
    )


def _wanted(n_rows: int) -> int:
    """Return how many rows of each of two tables have enough in common, if their orders are unrelated."""
    return min(n_rows, math.ceil(math.sqrt(_EXPECTED * n_rows)))


def _facing(
    pair: Pair, layers: Iterable[tuple[int | None, int | None]], components: Sequence[str]
) -> Iterator[tuple[RoleEntry, RoleEntry]]:
    """Yield matrices of one purpose and one row length, each tensor once."""
    theirs = _matrices(pair.base, components)
    facing = dict(layers)
    for (layer, *rest), mine in _matrices(pair.candidate, components).items():
        if layer in facing and (other := theirs.get((facing[layer], *rest))) is not None:
            lengths = [
                side.index[entry.tensor].row_elements
                for side, entry in zip(pair.sides, (mine, other), strict=True)
            ]
            if lengths[0] == lengths[1]:
                yield mine, other


def _matrices(side: Side, components: Sequence[str]) -> dict[tuple[object, ...], RoleEntry]:
    """Return the matrices of some components by layer, stack, role and expert; each fused one once."""
    found: dict[str, RoleEntry] = {}
    for entry in side.architecture.tensors:
        info = side.index[entry.tensor]
        usable = info.is_float and len(info.shape) == 2 and not entry.fixed and entry.part == "weight"
        if usable and entry.component in components:
            found.setdefault(entry.tensor, entry)
    return {(entry.layer, entry.stack, entry.role, entry.expert): entry for entry in found.values()}
