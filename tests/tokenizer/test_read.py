"""Every published form of a tokenizer becomes the same value; what is none is refused."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.errors import TokenizerError
from modelkin.tokenizer import read_tokenizer, read_vocabulary, tokenizer_files
from modelkin.tokenizer import reading as reading
from modelkin.tokenizer._value import TokenTable

BYTE_LEVEL = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]}}


def hf(model, **rest):
    return json.dumps({"version": "1.0", **rest, "model": model}).encode()


def one(data, name="tokenizer.json"):
    return read_tokenizer({name: data})


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, value):
    """Write one field of protobuf: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(pieces, model_type=2):
    data = b""
    for text, kind in pieces:
        score = varint(2 << 3 | 5) + struct.pack("<f", -1.0)
        data += field(1, field(1, text.encode()) + score + (field(3, kind) if kind != 1 else b""))
    return data + field(2, field(3, model_type) + field(4, 100)) + field(3, field(1, b"nmt_nfkc"))


# -- forms ---------------------------------------------------------------------------------------------


def test_byte_level_bpe_is_read_as_bytes():
    vocab = {"Ġthe": 5, "Ã©": 6, "Ċ": 7, "a": 8}
    found = one(hf({"type": "BPE", "vocab": vocab, "merges": ["Ġ the"]}, **BYTE_LEVEL))
    assert (found.kind, found.form, found.byte_level) == ("BPE", "tokenizer.json", True)
    assert dict(found.tokens) == {b" the": 5, "é".encode(): 6, b"\n": 7, b"a": 8}
    assert found.merges == ("Ġ the",)
    assert len(found) == 4


def test_a_decoder_alone_may_say_that_tokens_are_bytes():
    found = one(hf({"type": "BPE", "vocab": {"Ġa": 0}, "merges": []}, decoder={"type": "ByteLevel"}))
    assert dict(found.tokens) == {b" a": 0}


def test_merges_as_pairs_are_the_same_as_merges_as_text():
    vocab = {"a": 0, "b": 1, "ab": 2}
    text, pairs = ({"type": "BPE", "vocab": vocab, "merges": m} for m in (["a b"], [["a", "b"]]))
    assert one(hf(text)).merges == one(hf(pairs)).merges == ("a b",)


def test_unigram_ids_are_places_in_the_list():
    found = one(hf({"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁the", -2.5]]}))
    assert (found.kind, dict(found.tokens)) == ("Unigram", {b"<unk>": 0, b" the": 1})
    assert found.merges is None
    assert str(found.no_merges) == "a Unigram has no merges"


def test_pieces_of_words_lose_their_mark_and_words_begin_with_a_space():
    vocab = {"[CLS]": 0, "play": 1, "##ing": 2, "##": 3}
    found = one(hf({"type": "WordPiece", "vocab": vocab, "continuing_subword_prefix": "##"}))
    assert dict(found.tokens) == {b"[CLS]": 0, b" play": 1, b"ing": 2, b" ##": 3}


def test_added_tokens_are_kept_apart():
    added = [{"id": 9, "content": "<|end|>", "special": True}]
    found = one(hf({"type": "BPE", "vocab": {"a": 0}, "merges": []}, added_tokens=added))
    assert dict(found.added) == {"<|end|>": 9}
    assert dict(found.tokens) == {b"a": 0}


def test_a_byte_token_gives_way_to_a_token_of_the_same_text():
    found = one(hf({"type": "BPE", "vocab": {"<0x41>": 1, "A": 7, "<0xFF>": 2}, "merges": []}))
    assert dict(found.tokens) == {b"A": 7, b"\xff": 2}
    assert found.ambiguous == frozenset()
    assert found.n_tokens == 3


def test_two_tokens_with_one_text_are_counted_and_named():
    found = one(hf({"type": "BPE", "vocab": {"▁a": 5, " a": 3}, "merges": []}))
    assert dict(found.tokens) == {b" a": 3}
    assert found.ambiguous == {b" a"}
    assert "1 text has several tokens" in str(found.notes[0])


