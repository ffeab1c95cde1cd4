"""Published weights in different containers: what is one model, what is a relative, what are strangers."""

from __future__ import annotations

import pytest
from tests.real.published import published

import modelkin as mk


def compared(candidate: str, base: str) -> mk.Comparison:
    return mk.compare(candidate=str(published(candidate)), base=str(published(base)))


COPIES = [
    ("minilm_bin", "minilm", "identical", "copy"),
    ("minilm_f16", "minilm", "shared", "precision-copy"),
    ("minilm_onnx", "minilm", "shared", "copy"),
    ("minilm_int8", "minilm", "shared", "quantised-copy"),
    ("minilm_int8_other", "minilm_bin", "shared", "quantised-copy"),
    ("minilm_int8_other", "minilm_int8", "shared", "quantised-copy"),
    ("minilm_f16", "minilm_onnx", "shared", "precision-copy"),
    ("whisper_en_pt", "whisper_en_ct2", "shared", "copy"),
    ("whisper_onnx", "whisper_ggml", "shared", "quantised-copy"),
]


@pytest.mark.parametrize(("candidate", "base", "conclusion", "relation"), COPIES)
def test_a_copy_in_another_container_is_known_as_such(candidate, base, conclusion, relation):
    result = compared(candidate, base)
    assert result.verdict.conclusion.value == conclusion
    assert result.verdict.related
    assert result.relation.kind == relation


@pytest.mark.parametrize(
    ("candidate", "base"),
    [
        ("sre", "minilm_int8"),
        ("sre", "minilm_onnx"),
        ("cloneguard", "minilm"),
        ("cloneguard", "minilm_f16"),
        ("cloneguard", "minilm_int8"),
        ("cloneguard", "sre"),
        ("rx_ft", "rx_pre"),
        ("rx_ft10k", "rx_pre"),
        ("rx_ft", "rx_ft10k"),
    ],
)
def test_a_fine_tune_is_shared_and_no_copy(candidate, base):
    result = compared(candidate, base)
    assert result.verdict.conclusion.value == "shared"
    assert result.relation.kind not in ("copy", "precision-copy", "quantised-copy")
    if base == "minilm_int8":  # training of a few per cent hardly rises above such levels
        assert result.relation.kind == "unknown"
    elif candidate != "sre":
        assert result.relation.kind == "fine-tune"


def test_a_table_that_a_published_fine_tune_left_alone_is_named():
    """Its card says that all-MiniLM-L6-v2 was fine-tuned; all but the token table moved."""
    found = {finding.kind: finding for finding in compared("cloneguard", "minilm").relation.findings}
    assert "fine-tune" in found
    assert found["frozen"].numbers["modules"] == "embedding"


@pytest.mark.parametrize(
    ("candidate", "base", "conclusion"),
    [
        ("whisper_ggml", "whisper_en_pt", "no-evidence"),
        ("whisper_onnx", "whisper_en_ct2", "no-evidence"),
        ("rx_pre", "minilm_int8", "not-testable"),
        ("smollm2", "gemma3", "not-testable"),
        ("smollm2", "tinyllama", "not-testable"),
        ("stories15M", "tinyllama", "not-testable"),
        ("gemma3", "tinyllama", "not-testable"),
        ("rx_pre", "minilm_bin", "not-testable"),
    ],
)
def test_strangers_stay_strangers_in_every_container(candidate, base, conclusion):
    verdict = compared(candidate, base).verdict
    assert not verdict.related
    assert verdict.conclusion.value == conclusion
