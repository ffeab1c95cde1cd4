"""Synthetic text with structure worth learning: invented languages, and styles of writing in them.

Nothing here comes from real text. A language is a lexicon of invented words with Zipfian frequencies and a
preference of each pair of words for what follows; a domain is a way of arranging words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from modelkin.message import say
from modelkin.structs import Fields, Refused, meant

_ONSETS: Final = [*"bdfghklmnprstvz", "br", "dr", "fl", "gr", "kl", "pr", "sk", "st", "tr", "sh", "ch"]
_VOWELS: Final = [*"aeiou", "ai", "ea", "ou"]
_CODAS: Final = ["", "", "", "n", "r", "s", "l", "m", "nd", "st"]
_CLASSES: Final = 5
_TEMPLATES: Final = (
    (0, 1, 2, 0, 1),
    (0, 3, 1, 2),
    (1, 2, 0, 3, 1),
    (4, 0, 1, 2),
    (0, 1, 4, 0, 1, 2),
    (3, 1, 2),
)
_FOLLOWERS: Final = 3
_HABIT: Final = 0.75
"""How often a word is one of the few that its two predecessors prefer; the rest is drawn by frequency."""
_BRACKETS: Final = ("()", "[]", "{}")


class CorpusSpec(Fields):
    """What a corpus is made of."""

    languages: Annotated[tuple[int, ...], Meta(max_length=99)]
    """Seeds of the invented languages; each passage is in one of them."""
    domains: Annotated[tuple[str, ...], Meta(max_length=99)]
    """Names in `DOMAINS`; each passage is in one of them."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    characters: Annotated[int, Meta(ge=0, le=10**9)]
    """Minimum length of the text."""

    def __post_init__(self) -> None:
        if not self.languages or not self.domains:
            raise Refused(say("part.language-and-domain"))
        for domain in self.domains:
            if domain not in DOMAINS:
                raise Refused(
                    say("part.domains", names=tuple(sorted(DOMAINS))), domain, hint=meant(domain, DOMAINS)
                )


class _Draws:
    """Uniform numbers one at a time, from a generator that is fast only in blocks."""

    def __init__(self, seed: Sequence[int]) -> None:
        self._rng = np.random.default_rng(list(seed))
        self._block: list[float] = []

    def uniform(self) -> float:
        if not self._block:
            self._block = self._rng.random(8192).tolist()
        return self._block.pop()

    def below(self, n: int) -> int:
        return int(self.uniform() * n)


class _Lexicon:
    """A lexicon in classes. Part of every lexicon is common to all languages, so that tokenizers overlap."""

    def __init__(self, seed: int, n_words: int = 120, n_common: int = 20) -> None:
        common = self._lexicon(_Draws([7, 0]), n_common * _CLASSES)
        own = self._lexicon(_Draws([7, 1 + seed]), (n_words - n_common) * _CLASSES)
        self.classes = [common[index::_CLASSES] + own[index::_CLASSES] for index in range(_CLASSES)]
        weights = 1.0 / np.arange(2, n_words + 2)
        self._cumulative = np.cumsum(weights / weights.sum())
        # Each language has its own frequent words.
        order = np.random.default_rng([8, seed])
        self._ranks = [order.permutation(n_words).tolist() for _ in range(_CLASSES)]
        self._seed = seed

    @staticmethod
    def _lexicon(draws: _Draws, n: int) -> list[str]:
        def syllable() -> str:
            parts = (_ONSETS, _VOWELS, _CODAS)
            return "".join(part[draws.below(len(part))] for part in parts)

        return ["".join(syllable() for _ in range(1 + draws.below(2))) for _ in range(n)]

    def word(self, kind: int, before: tuple[int, int], draws: _Draws) -> int:
        """Return the number of the next word of a class, given the numbers of the two words before it."""
        if draws.uniform() < _HABIT:
            mixed = before[0] * 7919 + before[1] * 104729 + kind * 1299709 + self._seed * 15485863
            place = (mixed * 2654435761 + draws.below(_FOLLOWERS) * 40503) % 2**32 / 2**32
        else:
            place = draws.uniform()
        rank = min(int(np.searchsorted(self._cumulative, place)), len(self._ranks[kind]) - 1)
        return int(self._ranks[kind][rank])

    def words(self, kinds: Sequence[int], draws: _Draws) -> list[str]:
        before = (draws.below(60), draws.below(60))
        found = []
        for kind in kinds:
            number = self.word(kind, before, draws)
            before = (before[1], number)
            found.append(self.classes[kind][number])
        return found


def _prose(language: _Lexicon, draws: _Draws) -> str:
    sentences = []
    for _ in range(2 + draws.below(3)):
        words = language.words(_TEMPLATES[draws.below(len(_TEMPLATES))], draws)
        # One sentence in five goes on.
        sentences.append(" ".join(words) + (", " if draws.uniform() < 0.2 else ". "))
    return "".join(sentences)


def _records(language: _Lexicon, draws: _Draws) -> str:
    """Return keys with values; the last line repeats an earlier one, so copying pays."""
    keys = language.words([0] * 4, draws)
    values = language.words([2] * 4, draws)
    lines = [f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
    return "\n".join([*lines, f"= {lines[draws.below(len(lines))]}"])


def _nested(language: _Lexicon, draws: _Draws) -> str:
    """Return nested brackets around words that recur."""
    opened: list[tuple[str, str]] = []
    text = []
    for _ in range(10):
        if opened and draws.uniform() < 0.45:  # closed a little less often than opened: brackets nest
            close, word = opened.pop()
            text.append(f" {word}{close}")
        else:
            pair = _BRACKETS[draws.below(len(_BRACKETS))]
            (word,) = language.words([1], draws)
            opened.append((pair[1], word))
            text.append(f"{pair[0]}{word} ")
    text.extend(f" {word}{close}" for close, word in reversed(opened))
    return "".join(text)


def _dialogue(language: _Lexicon, draws: _Draws) -> str:
    """Return questions whose answers take up their words in another order."""
    lines = []
    for _ in range(3):
        first, second, third = language.words((3, 1, 2), draws)
        lines.append(f"- {first} {second} {third}?\n- {third} {second}, {first}!")
    return "\n".join(lines)


DOMAINS: Final[dict[str, Callable[[_Lexicon, _Draws], str]]] = {
    "prose": _prose,
    "records": _records,
    "nested": _nested,
    "dialogue": _dialogue,
}


def corpus_text(spec: CorpusSpec) -> str:
    """Return the text of a corpus: passages of random language and domain, separated by empty lines."""
    draws = _Draws([9, spec.seed])
    languages = [_Lexicon(seed) for seed in spec.languages]
    passages: list[str] = []
    length = 0
    while length < spec.characters:
        language = languages[draws.below(len(languages))]
        passage = DOMAINS[spec.domains[draws.below(len(spec.domains))]](language, draws)
        passages.append(passage)
        length += len(passage) + 2
    return "\n\n".join(passages) + "\n"
