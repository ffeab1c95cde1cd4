"""Embedding and output-head rows of shared tokens, over the dimensions of the residual stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

from modelkin.architecture import Role
from modelkin.tensors import Array, TensorInfo, TensorSlice

from ._axis import unit_evidence
from ._interface import Method, MethodCard, Pair, Plan, Task
from ._norm_profile import residual_problem
from ._result import Evidence

_FEWEST_TOKENS = 16
_MOST_TOKENS = 512
_NULL = "the numbering of residual dimensions in one model is independent of the other model"
_NEEDS = "equal hidden size; tokens with the same text in both vocabularies"
_DEFEATED_BY = "re-initialised embeddings; a permutation or rotation of the residual stream"


class _TokenRows(Method):
    role: ClassVar[Role]
    share: ClassVar[float]
    """Part of the byte allowance."""

    def plan(self, pair: Pair) -> Plan:
        """Read a window of shared tokens: consecutive in the base, so that its rows lie together."""
        reason = residual_problem(pair)
        if reason is None and pair.tokens is None:
            reason = pair.no_tokens
        mine = pair.candidate.architecture.find(self.role)
        theirs = pair.base.architecture.find(self.role)
        if reason is None and (mine is None or theirs is None):
            reason = "one of the models has no such matrix of its own (tied, or not stored)"
        if reason is not None or mine is None or theirs is None or pair.tokens is None:
            return Plan(skipped=(self.skip(str(reason)),))
        infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
        rows = _window(pair, infos, share=self.share)
        if len(rows) < _FEWEST_TOKENS:
            return Plan(skipped=(self.skip(f"the vocabularies share only {len(rows)} usable tokens"),))

        paired = pair.tokens.how

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            return unit_evidence(
                self,
                (candidate[0].T, base[0].T),
                seed=pair.seed,
                role=self.role.value,
                details={"tokens": len(rows), "paired": paired},
            )

        return Plan(
            tasks=(
                Task(
                    candidate=(TensorSlice.scattered(mine.tensor, [row for row, _ in rows]),),
                    base=(TensorSlice.scattered(theirs.tensor, [row for _, row in rows]),),
                    evaluate=evaluate,
                ),
            )
        )


@final
class EmbeddingRows(_TokenRows):
    """Ask whether the same tokens have the same coordinates."""

    role = Role.EMBEDDING
    share = 0.14
    card: ClassVar[MethodCard] = MethodCard(
        name="embedding-rows",
        version="1",
        claim="the embeddings of shared tokens use the same residual dimensions in both models",
        component="embedding",
        axis="residual",
        exact=True,
        null=_NULL,
        needs=_NEEDS,
        defeated_by=_DEFEATED_BY,
        reference="docs/methods/embedding-rows.md",
        stage="standard",
    )


@final
class HeadRows(_TokenRows):
    """Ask whether the output head reads the same coordinates for the same tokens."""

    role = Role.OUTPUT_HEAD
    share = 0.08
    card: ClassVar[MethodCard] = MethodCard(
        name="head-rows",
        version="1",
        claim="the output head reads the same residual dimensions for shared tokens in both models",
        component="head",
        axis="residual",
        exact=True,
        null=_NULL,
        needs=_NEEDS,
        defeated_by=_DEFEATED_BY,
        reference="docs/methods/head-rows.md",
        stage="standard",
    )


def _window(pair: Pair, infos: tuple[TensorInfo, TensorInfo], *, share: float) -> list[tuple[int, int]]:
    """Choose consecutive shared tokens, beginning at a seeded place among the first half."""
    assert pair.tokens is not None
    rows = [
        (mine, theirs)
        for mine, theirs in zip(pair.tokens.candidate, pair.tokens.base, strict=True)
        if mine < infos[0].n_rows and theirs < infos[1].n_rows
    ]
    row_bytes = max(info.row_bits // 8 for info in infos)
    n_wanted = min(_MOST_TOKENS, max(_FEWEST_TOKENS, int(share * pair.byte_allowance) // max(row_bytes, 1)))
    spare = max(0, len(rows) - n_wanted)
    # A fixed multiplier spreads seeds over the places; any choice is as good under the null.
    start = (pair.seed * 2_654_435_761 + 1) % (spare // 2 + 1)
    return rows[start : start + n_wanted]
