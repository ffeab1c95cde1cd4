"""How two vocabularies relate, what the numbers mean, and what they do not."""

from __future__ import annotations

from enum import Enum

from modelkin.message import Message, say

from .background import Background
from .ids import IdComparison
from .overlap import MergeComparison, Overlap

_ALL_TOKENS = 0.999
"""Share of the smaller vocabulary in the larger one; an extension drops a few special tokens at most."""
_IN_ORDER = 0.99
"""Share of these at one shift of their numbers; reserved places and special tokens move."""
LONG_RUN = 100
"""This many tokens of more than one byte in the same order do not arise twice by chance. Separately trained
tokenizers reach 10 at most (docs/tokenizers.md); tables with a common stock have 157 to 71,871."""


class VocabularyRelation(Enum):
    """How two vocabularies relate."""

    SAME = "same"
    """The same tokens with the same ids."""
    EXTENDED = "extended"
    """One contains all of the other, in its order."""
    COMMON_STOCK = "common stock"
    """A part of both tables is the same list in the same order."""
    SEPARATE = "separate"
    """No more in common than separately trained tokenizers have."""


def read_relation(tokens: Overlap, ids: IdComparison) -> VocabularyRelation:
    """Name the relation. The order of tokens decides, not how many are shared: frequent words always are."""
    if not ids.shared:
        return VocabularyRelation.SEPARATE
    if tokens.shared == tokens.union and ids.same_id == ids.shared:
        return VocabularyRelation.SAME
    in_order = ids.shifts[0][1] / ids.shared
    if tokens.of_smaller is not None and tokens.of_smaller > _ALL_TOKENS and in_order > _IN_ORDER:
        return VocabularyRelation.EXTENDED
    run = ids.longest_run
    if run is not None and run.words >= LONG_RUN:
        return VocabularyRelation.COMMON_STOCK
    return VocabularyRelation.SEPARATE


def explain(
    relation: VocabularyRelation,
    tokens: Overlap,
    ids: IdComparison,
    merges: MergeComparison | None,
    level: Background,
    *,
    every_split: bool,
) -> tuple[Message, ...]:
    """Say what the numbers mean, and what they do not."""
    said = [say(f"tokens-{relation.value.replace(' ', '-')}")]
    if tokens.of_smaller is not None:
        usual = level.of_smaller
        said.append(
            say(
                "tokens-share",
                share=tokens.of_smaller,
                low=usual.low,
                high=usual.high,
                n=usual.at_least,
                m=usual.n_pairs,
            )
        )
    run = ids.longest_run
    if run is not None and run.single_bytes > run.words and relation is VocabularyRelation.SEPARATE:
        said.append(say("tokens-bytes", n=run.length))
    if merges is not None and not merges.same_list:
        usual = level.merges_of_smaller
        share = merges.overlap.of_smaller or 0.0
        said.append(
            say("tokens-merges", share=share, low=usual.low, high=usual.high, n=merges.first_1000_equal)
        )
    if every_split:
        said.append(say("tokens-split"))
    return (*said, say("tokens-limit"))
