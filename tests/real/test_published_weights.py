"""Weights that others trained and published: what is known about them is found, and nobody is accused."""

from __future__ import annotations

import pytest
from tests.real.published import ENSEMBLE, FINE_TUNE, MINILM, folder_of, weights_of

import modelkin as mk
from modelkin.architecture import looks_fixed
from modelkin.comparison.verdict import Conclusion
from modelkin.message import say


def compared(candidate, base, **options):
    return mk.compare(candidate=str(candidate), base=str(base), options=mk.CompareOptions(**options))


@pytest.fixture(scope="module")
def fine_tune():
    """Compare all-MiniLM-L6-v2 with a model whose makers say that they fine-tuned it."""
    return compared(folder_of(FINE_TUNE), folder_of(MINILM))


def test_the_documented_fine_tune_shares_everything_that_can_be_tested(fine_tune):
    verdict = fine_tune.verdict
    assert verdict.conclusion is Conclusion.SHARED
    parts = {name: part.conclusion for name, part in verdict.components.items() if part.n_tests}
    assert parts == dict.fromkeys(("norms", "embedding", "mlp", "attention"), Conclusion.SHARED)
    assert verdict.log10_p < -100


def test_the_fine_tune_is_no_copy(fine_tune):
    assert fine_tune.relation.kind == "fine-tune"
    frozen = {item.kind: item.numbers for item in fine_tune.relation.findings}["frozen"]
    assert frozen["values_equal"] > 100_000
    details = fine_tune.relation.details
    assert details["values_equal"] < details["values_compared"]
    assert fine_tune.verdict.effect.value > 0.99


def test_tokenizers_that_were_saved_anew_are_matched_by_text(fine_tune):
    assert fine_tune.tokenizer["same_file"] is False
    assert fine_tune.tokenizer["paired"] == say("equal-text")
    assert fine_tune.tokenizer["shared_tokens"] > 30_000


def test_the_order_of_the_two_does_not_change_the_conclusion(fine_tune):
    turned = compared(folder_of(MINILM), folder_of(FINE_TUNE))
    assert turned.verdict.conclusion is fine_tune.verdict.conclusion
    assert turned.verdict.components.keys() == fine_tune.verdict.components.keys()


def test_gains_alone_show_the_fine_tune():
    verdict = compared(folder_of(FINE_TUNE), folder_of(MINILM), depth="quick").verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL  # gains alone are never the whole
    assert verdict.components["norms"].conclusion is Conclusion.SHARED


def test_a_model_is_identical_with_itself():
    verdict = compared(folder_of(MINILM), folder_of(MINILM)).verdict
    assert verdict.conclusion is Conclusion.IDENTICAL


def test_the_table_of_positions_is_no_evidence():
    """The one tensor that training never touched is known as such, by role and by its values."""
    with mk.open_model(str(folder_of(MINILM))) as model:
        positions = next(name for name in model.index if name.endswith("position_ids"))
        assert str(looks_fixed(model.tensor(positions))) == "consecutive integers"
        assert [entry.fixed for entry in model.architecture.tensors if entry.tensor == positions] == [True]


def test_an_encoder_and_an_undeclared_family_cannot_be_tested_against_each_other():
    comparison = compared(weights_of(ENSEMBLE)[0], folder_of(MINILM))
    assert comparison.verdict.conclusion is Conclusion.NOT_TESTABLE
    assert "unknown" in str(comparison.verdict.summary)
