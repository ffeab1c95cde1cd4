"""Forms of a comparison of tokenizers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.reading import File, NamesOf
from modelkin.structs import Fields
from modelkin.tokenizer import Tokenizer, TokenizerComparison, TokenizerFacts, shown

_TOP = 10
_SAMPLES = 20
_RUN_SAMPLES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BothTokenizers:
    """Two tokenizers and what their comparison found."""

    aliases: tuple[str, str]
    found: TokenizerComparison
    one: Tokenizer
    other: Tokenizer

    @property
    def merges_common(self) -> int | None:
        """Merges that both have."""
        return self.found.merges.overlap.shared if self.found.merges else None

    @property
    def merges_of_other(self) -> float | None:
        """Share of the second one's merges that the first has."""
        return self.found.merges.overlap.of_base if self.found.merges else None

    @property
    def sizes(self) -> tuple[int, int]:
        """Tokens of both."""
        return self.one.n_tokens, self.other.n_tokens


class TokenizerForm(Fields, tag_field="form", tag="tokenizer-form"):
    """A further file about two tokenizers."""

    file: File
    names: NamesOf = NamesOf()
    """What keys call the models: their aliases, if nothing is said."""

    def write(self, bench: Bench, both: BothTokenizers) -> None:
        bench.folder.json(self.file, self.document(both))

    def document(self, both: BothTokenizers) -> dict[str, Any]:
        """Make the document."""
        raise NotImplementedError


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class TokenizerFingerprints(TokenizerForm, tag="fingerprints"):
    """Digests, overlap, equal ids, id shifts of visible ASCII tokens, and the longest run at the best one."""

    def document(self, both: BothTokenizers) -> dict[str, Any]:
        found, tokens = both.found, both.found.tokens
        offsets = _ascii_offsets(both.one.tokens, both.other.tokens)
        smaller = min(both.sizes)
        best = offsets[0][0] if offsets else None
        return {
            "A_fingerprint": _fingerprint(found.candidate),
            "B_fingerprint": _fingerprint(found.base),
            "token_set_overlap": {
                "intersection": tokens.shared,
                "union": tokens.union,
                "jaccard": tokens.jaccard,
                "overlap_vs_smaller": tokens.of_smaller,
            },
            "same_id_exact_matches": {
                "matches": found.ids.same_id,
                "denom": smaller,
                "ratio": _ratio(found.ids.same_id, smaller),
            },
            "ascii_offset_histogram_top10": [
                {"offset": offset, "count": count} for offset, count in offsets[:_TOP]
            ],
            "best_ascii_offset": best,
            "best_offset_longest_contiguous_run": None
            if best is None
            else _longest_run(both.one.tokens, both.other.tokens, best),
        }


def _fingerprint(facts: TokenizerFacts) -> dict[str, Any]:
    return {
        "model_id": facts.name,
        "tokenizer_model_type": facts.kind,
        "vocab_size": facts.tokens,
        "merges_len": facts.merges,
        "merges_sha256_first1000": facts.merges_sha256_first_1000,
        "merges_sha256_all": facts.merges_sha256,
    }


def _ascii_offsets(one: Mapping[bytes, int], other: Mapping[bytes, int]) -> list[tuple[int, int]]:
    """Count id offsets of tokens of visible ASCII letters, most common first."""
    counts = Counter(
        other[token] - number
        for token, number in one.items()
        if token in other and all(33 <= byte <= 126 for byte in token)
    )
    return sorted(counts.items(), key=lambda item: (-item[1], abs(item[0])))


def _longest_run(one: Mapping[bytes, int], other: Mapping[bytes, int], offset: int) -> dict[str, Any]:
    """Find the longest run of neighbouring ids that stand for the same tokens at an offset."""
    there = sorted((number, token) for token, number in one.items() if other.get(token) == number + offset)
    runs = [
        [item for _, item in group]
        for _, group in groupby(enumerate(there), key=lambda item: item[1][0] - item[0])
    ]
    run = max(runs, key=len, default=[])
    sample = [shown(token) for _, token in run[:_RUN_SAMPLES]]
    return {
        "run_len": len(run),
        "run_start_in_A": run[0][0] if run else None,
        "sample_tokens_A": sample,
        "sample_tokens_B": sample,
    }


