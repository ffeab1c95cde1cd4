"""Tokenizers of models: which file is read, what a comparison records, what it survives."""

import json

import pytest
from tests.support import llama_files

import modelkin as mk
from modelkin.describe import load_tokenizer, tokenizer_record
from modelkin.errors import NotFound, TokenizerError
from modelkin.source import MemorySource


def tokenizer(n_tokens, *, start=0):
    vocab = {f"Ġword{n}": n - start for n in range(start, start + n_tokens)}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return json.dumps({"decoder": {"type": "ByteLevel"}, "model": model}).encode()


def source(**files):
    return MemorySource({name.replace("_json", ".json"): data for name, data in files.items()})


def llama(data, seed=0):
    return MemorySource(llama_files(seed=seed) | {"tokenizer.json": data})


def compared(left, right, **options):
    return mk.compare(candidate=left, base=right, options=mk.CompareOptions(**options))


def test_a_model_without_tokenizer_is_told():
    with pytest.raises(NotFound, match="expected a tokenizer, got none"):
        mk.compare_tokenizers(source(config_json=b"{}"), source(tokenizer_json=tokenizer(3)))


def test_a_file_beyond_the_limit_is_not_read():
    model = mk.open_model(source(tokenizer_json=tokenizer(30)))
    with pytest.raises(NotFound, match=r"tokenizer.json: not read: it has \d+ bytes, more than 10"):
        load_tokenizer(model, limit=10)
    assert model.totals().bytes_fetched == 0
    record = tokenizer_record(model, model, limit=10)
    assert str(record["compared"]).startswith("no: tokenizer.json: not read")


def test_tokenizers_that_were_read_are_compared_as_they_are():
    model = mk.open_model(source(tokenizer_json=tokenizer(30)))
    read = load_tokenizer(model)
    assert mk.compare_tokenizers(read, model).relation.value == "same"


def test_settings_that_are_no_json_count_as_absent():
    odd = source(tokenizer_json=tokenizer(5), tokenizer_config_json=b"{")
    assert mk.compare_tokenizers(odd, odd).settings == ()


def test_a_comparison_records_the_tokenizers_and_keeps_its_old_keys():
    result = compared(llama(tokenizer(60)), llama(tokenizer(60, start=40), seed=1))
    facts = result.tokenizer
    assert (facts["compared"], facts["relation"]) == ("yes", "separate")
    assert (facts["candidate_tokens"], facts["texts_shared"]) == (60, 20)
    assert facts["share_of_smaller"] == pytest.approx(1 / 3)
    assert "No verdict on weights follows." in str(facts["reading"])
    assert facts["shared_tokens"] == 20
    assert facts["same_file"] is False
    assert mk.Comparison.from_json(result.to_json()) == result


def test_at_quick_depth_no_vocabulary_is_read():
    facts = compared(llama(tokenizer(60)), llama(tokenizer(61), seed=1), depth="quick").tokenizer
    assert str(facts["compared"]) == "no: not at this stage"
    assert "relation" not in facts


@pytest.mark.parametrize("bad", [b"{", b'{"model": {"vocab": {"a": -1}}}', b"\xff" * 100, b""])
def test_a_hostile_tokenizer_does_not_stop_a_comparison_and_does_not_change_it(bad):
    good = compared(llama(tokenizer(60)), llama(tokenizer(60), seed=1))
    result = compared(llama(bad), llama(tokenizer(60), seed=1))
    assert str(result.tokenizer["compared"]).startswith("no: tokenizer.json: ")
    assert result.verdict.related == good.verdict.related


def test_a_hostile_tokenizer_alone_is_an_error():
    with pytest.raises(TokenizerError, match="it is not JSON"):
        mk.compare_tokenizers(source(tokenizer_json=b"{"), source(tokenizer_json=b"{"))


def test_equal_tokenizers_do_not_make_strangers_relatives():
    result = compared(llama(tokenizer(60)), llama(tokenizer(60), seed=1))
    assert result.tokenizer["relation"] == "same"
    assert result.verdict.related is not True
