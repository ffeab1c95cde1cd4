"""Renamed models: relatives are still found, and no stranger is accused, at any depth."""

import numpy as np
import pytest
from tests.comparison.renamed import anonymous, in_order_of_use, own_words, renamed, source
from tests.places import ZOO
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.comparison.methods import Skipped
from modelkin.comparison.verdict import GUESSED, Conclusion

MODELS = load_zoo(ZOO)
CHANGES = {
    "anonymous": anonymous,
    "anonymous, in order": lambda model: anonymous(model, order=in_order_of_use),
    "own words": own_words,
    "prefix": lambda model: renamed(model, lambda name: f"net.{name}"),
}
RELATIVES = [
    ("finetune-light", "base"),
    ("qwen2-tuned", "qwen2-base"),
    ("gpt2-tuned", "gpt2-base"),
    ("bert-tuned", "bert-base"),
]
STRANGERS = [
    ("twin-1", "base"),
    ("qwen2-twin", "qwen2-base"),
    ("gpt2-twin", "gpt2-base"),
    ("bert-twin", "bert-base"),
    ("twin-2", "twin-1"),
    ("corpus-1", "base"),
    ("heads8-1", "heads8-2"),
]
CASES = [
    ("anonymous", True, "standard"),
    ("anonymous", False, "deep"),
    ("anonymous", True, "full"),
    ("anonymous, in order", True, "deep"),
    ("own words", True, "deep"),
    ("prefix", False, "deep"),
]
"""How both or one are renamed, and how deep is looked."""


def compared(pair, change, *, both, depth="standard", config=True):
    mine, theirs = (MODELS[name].load() for name in pair)
    return mk.compare(
        candidate=source(change(mine), "candidate", config=config),
        base=source(change(theirs) if both else theirs, "base", config=config or not both),
        options=mk.CompareOptions(depth=depth),
    )


@pytest.mark.parametrize("both", marked([False, True], bool), ids=["one", "both"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pair", RELATIVES, ids="-".join)
def test_renamed_relatives_are_found(pair, change, both):
    verdict = compared(pair, CHANGES[change], both=both).verdict
    assert verdict.related
    assert verdict.conclusion in (Conclusion.SHARED, Conclusion.SHARED_PARTIAL)


@pytest.mark.parametrize("case", marked(CASES, lambda case: case[0] != "prefix" and case[2] != "full"))
@pytest.mark.parametrize("pair", STRANGERS[:4], ids="-".join)
def test_renamed_strangers_are_not_accused(pair, case):
    change, both, depth = case
    verdict = compared(pair, CHANGES[change], both=both, depth=depth).verdict
    assert not verdict.related


@pytest.mark.parametrize("pair", STRANGERS, ids="-".join)
def test_renamed_strangers_without_a_config_are_not_accused(pair):
    verdict = compared(pair, anonymous, both=True, depth="deep", config=False).verdict
    assert not verdict.related


def test_a_guess_is_said_in_every_record():
    result = compared(RELATIVES[0], anonymous, both=False)
    assert GUESSED in result.verdict.limitations
    assert (result.candidate.guessed, result.base.guessed) == (True, False)
    assert any(note.code == "guessed-roles" for note in result.candidate.skipped)
    again = compared(RELATIVES[0], CHANGES["prefix"], both=False)
    assert GUESSED not in again.verdict.limitations


def test_an_inspection_says_that_it_guessed():
    found = mk.inspect_model(mk.open_model(source(anonymous(MODELS["base"].load()), "w")))
    assert found.guessed
    assert any(note.code == "guessed-roles" for note in found.notes)


@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
def test_an_equal_random_table_that_is_taken_for_an_embedding_accuses_nobody(both):
    mine, theirs = (MODELS[name].load() for name in ("twin-1", "base"))
    name = "model.embed_tokens.weight"
    table = np.random.default_rng(0).normal(size=mine.tensors[name].shape).astype(np.float32)
    mine, theirs = (model.with_tensors({name: table}) for model in (mine, theirs))
    result = mk.compare(
        candidate=source(anonymous(mine), "candidate"),
        base=source(anonymous(theirs) if both else theirs, "base"),
    )
    assert not result.verdict.related
    reasons = {test.reason.code for test in result.evidence if isinstance(test, Skipped)}
    assert "guessed-equal-table" in {code.rpartition(".")[2] for code in reasons}
