"""Two sets and what they share: tokens, added tokens, and merges, which are in the order of training."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from modelkin.message import Message, say

from ._value import Tokenizer, token_bytes

FIRST = 1000
"""Merges that are compared in their order: the published analysis took as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How many things both sides have, and the resulting shares (None of an empty set)."""

    candidate: int
    """Distinct things of the candidate."""
    base: int
    shared: int
    only_candidate: int
    only_base: int
    union: int
    jaccard: float | None
    """Shared of the union."""
    of_candidate: float | None
    """Share of the candidate's that the base has."""
    of_base: float | None
    of_smaller: float | None
    """Share of the smaller set that the larger has."""


def overlap(*, candidate: int, base: int, shared: int) -> Overlap:
    """Work out all shares from three counts.

    Examples
    --------
    >>> overlap(candidate=10, base=4, shared=2).of_smaller
    0.5
    """
    union = candidate + base - shared
    return Overlap(
        candidate=candidate,
        base=base,
        shared=shared,
        only_candidate=candidate - shared,
        only_base=base - shared,
        union=union,
        jaccard=_share(shared, union),
        of_candidate=_share(shared, candidate),
        of_base=_share(shared, base),
        of_smaller=_share(shared, min(candidate, base)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeComparison:
    """What two lists of merges share."""

    overlap: Overlap
    first_1000_equal: int
    """Places among the first 1000 where both have the same merge."""
    equal_until: int
    """Merges before the first place where the lists differ."""
    same_list: bool


def merges_digest(merges: Sequence[str], first: int | None = None) -> str:
    """Return the SHA-256 of merges joined by newlines, all or the first ones, as published analyses do."""
    text = "\n".join(merges[:first])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def compare_merges(candidate: Tokenizer, base: Tokenizer) -> tuple[MergeComparison | None, Message | None]:
    """Compare two lists of merges; without a list on both sides, say why not."""
    for side, tokenizer in (("candidate", candidate), ("base", base)):
        if tokenizer.merges is None:
            return None, say("text.of_side", side=say(f"side.{side}"), text=tokenizer.no_merges)
    same_spelling = candidate.byte_level == base.byte_level
    mine, theirs = (_keys(tokenizer, raw=same_spelling) for tokenizer in (candidate, base))
    left, right = set(mine), set(theirs)
    until = next(
        (place for place, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other),
        min(len(mine), len(theirs)),
    )
    return (
        MergeComparison(
            overlap=overlap(candidate=len(left), base=len(right), shared=len(left & right)),
            first_1000_equal=sum(
                one == other for one, other in zip(mine[:FIRST], theirs[:FIRST], strict=False)
            ),
            equal_until=until,
            same_list=mine == theirs,
        ),
        None,
    )


def lists_every_split(tokenizer: Tokenizer) -> bool:
    """Say whether there are more merges than tokens.

    Training learns one merge per token. Files with more were converted from ranked tokens, and list every way
    to split a token: their merges are not independent evidence.
    """
    return tokenizer.merges is not None and len(tokenizer.merges) > tokenizer.n_tokens


def _keys(tokenizer: Tokenizer, *, raw: bool) -> list[Hashable]:
    """Return merges in a form that both sides can have: as written, or as bytes."""
    merges = tokenizer.merges or ()
    if raw:
        return list(merges)
    pairs = (merge.partition(" ") for merge in merges)
    level = tokenizer.byte_level
    return [
        (token_bytes(left, byte_level=level), token_bytes(right, byte_level=level))
        for left, _, right in pairs
    ]
