"""From numbers to plain words: how two tokenizers relate, and what that does not mean."""

from __future__ import annotations

from enum import Enum

from ._background import Background
from ._ids import IdComparison
from ._merges import MergeComparison
from ._overlap import Overlap

LONG_RUN = 100
"""So many tokens of more than one byte in the same order do not come about twice. Separately trained
tokenizers reach 10 at most (docs/tokenizers.md); tables with a common stock have 157 to 71 871."""


class Relation(Enum):
    """How two vocabularies relate."""

    SAME = "same"
    """The same tokens with the same ids."""
    EXTENDED = "extended"
    """One holds the whole other, in its order."""
    COMMON_STOCK = "common stock"
    """A part of both tables is the same list in the same order."""
    SEPARATE = "separate"
    """No more in common than separately trained tokenizers have."""


def read_relation(tokens: Overlap, ids: IdComparison) -> Relation:
    """Name the relation. The order of tokens decides, not how many are shared: common words are common."""
    if not ids.shared:
        return Relation.SEPARATE
    if tokens.shared == tokens.union and ids.same_id == ids.shared:
        return Relation.SAME
    in_order = ids.shifts[0][1] / ids.shared
    if tokens.of_smaller is not None and tokens.of_smaller > 0.999 and in_order > 0.99:
        return Relation.EXTENDED
    run = ids.longest_run
    if run is not None and run.words >= LONG_RUN:
        return Relation.COMMON_STOCK
    return Relation.SEPARATE


def sentences(
    relation: Relation,
    tokens: Overlap,
    ids: IdComparison,
    merges: MergeComparison | None,
    level: Background,
    *,
    every_split: bool,
) -> tuple[str, ...]:
    """Say what the numbers mean, and what they do not."""
    said = [_RELATIONS[relation]]
    if tokens.of_smaller is not None:
        ordinary = level.of_smaller
        said.append(
            f"{tokens.of_smaller:.0%} of the smaller vocabulary is in the larger. Separately trained "
            f"tokenizers show {ordinary.low:.0%} to {ordinary.high:.0%}: {ordinary.at_least} of "
            f"{ordinary.n_pairs} such pairs share at least as much."
        )
    run = ids.longest_run
    if run is not None and run.single_bytes > run.words and relation is Relation.SEPARATE:
        said.append(
            f"The longest run of equal order ({run.length} tokens) is the alphabet of single bytes, which "
            "many tokenizers list in the same order."
        )
    if merges is not None and not merges.same_list:
        ordinary = level.merges_of_smaller
        said.append(
            f"{merges.overlap.of_smaller or 0.0:.0%} of the shorter list of merges is in the longer "
            f"(separately trained: {ordinary.low:.0%} to {ordinary.high:.0%}); among the first 1000, "
            f"{merges.first_1000_equal} stand in the same place."
        )
    if every_split:
        said.append(
            "One file lists more merges than tokens: it was converted, and names every way to split a "
            "token, so the two lists of merges are not alike even where the tokens are."
        )
    said.append(_LIMIT)
    return tuple(said)


_RELATIONS = {
    Relation.SAME: "The vocabularies are the same: equal tokens with equal ids.",
    Relation.EXTENDED: "One vocabulary holds the other in its order: an extension.",
    Relation.COMMON_STOCK: (
        "Part of both vocabularies is one list in one order: one table was built from the other, or both "
        "from a third."
    ),
    Relation.SEPARATE: "The vocabularies have no more in common than separately trained ones.",
}
_LIMIT = (
    "This is about tokenizers only. They are published files that anybody may use: models with the same one "
    "are often trained separately, and a model can be given another one. No verdict on weights follows."
)