def test_an_id_that_stands_twice_is_noted():
    found = one(hf({"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}))
    assert [str(note) for note in found.notes] == ["1 token has an id that another token also has"]


def test_sentencepiece_is_read_from_its_protobuf():
    data = sentencepiece([("<unk>", 2), ("<s>", 3), ("<0x0A>", 6), ("▁the", 1), ("안", 1)])
    found = one(data, "tokenizer.model")
    assert (found.form, found.kind) == ("sentencepiece", "BPE")
    assert dict(found.tokens) == {b"<unk>": 0, b"<s>": 1, b"\n": 2, b" the": 3, "안".encode(): 4}
    assert dict(found.added) == {"<unk>": 0, "<s>": 1}
    assert found.notes == ()
    assert one(sentencepiece([("a", 1)], 1), "x.model").kind == "Unigram"


def test_tiktoken_is_told_from_sentencepiece_by_its_bytes():
    lines = [
        f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate([b"!", b" the", b"\xff"])
    ]
    found = one("\n".join(lines).encode(), "tokenizer.model")
    assert (found.form, found.byte_level) == ("tiktoken", True)
    assert dict(found.tokens) == {b"!": 0, b" the": 1, b"\xff": 2}


def test_tekken_ids_come_after_the_special_tokens_and_end_with_the_vocabulary():
    vocab = [{"rank": n, "token_bytes": base64.b64encode(bytes([n])).decode()} for n in range(5)]
    config = {"default_vocab_size": 13, "default_num_special_tokens": 10}
    special = [{"rank": 1, "token_str": "<s>", "is_control": True}]
    data = json.dumps({"config": config, "vocab": vocab, "special_tokens": special}).encode()
    found = one(data, "tekken.json")
    assert dict(found.tokens) == {b"\x00": 10, b"\x01": 11, b"\x02": 12}
    assert dict(found.added) == {"<s>": 1}
    assert one(data, "other.json").form == "tekken"


def test_old_files_are_read_together():
    vocab = json.dumps({"Ġlow": 1, "er": 2}).encode()
    found = read_tokenizer({"vocab.json": vocab, "merges.txt": b"#version: 0.2\n\xc4\xa0 low\r\ne r\n"})
    assert dict(found.tokens) == {b" low": 1, b"er": 2}
    assert found.merges == ("Ġ low", "e r")


def test_a_list_of_words_is_read_by_line():
    found = one(b"[PAD]\nthe\r\n##s\n", "vocab.txt")
    assert (found.kind, dict(found.tokens)) == ("WordPiece", {b"[PAD]": 0, b" the": 1, b"s": 2})
    assert one(b"the\ncat\n", "vocab.txt").kind is None


def test_the_beginning_of_a_file_and_the_whole_agree():
    vocab = {f"Ġtoken{n}": n for n in range(500)}
    data = hf({"type": "BPE", "vocab": vocab, "merges": []}, **BYTE_LEVEL)
    quick = read_vocabulary(data)
    assert quick is not None
    assert dict(quick) == dict(one(data).tokens)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["tokenizer.json", "tokenizer.model", "vocab.json"], ("tokenizer.json",)),
        (["vocab.json", "merges.txt"], ("vocab.json", "merges.txt")),
        (["vocab.json"], ("vocab.json",)),
        (["other.tiktoken", "deep/a.tiktoken"], ("other.tiktoken",)),
        (["config.json", "merges.txt"], ()),
    ],
)
def test_the_most_telling_file_is_chosen(names, expected):
    assert tokenizer_files(names) == expected


# -- what is refused -----------------------------------------------------------------------------------

