"""One thing is told in the singular, wherever a text for it is: in messages and in what views say."""

import re
from string import Formatter

import pytest

from modelkin.document import load_language, read_texts
from modelkin.message import say

ENGLISH, KOREAN = load_language("en"), load_language("ko")
KEYS = sorted(key.removesuffix("-one") for key in ENGLISH.texts if key.endswith("-one"))
COUNTED = [key for key in KEYS if "{n" in ENGLISH.texts.get(key, "")]
NOUNS = "models|tensors|matrices|files|weights|segments|requests|layers|pairs|merges|tokens"


def values_of(key, n):
    """Values for all places of a text and of its singular: numbers, as most are."""
    texts = ENGLISH.texts[key], ENGLISH.texts[f"{key}-one"]
    places = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}
    return {name: 3 for name in places} | {"n": n}


@pytest.mark.parametrize("key", COUNTED)
def test_a_message_about_one_thing_is_in_the_singular(key):
    code = key.removeprefix("message.")
    one, two = (str(say(code, **values_of(key, n))) for n in (1, 2))
    assert one == ENGLISH.texts[f"{key}-one"].format_map(values_of(key, 1))
    assert two == ENGLISH.texts[key].format_map(values_of(key, 2))


@pytest.mark.parametrize(
    ("key", "one"),
    [
        ("scan.headline", "Common origin found: 1 model"),
        ("scan.passed", "1 model in 3; the first pass let 3 through to the exact test"),
        ("registry.added", "1 model added"),
        ("registry.whole", "1 segment, as it was committed"),
        ("inspection.stored_in", "3: 3 in 1 file, 3"),
        ("cost.requests_for", "1 request for 3"),
        ("text.n_layers", "1 layer"),
        ("text.more_ranges", "1 more range is in `comparison.json`."),
    ],
)
def test_a_view_that_writes_its_number_says_the_singular_too(key, one):
    """Views write numbers before they say them."""
    count = "n" if "{n}" in ENGLISH.texts[key] else "number"
    values = {name: "3" for name in values_of(key, 1) if name != "n"} | {count: "1"}
    assert ENGLISH.say(key, **values) == one
    several = values | {count: "21"}
    assert ENGLISH.say(key, **several) == ENGLISH.texts[key].format_map(several)


@pytest.mark.parametrize("key", COUNTED)
def test_no_text_for_one_thing_has_a_plural(key):
    text = ENGLISH.texts[f"{key}-one"].replace("{n}", "1")
    assert not re.search(rf"\b(?:1|one|all 1) (?:{NOUNS})\b", text)


def test_tables_without_families_count_nothing_twice():
    text = ENGLISH.say("atlas.counts", models="1", families="0", joined="0", alone="1")
    assert text == "Models: 1; in families: 0 (families: 0); without a relative here: 1."


def test_percentages_are_written_in_one_way_in_english():
    rooms = ("document", "casework.replay", "casework.studies")
    texts = [item for room in rooms for item in read_texts(f"modelkin.{room}", "texts", "en.toml").items()]
    assert [key for key, text in texts if re.search(r"[0-9}] %", text)] == []


def test_large_counts_have_their_thousands_apart():
    found = say("every-value-counted", tensors=1234, n=381_792, m=381_792)
    assert "1,234 tensors" in str(found)
    assert "381,792 of 381,792" in str(found)
    assert "381,792" in KOREAN.tell(found)
