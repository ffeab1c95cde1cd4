"""``modelkin tokenizers`` on models and on single files."""

import json

import jsonschema
import pytest

from modelkin.document.results import schema

VOCAB = {f"Ġword{n}": n for n in range(300)}


def tokenizer(vocab):
    model = {"type": "BPE", "vocab": vocab, "merges": ["Ġ w"]}
    return json.dumps({"decoder": {"type": "ByteLevel"}, "model": model})


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    for name, vocab in (("one", VOCAB), ("two", VOCAB | {"Ġmore": 300})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_text(tokenizer(vocab))
        (tmp_path / name / "tokenizer_config.json").write_text(json.dumps({"name": name}))
    (tmp_path / "ranks.tiktoken").write_text("IHdvcmQw 0\nIHdvcmQx 1\n")
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)


def test_two_folders_are_compared(run):
    status, out, _ = run("tokenizers", "./two", "./one")
    assert status == 0
    assert "One vocabulary contains the other in the same order" in out
    assert "separately trained" in out
    assert "Settings that differ" in out
    assert "No verdict on weights follows." in " ".join(out.split())


def test_json_follows_its_schema(run):
    status, out, _ = run("tokenizers", "./two", "./one", "--json")
    document = json.loads(out)
    jsonschema.Draft202012Validator(schema("modelkin.tokenizers/1")).validate(document)
    assert status == 0
    assert document["relation"] == "extended"
    assert document["tokens"]["shared"] == 300
    assert document["high_ids"]["tokens"] == 1


def test_single_files_of_any_form_are_compared(run):
    status, out, _ = run("tokenizers", "one/tokenizer.json", "ranks.tiktoken", "--json", "--high-from", "298")
    document = json.loads(out)
    assert status == 0
    assert document["tokens"]["shared"] == 2
    assert document["no_merges"] == "base: a file of ranked tokens has no list of merges"
    assert document["high_ids"]["tokens"] == 2


def test_verbose_shows_the_first_ids(run):
    _, out, _ = run("tokenizers", "./one", "./one", "-v")
    assert "' word0'" in out
    assert "+0 (300)" in out


@pytest.mark.parametrize(("other", "status", "says"), [("./empty", 3, "got none"), ("bad.json", 4, "JSON")])
def test_what_cannot_be_read_ends_with_its_code(run, other, status, says):
    got, out, err = run("tokenizers", "./one", other)
    assert got == status
    assert says in err
    assert out == ""