A_LOT = 10**12


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "it is not JSON"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b"{}", "expected an object 'model'"),
        (b'{"model": ' * 100_000, "not JSON|nested"),
        (hf({"type": "BPE", "merges": []}), "expected a vocabulary, got none"),
        (hf({"type": "BPE", "vocab": {}, "merges": []}), "expected a vocabulary, got none"),
        (hf({"type": "BPE", "vocab": {"a": "0"}}), "expected a token's id"),
        (hf({"type": "BPE", "vocab": {"a": True}}), "expected a token's id"),
        (hf({"type": "BPE", "vocab": {"a": -1}}), "expected a token's id from 0 to 2"),
        (hf({"type": "BPE", "vocab": {"a": A_LOT}}), "expected a token's id from 0 to 2"),
        (hf({"type": "BPE", "vocab": {"a": 0.5}}), "got 0.5"),
        (hf({"type": "Unigram", "vocab": [[1, 2]]}), "expected a token as text, got int"),
        (hf({"type": "Unigram", "vocab": ["a"]}), "expected pairs of token and score"),
        (hf({"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}), "expected a merge of two tokens"),
        (hf({"type": "BPE", "vocab": {"a": 0}, "merges": "a b"}), "expected a list of at most"),
        (hf({"type": "BPE", "vocab": {"a": 0}}, added_tokens=[3]), "expected a list of added tokens"),
        (hf({"type": "BPE", "vocab": {"a": 0}}, added_tokens=[{"id": "x"}]), "expected added tokens with"),
    ],
)
def test_a_malformed_tokenizer_json_is_refused(data, problem):
    with pytest.raises(TokenizerError, match=problem):
        one(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\n", "expected a number of at most 10 bytes"),
        (b"\n\x7f", "expected 127 bytes at byte 2, got the end"),
        (b"\n" + b"\xff" * 11, "expected a number of at most 10 bytes"),
        (field(1, field(1, b"\xff\xfe")), "expected pieces in UTF-8"),
        (field(1, field(1, 5)), "expected a message or text"),
        (field(1, field(1, b"a") + field(3, b"x")), "expected a number, got a field of type 2"),
        (field(1, field(1, b"a")) + b"\x00", "expected a field number, got 0"),
        (field(1, field(1, b"a")) + b"\x0b", "expected a protobuf type, got 3"),
    ],
)
def test_a_malformed_sentencepiece_file_is_refused(data, problem):
    with pytest.raises(TokenizerError, match=problem):
        one(data, "tokenizer.model")


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("x.tiktoken", b"IQ== 0\nrubbish\n", "in line 2"),
        ("x.tiktoken", b"IQ== 0\nI!Q== 1\n", "expected tokens in base64"),
        ("x.tiktoken", b"IQ== 0\nIg== " + b"9" * 400, "in line 2"),
        ("tekken.json", b'{"config": {}, "vocab": []}', "expected a whole number 'default_vocab_size'"),
        ("tekken.json", b'{"config": 1, "vocab": []}', "expected 'config' and a list"),
        ("vocab.txt", b"\xff\xff", "expected text in UTF-8"),
        ("vocab.txt", b"", "expected a vocabulary, got none"),
        ("x.bin", b"PK\x03\x04", "got something else"),
    ],
)
def test_other_malformed_files_are_refused(name, data, problem):
    with pytest.raises(TokenizerError, match=problem):
        one(data, name)


def test_merges_that_are_no_pairs_are_refused():
    with pytest.raises(TokenizerError, match="expected two tokens on each line"):
        read_tokenizer({"vocab.json": b'{"a": 0}', "merges.txt": b"a b c\n"})


def test_a_file_that_would_fill_the_memory_is_refused_before_it_is_parsed():
    with pytest.raises(TokenizerError, match="more than 4,000,000 lists and objects"):
        one(b'{"model": [' + b"[]," * 4_000_001)


def test_a_huge_file_is_refused(monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTES", 10)
    with pytest.raises(TokenizerError, match="expected at most 10 bytes"):
        one(hf({"type": "BPE", "vocab": {"a": 0}}))


@given(
    st.binary(max_size=200),
    st.sampled_from(["tokenizer.json", "tokenizer.model", "tekken.json", "vocab.txt"]),
)
def test_any_bytes_are_read_or_refused(data, name):
    try:
        found = one(data, name)
    except TokenizerError:
        return
    assert found.n_tokens >= len(found.tokens) > 0


@given(st.lists(st.binary(max_size=12), max_size=4))
def test_any_fields_of_protobuf_are_read_or_refused(parts):
    data = b"".join(field(1, part) for part in parts) or b"\n\x00"
    try:
        found = one(data, "tokenizer.model")
    except TokenizerError:
        return
    assert found.form == "sentencepiece"


@pytest.mark.more
@pytest.mark.parametrize("form", ["tokenizer.json", "vocab.json"])
def test_a_vocabulary_far_above_any_public_one_is_refused_before_it_is_copied(form, monkeypatch):
    copied: list[object] = []
    monkeypatch.setattr(TokenTable, "add_text", lambda *given: copied.append(given))
    vocab = "{" + ",".join(f'"{number:x}":{number}' for number in range(1_000_001)) + "}"
    text = vocab if form == "vocab.json" else f'{{"model": {{"type": "BPE", "vocab": {vocab}}}}}'
    with pytest.raises(TokenizerError, match="expected at most 1,000,000 tokens, got 1,000,001"):
        read_tokenizer({form: text.encode()})
    assert copied == []
