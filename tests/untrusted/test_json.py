"""Whole JSON documents of unknown authors."""

from __future__ import annotations

import json
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.untrusted import JsonRefused, strict_json, strict_object

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=values, as_python_writes=st.booleans())
def test_against_json_any_value_is_read_alike(value, as_python_writes):
    text = json.dumps(value)
    assert strict_json(text, as_python_writes=as_python_writes) == value
    assert strict_json(text.encode(), as_python_writes=as_python_writes) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1] 2", "it is not JSON"),
        (b"\xff\xfe\xfd", "it is not JSON"),
        ('{"a": 1, "a": 1}', "a key occurs twice"),
        ('[{"a": 1, "b": {"c": 1, "c": 2}}]', "a key occurs twice"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("[1e999]", "1e999 is not a JSON number"),
        ("[" + "9" * 301 + "]", "a whole number has 301 digits"),
        ("[" * 33 + "]" * 33, "nested more than 32 levels"),
        ("[" * 100_000 + "]" * 100_000, "nested more than 32 levels"),
        ('{"a":' * 33 + "1" + "}" * 33, "nested more than 32 levels"),
        ("[" + "[]," * 4_000_000 + "[]]", "more than 4,000,000 lists and objects"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_ambiguous_or_breaks_a_limit_is_refused(text, problem):
    with pytest.raises(JsonRefused, match=problem):
        strict_json(text)


def test_what_stands_at_a_limit_is_read():
    assert strict_json("[" * 32 + "]" * 32)
    assert strict_json("9" * 300) == int("9" * 300)
    assert strict_json("[[], []]", max_containers=3) == [[], []]


def test_configs_are_read_as_python_writes_them():
    found = strict_object('{"a": [0.0, Infinity, NaN], "b": 1, "b": 2}', as_python_writes=True)
    assert found["b"] == 2
    assert isinstance(limits := found["a"], list)
    assert limits[1] == math.inf
    assert math.isnan(limits[2])


@pytest.mark.parametrize("text", ["[" * 33 + "]" * 33, "9" * 301, "{"])
def test_limits_hold_for_configs_too(text):
    with pytest.raises(JsonRefused):
        strict_json(text, as_python_writes=True)


@pytest.mark.parametrize("text", ["[]", "1", '"a"', "null"])
def test_what_must_be_an_object_is_one(text):
    with pytest.raises(JsonRefused, match="not a JSON object"):
        strict_object(text)


@pytest.mark.parametrize("part", ["1,", '"a":1,', "[1],"])
def test_a_document_of_more_values_than_any_tokenizer_is_refused_before_it_is_parsed(part):
    inner = part * 2_000_001
    data = f"{{{inner}}}" if ":" in part else f"[{inner}]"
    tracemalloc.start()
    try:
        with pytest.raises(JsonRefused, match="it has more than 2,000,000 values"):
            strict_json(data.encode())
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + (1 << 20)
    finally:
        tracemalloc.stop()


def test_a_tokenizer_as_large_as_the_largest_public_one_is_read():
    tokens = ",".join(f'"t{number}":{number}' for number in range(262_145))
    merges = ",".join(['["a","b"]'] * 514_906)
    document = strict_json(f'{{"vocab":{{{tokens}}},"merges":[{merges}]}}'.encode())
    assert isinstance(document, dict)
    assert len(document["merges"]) == 514_906
