"""Korean particles: their form follows the last sound of what stands before them, be it a name or a number.

Texts write both forms as Korean forms do, ``{name}을(를)``, and one of them is chosen here. If nobody
can know how a name is read (a Chinese character, a sign), both stay, which is correct Korean as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

FORMS: Mapping[str, tuple[str, str]] = {
    "을(를)": ("을", "를"),
    "은(는)": ("은", "는"),
    "이(가)": ("이", "가"),
    "과(와)": ("과", "와"),
    "이어(여)": ("이어", "여"),
    "이었(였)": ("이었", "였"),
    "(으)로": ("으로", "로"),
    "(이)": ("이", ""),
}
"""How a text writes a particle -> its form after a consonant, and after a vowel."""
MARKS = re.compile("|".join(re.escape(mark) for mark in FORMS))
_AS_AFTER_VOWEL = "(으)로"
"""The particle for which a final ㄹ counts as a vowel: 서울로."""


class Sound(Enum):
    """How a word ends when it is read aloud in Korean."""

    VOWEL = "vowel"
    CONSONANT = "consonant"
    RIEUL = "rieul"


_FIRST, _LAST, _FINALS, _RIEUL = ord("가"), ord("힣"), 28, 8
"""Syllables stand in the order of their finals, of which there are 28; the eighth is ㄹ."""
_DIGITS = dict(
    zip(
        "0123456789",  # 영 일 이 삼 사 오 육 칠 팔 구
        (
            *(Sound.CONSONANT, Sound.RIEUL, Sound.VOWEL, Sound.CONSONANT, Sound.VOWEL),
            *(Sound.VOWEL, Sound.CONSONANT, Sound.RIEUL, Sound.RIEUL, Sound.VOWEL),
        ),
        strict=True,
    )
)
_LETTERS = {"l": Sound.RIEUL, "r": Sound.RIEUL, "m": Sound.CONSONANT, "n": Sound.CONSONANT}
"""Letters whose names end in a consonant: 엘, 알, 엠, 엔."""
_SIGNS = {"%": Sound.VOWEL, "°": Sound.VOWEL, "²": Sound.CONSONANT}
"""퍼센트, 도, 제곱."""
_POWER = re.compile(r"\^-?\d+$")
"""A power of ten is read with 제곱 at its end."""
_WORD = re.compile(r"[A-Za-z]+$")
_ENDS = (
    (re.compile(r"le?$"), Sound.RIEUL),  # 모델, 파일
    (re.compile(r"(?:[mn]e?|ng)$"), Sound.CONSONANT),  # 노름, 네임, 트레이닝
    (re.compile(r"(?:^|[^aeiou])[aeiou](?:[ptc]|c?k)$"), Sound.CONSONANT),  # 포맷, 스택; but 텍스트, 플로트
    (re.compile(r"(?:out|oup|eep|ook)$"), Sound.CONSONANT),  # 아웃, 그룹, 노트북; but 루프, 루트, 위크
)
"""How loan words are written in Hangul, in four rules; any other ending has a vowel added: 베이스."""
_CLOSING = "'\"\u2019\u201d`*]}>.,:;!?… \n"
"""Quotes, brackets and stops, which are not read."""


def filled(text: str, values: Mapping[str, object]) -> str:
    """Fill the places of a text and choose its particles; what is in the values is left as it is."""
    made, end = "", 0
    for mark in MARKS.finditer(text):
        made += text[end : mark.start()].format_map(values)
        made += particle(mark[0], made)
        end = mark.end()
    return made + text[end:].format_map(values)


def particle(mark: str, before: str) -> str:
    """Return the form of a particle after a text, or both forms if it is not known how that is read.

    Examples
    --------
    >>> particle("을(를)", "모델"), particle("을(를)", "demo:base"), particle("(으)로", "F16")
    ('을', '를', '으로')
    """
    sound = ending(before)
    if sound is None:
        return mark
    after_consonant, after_vowel = FORMS[mark]
    if sound is Sound.VOWEL or (sound is Sound.RIEUL and mark == _AS_AFTER_VOWEL):
        return after_vowel
    return after_consonant


def ending(text: str) -> Sound | None:
    """Say how a text ends when it is read; quotes are not read, nor is a remark in brackets."""
    read = _without_remark(text.rstrip(_CLOSING)).rstrip(_CLOSING)
    if not read:
        return None
    last = read[-1]
    if _FIRST <= ord(last) <= _LAST:
        final = (ord(last) - _FIRST) % _FINALS
        return Sound.VOWEL if final == 0 else Sound.RIEUL if final == _RIEUL else Sound.CONSONANT
    if _POWER.search(read):
        return Sound.CONSONANT
    word = _WORD.search(read)
    return _of_word(word[0]) if word else _DIGITS.get(last, _SIGNS.get(last))


def _without_remark(text: str) -> str:
    """Leave out a remark in brackets at the end, unless nothing else is there to be read."""
    if not text.endswith(")"):
        return text
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == ")") - (text[i] == "(")
        if depth == 0:
            before = text[:i].rstrip(_CLOSING)
            return _without_remark(before) if before else text.rstrip(")")
    return text.rstrip(")")


def _of_word(word: str) -> Sound:
    """Say how a word in Latin letters ends; capitals and words without a vowel are read letter by letter."""
    small = word.lower()
    if len(word) == 1 or word.isupper() or not re.search("[aeiouy]", small):
        return _LETTERS.get(small[-1], Sound.VOWEL)
    return next((sound for end, sound in _ENDS if end.search(small)), Sound.VOWEL)
