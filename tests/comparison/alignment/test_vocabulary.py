"""Tokens of two models, matched by the bytes they stand for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.message import say
from modelkin.tokenizer import equal_rows, read_vocabulary, shared_tokens


def tokenizer(vocab, *, byte_level=False, **rest):
    document: dict[str, object] = {"version": "1.0", "added_tokens": []}
    if byte_level:
        document["pre_tokenizer"] = {"type": "ByteLevel"}
    return json.dumps({**document, "model": {"type": "BPE", "vocab": vocab, **rest}}).encode()


def test_byte_level_tokens_are_decoded_to_their_bytes():
    found = read_vocabulary(tokenizer({"Ġthe": 5, "Ã©": 6, "Ċ": 7}, byte_level=True))
    assert found is not None
    assert dict(found) == {b" the": 5, "é".encode(): 6, b"\n": 7}


def test_sentencepiece_tokens_are_decoded_to_the_same_bytes():
    found = read_vocabulary(tokenizer({"▁the": 3, "<0x0A>": 4, "é": 9}))
    assert found is not None
    assert dict(found) == {b" the": 3, b"\n": 4, "é".encode(): 9}


def test_tokens_of_different_tokenizers_meet_by_text():
    one = read_vocabulary(tokenizer({"Ġthe": 5, "Ġcat": 6, "x": 0}, byte_level=True))
    other = read_vocabulary(tokenizer({"▁the": 30, "▁dog": 31, "x": 7}))
    assert one is not None
    assert other is not None
    pairs = shared_tokens(one, other)
    assert list(zip(pairs.candidate, pairs.base, strict=True)) == [(0, 7), (5, 30)]
    assert len(pairs) == 2


def test_the_beginning_of_a_long_file_gives_the_tokens_that_are_whole_in_it():
    whole = tokenizer({f"token{n}": n for n in range(1000)}, merges=["a b"])
    found = read_vocabulary(whole[: len(whole) // 2])
    assert found is not None
    assert 300 < len(found) < 1000
    assert all(found[f"token{n}".encode()] == n for n in range(300))


def test_the_vocabulary_ends_where_its_object_ends():
    found = read_vocabulary(tokenizer({"a": 0, "}": 1, '"': 2}, merges=["a b"]))
    assert found is not None
    assert dict(found) == {b"a": 0, b"}": 1, b'"': 2}


def test_two_tokens_with_one_text_are_both_left_out():
    found = read_vocabulary(tokenizer({"▁": 1, " ": 2, "a": 3}))
    assert found is not None
    assert dict(found) == {b"a": 3}


@pytest.mark.parametrize("data", [b"", b"{}", b'{"model": {"vocab": [["a", 0.1]]}}', b'{"vocab": {'])
def test_what_holds_no_vocabulary_is_none(data):
    assert read_vocabulary(data) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data):
    read_vocabulary(b'{"vocab": {"a": 1, ' + data)


def test_equal_rows_pair_equal_numbers():
    pairs = equal_rows(3, how=say("same-tokenizer"))
    assert (pairs.candidate, pairs.base, pairs.how) == ((0, 1, 2), (0, 1, 2), say("same-tokenizer"))
