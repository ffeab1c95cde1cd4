"""Published models of one family whose layers do not have the same numbers, as plain comparison sees them."""

from __future__ import annotations

import pytest
from tests.real.published import MINILM, folder_of, gte_small, paraphrase_l3, whisper_tiny, whisper_tiny_en

import modelkin as mk
from modelkin.comparison.verdict import Conclusion

N_TOKENS = 30_522


def compared(candidate, base, **options):
    return mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(**options))


def conclusions(verdict):
    return {name: part.conclusion.value for name, part in verdict.components.items() if part.n_tests}


@pytest.fixture(scope="module")
def minilm():
    return str(folder_of(MINILM))


def test_layers_of_equal_number_show_what_little_they_share(minilm):
    """all-MiniLM-L6 has every other layer of MiniLM-L12, gte-small has all: only layer 0 is in its place."""
    result = compared(minilm, gte_small())
    assert result.verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert result.verdict.components["mlp"].layers == (0,)
    assert result.verdict.components["attention"].layers == (0,)
    assert result.verdict.components["embedding"].conclusion is Conclusion.SHARED
    assert result.verdict.log10_p < -100


@pytest.mark.parametrize("other", ["minilm", "gte"])
def test_embeddings_are_shared_where_no_layer_of_equal_number_is(other, minilm):
    result = compared(paraphrase_l3(), minilm if other == "minilm" else gte_small())
    assert result.verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert conclusions(result.verdict) == {
        "embedding": "shared",
        "norms": "shared",  # gains of different layers agree too: they act on the same residual dimensions
        "mlp": "no-evidence",
        "attention": "no-evidence",
    }
    assert result.tokenizer["shared_tokens"] == N_TOKENS


@pytest.mark.parametrize("depth", ["quick", "standard"])
@pytest.mark.parametrize("turned", [False, True])
def test_two_whispers_from_one_laboratory_are_not_accused(depth, turned):
    """Same architecture, same makers, an equal table of positions; but trained from scratch twice."""
    pair = [whisper_tiny(), whisper_tiny_en()]
    verdict = compared(*(reversed(pair) if turned else pair), depth=depth).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.related is False
    assert set(conclusions(verdict).values()) == {"no-evidence"}


def test_two_whispers_could_have_been_found_out():
    """The negative is worth something: small effects would have been seen."""
    parts = compared(whisper_tiny(), whisper_tiny_en()).verdict.components
    limits = {name: part.detection_limit for name, part in parts.items() if part.n_tests}
    assert limits["mlp"] < 0.05
    assert limits["attention"] < 0.1
    assert limits["norms"] < 0.2


def test_an_encoder_of_text_and_a_whisper_of_equal_width_are_not_accused(minilm):
    verdict = compared(whisper_tiny(), minilm).verdict
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
