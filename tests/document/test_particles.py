"""Korean particles follow the last sound of what stands before them."""

import re

import pytest

from modelkin.document import load_language, read_texts
from modelkin.document.particles import FORMS, MARKS, Sound, ending, filled, particle

KOREAN = load_language("ko")
AFTER_VALUE = r"\}['\u2019\u201d)\]`]*"


VOWELS = """
    레이어 나무 2 4 5 9 -0.5 12,345 31% MLP GGUF k mlp 7b
    demo:base Llama Solar gpt2 text float 'foo' `k_proj.weight` loop root sheet week
"""
CONSONANTS = """
    행 힣 0 3 6 10 1000 0.83 10^-9 LLM n Qwen bf16 name fine-tuning format stack [8,16]
    '--out' timeout warm-up group deep keep notebook
"""
RIEULS = "모델 1 7 8 SQL org/tiny-model a/file Mistral “모델”"
UNKNOWN = ") 漢 ㄱ ?"
WORDS = [
    *((word, Sound.VOWEL) for word in (*VOWELS.split(), "3.1 MB")),
    *((word, Sound.CONSONANT) for word in (*CONSONANTS.split(), "5 min")),
    *((word, Sound.RIEUL) for word in RIEULS.split()),
    *((word, None) for word in (*UNKNOWN.split(), "")),
    # What stands in brackets after a word is not read; alone, it is.
    ("모델(org/a)", Sound.RIEUL),
    ("레이어(0-10 (표))", Sound.VOWEL),
    ("(8, 16)", Sound.CONSONANT),
]


@pytest.mark.parametrize(("word", "expected"), WORDS)
def test_the_last_sound_is_heard(word, expected):
    assert ending(word) is expected


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("{x}을(를) 봄", "모델", "모델을 봄"),
        ("{x}을(를) 봄", "demo:base", "demo:base를 봄"),
        ("{x}이(가) 큼", "0.83", "0.83이 큼"),
        ("'{x}'(이)라는 것", "foo", "'foo'라는 것"),
        ("'{x}'(이)라는 것", "행", "'행'이라는 것"),
        ("{x}(으)로 씀", "행", "행으로 씀"),
        ("{x}(으)로 씀", "모델", "모델로 씀"),
        ("{x}(으)로 씀", "8", "8로 씀"),
        ("{x}이어(여)야 함", "4", "4여야 함"),
        ("{x}이었(였)으나", "3", "3이었으나"),
        ("{x}과(와) 다름", "漢", "漢과(와) 다름"),
    ],
)
def test_a_text_takes_the_particle_that_its_value_needs(text, value, expected):
    assert filled(text, {"x": value}) == expected


def test_a_name_that_looks_like_a_particle_is_left_alone():
    assert filled("{x}을(를) 봄", {"x": "a을(를)b"}) == "a을(를)b를 봄"


def test_every_particle_is_told_in_its_two_forms():
    for mark, (after_consonant, after_vowel) in FORMS.items():
        assert (particle(mark, "행"), particle(mark, "나무")) == (after_consonant, after_vowel)


def texts():
    rooms = ("document", "casework.replay", "casework.studies")
    return [item for room in rooms for item in read_texts(f"modelkin.{room}", "texts", "ko.toml").items()]


def test_a_particle_after_a_value_names_both_forms():
    """A value ends in any letter: what follows it is written with a mark, and with one of those above."""
    particles = "을|를|은|는|이|가|과|와|으로|로|이라는|라는|이라고|라고|이어야|여야|였|이었"
    fixed = re.compile(rf"{AFTER_VALUE}(?:{particles})(?![가-힣(])")
    other = re.compile(r"를\(을\)|는\(은\)|가\(이\)|와\(과\)")
    assert [key for key, text in texts() if fixed.search(text) or other.search(text)] == []


def test_particles_are_chosen_only_after_values():
    """After a fixed word the form is known, and some texts are used as they stand, without being filled."""
    after_value = re.compile(f"{AFTER_VALUE}$")
    found = [(key, text[: mark.start()]) for key, text in texts() for mark in MARKS.finditer(text)]
    assert [key for key, before in found if not after_value.search(before)] == []


def test_messages_are_told_with_the_right_particles():
    assert KOREAN.say("problem.none-called", name="'--out'") == "'--out'이라는 것이 없음"
    assert KOREAN.say("problem.none-called", name="'foo'") == "'foo'라는 것이 없음"
    assert KOREAN.say("problem.none-called", name="'norm'") == "'norm'이라는 것이 없음"
