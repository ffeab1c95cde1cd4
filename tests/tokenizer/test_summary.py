"""Summaries of tokenizers, from honest and from hostile files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.message import say
from modelkin.tokenizer import summarise_tokenizer


def summary(**contents: object):
    encoded = {name.replace("_json", ".json"): json.dumps(value).encode() for name, value in contents.items()}
    return summarise_tokenizer(encoded, files=tuple(encoded))


def test_a_bpe_tokenizer_is_counted():
    found = summary(
        tokenizer_json={
            "added_tokens": [{"id": 3, "content": "<s>"}],
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
        },
        tokenizer_config_json={"tokenizer_class": "LlamaTokenizerFast"},
    )
    assert (found.kind, found.class_name) == ("BPE", "LlamaTokenizerFast")
    assert (found.vocab_size, found.added_tokens, found.merges) == (3, 1, 1)
    assert found.skipped == ()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ({"vocab": {"a": 0}, "merges": []}, "BPE"),
        ({"vocab": {"a": 0}, "continuing_subword_prefix": "##"}, "WordPiece"),
        ({"vocab": [["a", 0.0]]}, "Unigram"),
        ({}, None),
    ],
)
def test_the_algorithm_of_files_without_a_type_is_known_by_its_fields(model, kind):
    assert summary(tokenizer_json={"model": model}).kind == kind


def test_a_word_list_is_counted_by_lines():
    found = summarise_tokenizer({"vocab.txt": b"[PAD]\n[UNK]\nthe\n"}, files=("vocab.txt",))
    assert found.vocab_size == 3


def test_added_tokens_are_found_in_the_settings_where_there_is_no_tokenizer_file():
    assert summary(tokenizer_config_json={"added_tokens_decoder": {"0": {}, "1": {}}}).added_tokens == 2


def test_broken_json_is_a_note_not_a_crash():
    found = summarise_tokenizer({"tokenizer.json": b"{" * 100_000}, files=("tokenizer.json",))
    assert [str(item) for item in found.skipped] == ["tokenizer.json: not valid JSON"]
    assert found.vocab_size is None


def test_settings_are_taken_as_python_writes_them_and_tokenizers_are_not():
    written = b'{"model_max_length": Infinity, "tokenizer_class": "Old", "tokenizer_class": "New"}'
    found = summarise_tokenizer({"tokenizer_config.json": written}, files=("tokenizer_config.json",))
    assert (found.class_name, found.skipped) == ("New", ())
    found = summarise_tokenizer({"tokenizer.json": written}, files=("tokenizer.json",))
    assert found.skipped == (say("file-not-json", file="tokenizer.json"),)


def test_what_was_not_read_keeps_its_reason():
    found = summarise_tokenizer({}, files=("tokenizer.json",), skipped=(say("tokenizer-unread"),))
    assert found.skipped == (say("tokenizer-unread"),)


def test_a_class_name_cannot_colour_a_terminal():
    assert summary(tokenizer_config_json={"tokenizer_class": "\x1b[31mred"}).class_name is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(tokenizer=json_values, settings_value=json_values, model=json_values)
def test_any_json_is_survived(tokenizer, settings_value, model):
    document = {**tokenizer, "model": model} if isinstance(tokenizer, dict) else tokenizer
    summary(tokenizer_json=document, tokenizer_config_json=settings_value)
