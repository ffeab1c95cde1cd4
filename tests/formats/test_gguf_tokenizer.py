"""The tokenizer inside a GGUF file is read like the tokenizer.json of the original."""

import json

import pytest
from tests.places import ZOO

import modelkin as mk
from modelkin.formats.gguf import tokenizer as tokenizer_module
from modelkin.source import MemorySource
from modelkin.tokenizer import read_tokenizer, read_vocabulary

from .gguf_bytes import STRING, GgufBytes, array, scalar, string
from .gguf_models import converted_zoo


def opened(**keys):
    values = {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    made = GgufBytes(keys={"general.architecture": string("llama"), **values})
    return mk.open_model(MemorySource({"m.gguf": made.build()})).weights.files


def tokens(*texts):
    return array(STRING, texts)


def test_the_vocabulary_is_that_of_the_original(tmp_path):
    model = mk.open_model(str(converted_zoo(tmp_path, "base", "Q8_0")))
    held = model.read_file("tokenizer.json", limit=1 << 20)
    assert held is not None
    original = (ZOO / "base" / "tokenizer.json").read_bytes()
    mine, theirs = (read_tokenizer({"tokenizer.json": data}) for data in (held, original))
    assert mine.tokens == theirs.tokens
    assert mine.merges == theirs.merges
    assert mine.added == theirs.added
    assert (mine.kind, mine.byte_level) == (theirs.kind, theirs.byte_level)
    paired = [read_vocabulary(data) for data in (held, original)]
    assert paired[0] is not None
    assert paired[0] == paired[1]


def test_sentencepiece_tokens_keep_their_meaning():
    files = opened(
        model=string("llama"),
        tokens=tokens("<unk>", "<s>", "<0x0A>", "▁the", "é"),
        token_type=array(5, [2, 3, 6, 1, 1]),
    )
    read = read_tokenizer({"tokenizer.json": files["tokenizer.json"]})
    assert read.kind == "BPE"
    assert (read.tokens[b" the"], read.tokens["é".encode()], read.tokens[b"\n"]) == (3, 4, 2)
    assert dict(read.added) == {"<s>": 1}


def test_tokens_added_behind_the_trained_ones_are_kept_apart():
    files = opened(
        model=string("gpt2"),
        tokens=tokens("a", "Ġb", "<|x|>", "<|y|>", "[PAD4]"),
        token_type=array(5, [1, 1, 3, 4, 5]),
        merges=tokens("a b"),
    )
    read = read_tokenizer({"tokenizer.json": files["tokenizer.json"]})
    assert dict(read.tokens) == {b"a": 0, b" b": 1}
    assert dict(read.added) == {"<|x|>": 2, "<|y|>": 3}
    assert read.merges == ("a b",)


def test_word_pieces_are_written_as_bert_does():
    files = opened(model=string("bert"), tokens=tokens("[CLS]", "▁play", "ing"))
    assert json.loads(files["tokenizer.json"])["model"]["vocab"] == {"[CLS]": 0, "play": 1, "##ing": 2}
    read = read_tokenizer({"tokenizer.json": files["tokenizer.json"]})
    assert (read.kind, read.tokens[b" play"], read.tokens[b"ing"]) == ("WordPiece", 1, 2)


def test_unigram_tokens_have_their_scores():
    files = opened(model=string("t5"), tokens=tokens("▁a", "b"), scores=array(6, [-1.5, float("nan")]))
    assert json.loads(files["tokenizer.json"])["model"]["vocab"] == [["▁a", -1.5], ["b", 0.0]]
    assert read_tokenizer({"tokenizer.json": files["tokenizer.json"]}).kind == "Unigram"


def test_bytes_that_are_no_text_stay_apart():
    made = GgufBytes(keys={"general.architecture": string("llama"), "tokenizer.ggml.model": string("llama")})
    raw = b"\x09\0\0\0\x08\0\0\0\x02\0\0\0\0\0\0\0" + b"\x01\0\0\0\0\0\0\0\xff" + b"\x01\0\0\0\0\0\0\0\xfe"
    made.keys["tokenizer.ggml.tokens"] = raw
    files = mk.open_model(MemorySource({"m.gguf": made.build()})).weights.files
    assert len(json.loads(files["tokenizer.json"])["model"]["vocab"]) == 2


def test_settings_name_special_tokens_and_the_template():
    made = GgufBytes(
        keys={
            "general.architecture": string("llama"),
            "tokenizer.ggml.model": string("gpt2"),
            "tokenizer.ggml.tokens": tokens("a", "<e>"),
            "tokenizer.ggml.eos_token_id": scalar(4, 1),
            "tokenizer.ggml.bos_token_id": scalar(4, 77),
            "tokenizer.ggml.add_bos_token": scalar(7, True),
            "tokenizer.chat_template": string("{{ x }}"),
        }
    )
    files = mk.open_model(MemorySource({"m.gguf": made.build()})).weights.files
    assert json.loads(files["tokenizer_config.json"]) == {
        "eos_token": "<e>",
        "add_bos_token": True,
        "chat_template": "{{ x }}",
    }


def test_absurdly_many_tokens_are_no_tokenizer(monkeypatch):
    monkeypatch.setattr(tokenizer_module, "MAX_TOKENS", 2)
    assert len(opened(model=string("gpt2"), tokens=tokens("a", "b"))) == 2
    assert len(opened(model=string("gpt2"), tokens=tokens("a", "b", "c"))) == 0


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"model": string("rwkv"), "tokens": tokens("a")},
        {"model": string("gpt2")},
        {"model": string("gpt2"), "tokens": array(4, [1])},
    ],
)
def test_without_a_known_tokenizer_there_are_no_files(keys):
    files = opened(**keys)
    assert (list(files), len(files)) == ([], 0)
    with pytest.raises(KeyError, match=r"tokenizer\.json"):
        _ = files["tokenizer.json"]
