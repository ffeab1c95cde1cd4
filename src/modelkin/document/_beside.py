"""What a comparison says beside its verdict: tokenizers and configs, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.describe.config_fields import known_fields

_MOST_FIELDS = 12
_LONGEST = 24
_WORDS = {
    "same": "the same tokens with the same ids",
    "extended": "one holds the other in its order",
    "common stock": "a part is one list in one order",
    "separate": "no more in common than separately trained ones have",
}


def tokenizer_lines(result: Comparison) -> Iterator[str]:
    """Say in a line or two what the tokenizers have in common."""
    facts = result.tokenizer
    if facts.get("same_file") is True:
        yield "tokenizers: both are the same file"
        return
    relation = facts.get("relation")
    if not isinstance(relation, str):
        yield f"tokenizers: not compared ({str(facts.get('compared', 'no')).removeprefix('no: ')})"
        return
    share = facts.get("share_of_smaller")
    yield (
        f"tokenizers: {_WORDS.get(relation, relation)} "
        f"({facts.get('candidate_tokens')} and {facts.get('base_tokens')} tokens)"
    )
    if isinstance(share, float) and relation != "same":
        yield (
            f"{share:.2f} of the smaller vocabulary is in the larger; separately trained ones show "
            f"{facts.get('share_of_smaller_in_strangers')}"
        )


def config_lines(result: Comparison) -> Iterator[str]:
    """Say how many fields of the configs differ."""
    telling, rest = len(_telling(result)), len(result.config) - len(_telling(result))
    if not result.config:
        yield "configs: no field differs"
        return
    more = f", and {rest} that only keep books" if rest else ""
    shown = f"; the first {_MOST_FIELDS} are shown" if telling > _MOST_FIELDS else ""
    yield f"configs: {telling} fields differ{more}{shown}"


def config_rows(result: Comparison) -> list[tuple[str, str, str, str]]:
    """Return the fields that differ and matter: name, both values, meaning."""
    known = known_fields()
    return [
        (
            name[:_LONGEST],
            left[:_LONGEST],
            right[:_LONGEST],
            known[name].meaning if name in known else "",
        )
        for name, (left, right) in _telling(result)[:_MOST_FIELDS]
    ]


def _telling(result: Comparison) -> list[tuple[str, tuple[str, str]]]:
    known = known_fields()
    return [
        (name, values)
        for name, values in result.config.items()
        if name not in known or known[name].group != "bookkeeping"
    ]
