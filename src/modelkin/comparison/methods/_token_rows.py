"""Embedding and output-head rows of shared tokens, over the dimensions of the residual stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, final

import numpy as np

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.tensors import Array, TensorInfo, TensorSlice
from modelkin.tokenizer import TokenPairs

from ._interface import Method, Pair, Planned, sample_probe
from ._result import EQUAL_VALUES, Evidence, Tested
from .axis import unit_evidence

_FEWEST_TOKENS = 16
"""Fewest features of the test on residual dimensions: with fewer, chance looks large in every one."""
_MOST_TOKENS = 512
"""More rows only narrow the interval of the effect; p-values are far below any rule already."""


class _TableRows(Method):
    role: ClassVar[Role]
    share: ClassVar[float]
    """Share of the byte allowance."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Read a window of shared tokens whose rows lie near each other in both tables."""
        if isinstance(pair.tokens, Message):
            return [pair.tokens]
        mine, theirs = (side.architecture.find(self.role) for side in pair.sides)
        if mine is None or theirs is None:
            return [say("no-matrix")]
        infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
        rows = _window(pair, pair.tokens, infos, share=self.share)
        if len(rows) < _FEWEST_TOKENS:
            return [say("few-tokens", n=len(rows))]
        paired = pair.tokens.how
        guessed = pair.candidate.architecture.guessed or pair.base.architecture.guessed

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            # Equal tables with a guessed role may be untrained random numbers. Trained rows that
            # were copied also show in other parts, or after further training.
            if guessed and np.array_equal(candidate[0], base[0]):
                return self.skip(say("guessed-equal-table"), role=self.role.value)
            found = unit_evidence(
                self,
                (candidate[0].T, base[0].T),
                seed=pair.seed,
                whole_effect=True,  # few directions hold most of a head, and its dimensions are very unequal
                role=self.role.value,
                details={"tokens": len(rows), "paired": paired},
            )
            if isinstance(found, Tested) and np.array_equal(candidate[0], base[0]):
                return found.flagged(EQUAL_VALUES)
            return found

        return [
            sample_probe(
                [TensorSlice.scattered(mine.tensor, [row for row, _ in rows])],
                [TensorSlice.scattered(theirs.tensor, [row for _, row in rows])],
                evaluate=evaluate,
            )
        ]


@final
class EmbeddingRows(_TableRows):
    """Ask whether the same tokens have the same coordinates."""

    role = Role.EMBEDDING
    share = 0.14


@final
class HeadRows(_TableRows):
    """Ask whether the output head reads the same coordinates for the same tokens."""

    role = Role.OUTPUT_HEAD
    share = 0.08


def near_rows(tokens: TokenPairs, infos: Sequence[TensorInfo]) -> list[tuple[int, int]]:
    """Return the rows of shared tokens, starting with those early in both tables.

    Common tokens are early in any two vocabularies built by counting, so the first ones are close together in
    both and take few requests. Ids alone decide, so nothing is assumed about the weights.
    """
    mine, theirs = np.asarray(tokens.candidate, dtype=np.int64), np.asarray(tokens.base, dtype=np.int64)
    there = (mine < infos[0].n_rows) & (theirs < infos[1].n_rows)
    mine, theirs = mine[there], theirs[there]
    # Arrays, since a vocabulary has a quarter of a million tokens and each attempt to fit a plan sorts them.
    order = np.lexsort((np.minimum(mine, theirs), np.maximum(mine, theirs)))
    return list(zip(mine[order].tolist(), theirs[order].tolist(), strict=True))


def _window(
    pair: Pair, tokens: TokenPairs, infos: tuple[TensorInfo, TensorInfo], *, share: float
) -> list[tuple[int, int]]:
    """Choose consecutive shared tokens, beginning at a seeded place in the first half."""
    rows = near_rows(tokens, infos)
    row_bytes = max(info.row_bits // 8 for info in infos)
    n_wanted = min(_MOST_TOKENS, max(_FEWEST_TOKENS, int(share * pair.byte_allowance) // max(row_bytes, 1)))
    spare = max(0, len(rows) - n_wanted)
    # A fixed multiplier spreads seeds over the places; any choice is as good under the null.
    start = (pair.seed * 2_654_435_761 + 1) % (spare // 2 + 1)
    return rows[start : start + n_wanted]