class TokenizerExpansion(TokenizerForm, tag="expansion"):
    """How much of the second vocabulary and of its merges the first has, and where."""

    def document(self, both: BothTokenizers) -> dict[str, Any]:
        found, (mine, theirs) = both.found, both.sizes
        equal = found.merges.first_1000_equal if found.merges else None
        return {
            "vocab_size_A": mine,
            "vocab_size_B": theirs,
            "vocab_diff": mine - theirs,
            "b_tokens_found_in_a": found.tokens.shared,
            "b_tokens_found_in_a_ratio": _ratio(found.tokens.shared, theirs),
            "b_tokens_same_or_close_id": found.ids.within_100,
            "most_common_position_diffs": [list(item) for item in found.ids.shifts],
            "merges_len_A": found.candidate.merges,
            "merges_len_B": found.base.merges,
            "merges_intersection": both.merges_common,
            "merges_b_in_a": both.merges_common,
            "merges_b_in_a_ratio": both.merges_of_other,
            "first_1000_merges_exact_match": equal,
            "first_1000_merges_exact_match_ratio": None if equal is None else equal / 1000,
        }


class TokenizerMapping(TokenizerForm, tag="mapping"):
    """Ids of shared tokens: the most common shift, the first tokens one by one, merges separately."""

    def document(self, both: BothTokenizers) -> dict[str, Any]:
        found, (mine, theirs) = both.found, both.sizes
        first, second = (self.names.get(alias, alias) for alias in both.aliases)
        shared = sorted(
            (number, token) for token, number in both.other.tokens.items() if token in both.one.tokens
        )
        overlap = found.merges.overlap if found.merges else None
        return {
            "vocab_size_A": mine,
            "vocab_size_B": theirs,
            "vocab_diff": mine - theirs,
            "common_tokens": found.tokens.shared,
            "common_ratio_over_B": _ratio(found.tokens.shared, theirs),
            "dominant_id_shift": found.ids.shifts[0][0] if found.ids.shifts else None,
            "tokens_at_dominant_shift": found.ids.shifts[0][1] if found.ids.shifts else 0,
            "first_1000_consistent_mapping": found.ids.first_1000_at_shift,
            "first_1000_consistent_ratio": found.ids.first_1000_at_shift / 1000,
            "sample_token_mappings": [
                {
                    "token": shown(token),
                    f"id_in_{second}": number,
                    f"id_in_{first}": both.one.tokens[token],
                    "shift": both.one.tokens[token] - number,
                }
                for number, token in shared[:_SAMPLES]
            ],
            "most_common_shifts": _shifts(found),
            "merges_len_A": found.candidate.merges,
            "merges_len_B": found.base.merges,
            "merges_common": both.merges_common,
            "merges_only_in_A_count": overlap.only_candidate if overlap else None,
            "merges_only_in_B_count": overlap.only_base if overlap else None,
            "merges_B_coverage_in_A": both.merges_of_other,
        }


def _shifts(found: TokenizerComparison) -> list[dict[str, int]]:
    return [{"shift": shift, "count": count} for shift, count in found.ids.shifts]


class TokenizerShifts(TokenizerForm, tag="shifts"):
    """Sizes, common tokens, the most common shifts of ids, common merges."""

    def document(self, both: BothTokenizers) -> dict[str, Any]:
        found, (mine, theirs) = both.found, both.sizes
        return {
            "vocab_A": mine,
            "vocab_B": theirs,
            "vocab_diff": mine - theirs,
            "common_tokens": found.tokens.shared,
            "common_ratio": _ratio(found.tokens.shared, theirs),
            "top_shifts": _shifts(found),
            "merges_A": found.candidate.merges,
            "merges_B": found.base.merges,
            "merges_common": both.merges_common,
            "merges_B_in_A_ratio": both.merges_of_other,
        }


AnyTokenizerForm = TokenizerFingerprints | TokenizerExpansion | TokenizerMapping | TokenizerShifts
