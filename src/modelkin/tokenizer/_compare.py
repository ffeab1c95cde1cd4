"""Compare two tokenizers: what they have in common, and what separately trained ones have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from modelkin.message import Message
from modelkin.untrusted import JsonRefused, strict_object

from ._classes import CLASSES, census
from ._value import Tokenizer
from .background import Background, background
from .ids import IdComparison, compare_ids
from .overlap import (
    FIRST,
    MergeComparison,
    Overlap,
    compare_merges,
    lists_every_split,
    merges_digest,
    overlap,
)
from .relation import VocabularyRelation, explain, read_relation

TOKENIZERS_SCHEMA = "modelkin.tokenizers/1"
MAX_SETTINGS_BYTES = 4 * 1024 * 1024
"""Of a file of settings: it is read whole, and its author is unknown."""
_LISTED = 40
"""Added tokens that are listed, and characters of each: a report needs examples, not all."""
_LONGEST = 80
"""Characters of a setting that are shown; a longer one is told by its digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """One side."""

    name: str
    file: str
    form: str
    kind: str | None
    byte_level: bool
    tokens: int
    """Entries of the base vocabulary."""
    texts: int
    """Distinct texts that they stand for."""
    added: int
    merges: int | None
    merges_sha256: str | None
    """Of all merges, joined by newlines."""
    merges_sha256_first_1000: str | None
    every_split: bool
    """There are more merges than tokens: the file was converted, and lists every way to split a token."""
    notes: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedComparison:
    """Added and control tokens, by how they are written."""

    overlap: Overlap
    same_id: int
    only_candidate: tuple[str, ...]
    """The first of them, by id."""
    only_base: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """Tokens of one class."""

    name: str
    candidate: int
    base: int
    shared: int
    only_candidate: int
    only_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HighIds:
    """Tokens of the larger vocabulary beyond the ids of the smaller: what the longer table adds."""

    side: str
    first_id: int
    tokens: int
    classes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One field; None stands for a file that lacks it."""

    name: str
    candidate: str | None
    base: str | None
    equal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerComparison:
    """Two tokenizers side by side. It says nothing about weights."""

    candidate: TokenizerFacts
    base: TokenizerFacts
    relation: VocabularyRelation
    reading: tuple[Message, ...]
    """What the numbers mean, and what they do not."""
    tokens: Overlap
    ids: IdComparison
    merges: MergeComparison | None
    no_merges: Message | None
    """Why merges were not compared."""
    added: AddedComparison
    classes: tuple[ClassCount, ...]
    high_ids: HighIds | None
    settings: tuple[Setting, ...]
    """Fields of both ``tokenizer_config.json``."""
    background: Background


def compare_two(
    candidate: Tokenizer,
    base: Tokenizer,
    *,
    names: tuple[str, str] = ("candidate", "base"),
    settings: tuple[Mapping[str, object] | None, Mapping[str, object] | None] = (None, None),
    high_from: int | None = None,
) -> TokenizerComparison:
    """Compare two tokenizers that were read.

    `settings` are the contents of ``tokenizer_config.json`` of both, if there. The census of high ids begins
    at `high_from`; by default where the smaller vocabulary ends.
    """
    ids = compare_ids(candidate.tokens, base.tokens)
    tokens = overlap(candidate=len(candidate.tokens), base=len(base.tokens), shared=ids.shared)
    merges, no_merges = compare_merges(candidate, base)
    relation = read_relation(tokens, ids)
    run = ids.longest_run
    mine, theirs = _facts(candidate, names[0]), _facts(base, names[1])
    level = background(
        of_smaller=tokens.of_smaller,
        jaccard=tokens.jaccard,
        spearman=ids.spearman,
        run_words=run.words if run is not None else 0,
        merges_of_smaller=merges.overlap.of_smaller if merges is not None else None,
    )
    return TokenizerComparison(
        candidate=mine,
        base=theirs,
        relation=relation,
        reading=explain(
            relation,
            tokens,
            ids,
            merges,
            level,
            every_split=mine.every_split != theirs.every_split and merges is not None,
        ),
        tokens=tokens,
        ids=ids,
        merges=merges,
        no_merges=no_merges,
        added=_added(candidate.added, base.added),
        classes=_classes(candidate.tokens, base.tokens),
        high_ids=_high_ids(candidate.tokens, base.tokens, high_from),
        settings=_settings(*settings),
        background=level,
    )


def read_settings(data: bytes) -> Mapping[str, object] | None:
    """Parse a ``tokenizer_config.json``; None if it is not a JSON object."""
    try:
        return strict_object(data, as_python_writes=True)
    except JsonRefused:
        return None


def _facts(tokenizer: Tokenizer, name: str) -> TokenizerFacts:
    merges = tokenizer.merges
    return TokenizerFacts(
        name=name,
        file=tokenizer.file,
        form=tokenizer.form,
        kind=tokenizer.kind,
        byte_level=tokenizer.byte_level,
        tokens=tokenizer.n_tokens,
        texts=len(tokenizer.tokens),
        added=len(tokenizer.added),
        merges=None if merges is None else len(merges),
        merges_sha256=None if merges is None else merges_digest(merges),
        merges_sha256_first_1000=None if merges is None else merges_digest(merges, FIRST),
        every_split=lists_every_split(tokenizer),
        notes=tokenizer.notes,
    )


def _added(candidate: Mapping[str, int], base: Mapping[str, int]) -> AddedComparison:
    both = candidate.keys() & base.keys()
    return AddedComparison(
        overlap=overlap(candidate=len(candidate), base=len(base), shared=len(both)),
        same_id=sum(candidate[token] == base[token] for token in both),
        only_candidate=_listed(candidate, both),
        only_base=_listed(base, both),
    )


def _listed(added: Mapping[str, int], both: set[str]) -> tuple[str, ...]:
    alone = sorted((number, token) for token, number in added.items() if token not in both)
    return tuple(token[:_LISTED] for _, token in alone[:_LISTED])


def _classes(candidate: Mapping[bytes, int], base: Mapping[bytes, int]) -> tuple[ClassCount, ...]:
    both = candidate.keys() & base.keys()
    shared = census(both)
    mine, theirs = census(candidate.keys() - both), census(base.keys() - both)
    counts = []
    for name in CLASSES:
        common, left, right = (found.get(name, 0) for found in (shared, mine, theirs))
        if common or left or right:
            counts.append(
                ClassCount(
                    name=name,
                    candidate=common + left,
                    base=common + right,
                    shared=common,
                    only_candidate=left,
                    only_base=right,
                )
            )
    return tuple(counts)


def _high_ids(
    candidate: Mapping[bytes, int], base: Mapping[bytes, int], first_id: int | None
) -> HighIds | None:
    ends = max(candidate.values()) + 1, max(base.values()) + 1
    side, larger = ("candidate", candidate) if ends[0] >= ends[1] else ("base", base)
    begin = min(ends) if first_id is None else first_id
    found = [token for token, number in larger.items() if number >= begin]
    if not found:
        return None
    return HighIds(side=side, first_id=begin, tokens=len(found), classes=census(found))


def _settings(
    candidate: Mapping[str, object] | None, base: Mapping[str, object] | None
) -> tuple[Setting, ...]:
    """Compare all fields, by name; nothing if neither model has the file."""
    mine, theirs = candidate or {}, base or {}
    return tuple(
        Setting(
            name=name,
            candidate=_setting_text(mine[name]) if name in mine else None,
            base=_setting_text(theirs[name]) if name in theirs else None,
            equal=name in mine and name in theirs and _are_equal(mine[name], theirs[name]),
        )
        for name in sorted(mine.keys() | theirs.keys())
        if name != "added_tokens_decoder"  # compared as added tokens
    )


def _are_equal(candidate: object, base: object) -> bool:
    return candidate == base or json.dumps(candidate) == json.dumps(base)  # NaN is written alike, yet unequal


def _setting_text(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        value = value["content"]  # an added token with its flags
    text = json.dumps(value, ensure_ascii=True)
    if len(text) <= _LONGEST:
        return text
    digest = sha256(text.encode()).hexdigest()[:12]
    return f"{text[: _LONGEST - 30]}… ({len(text)} characters, sha256 {digest})"
