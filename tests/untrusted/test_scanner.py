from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.errors import ConfigError
from modelkin.untrusted import Scanner

MAX_DEPTH = 32

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


def scanner(text: str | bytes) -> Scanner:
    data = text.encode() if isinstance(text, str) else text
    return Scanner(data, error=lambda problem: ConfigError("c", problem))


@given(value=values, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_against_json_any_value_is_read_alike(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if len(text) > 60 and not isinstance(value, (list, dict, str)):
        return
    scan = scanner(f" {text} ")
    assert scan.value("it", max_bytes=10**6) == value
    scan.finish(padding=b" ")


@given(text=st.text(st.characters(codec="utf-8")), ascii_only=st.booleans())
def test_against_json_any_string_is_read_alike(text, ascii_only):
    assert scanner(json.dumps(text, ensure_ascii=ascii_only)).string("it") == text


@given(numbers=st.lists(st.integers(0, 10**20 - 1), max_size=8))
def test_against_json_any_numbers_are_read_alike(numbers):
    assert scanner(json.dumps(numbers)).integers("it", limit=8) == tuple(numbers)


@given(pairs=st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers(0, 9)))
def test_against_json_any_members_are_read_alike(pairs):
    scan = scanner(json.dumps(pairs))
    assert {key: scan.integer("it") for key in scan.members("all", limit=len(pairs) + 1)} == pairs


def test_a_message_has_place_and_snippet():
    with pytest.raises(ConfigError, match=r"^c: expected it as a string at byte 2 of .*, got 'nothing'$"):
        scanner("  nothing").string("it")


def test_the_deepest_value_is_read_and_one_deeper_is_refused():
    assert scanner("[" * MAX_DEPTH + "]" * MAX_DEPTH).value("it", max_bytes=1000)
    with pytest.raises(ConfigError, match=f"it is nested more than {MAX_DEPTH} levels deep"):
        scanner("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).value("it", max_bytes=1000)


@pytest.mark.parametrize("text", ["[1", '{"a":"b', "[{]", '["\\'])
def test_a_value_cut_short_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"expected the end of it|it is not valid JSON"):
        scanner(text).value("it", max_bytes=1000)


@pytest.mark.more
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_none_are_refused(number: float):
    with pytest.raises(ConfigError, match="is not a JSON number"):
        scanner(json.dumps(number)).value("it", max_bytes=1000)
