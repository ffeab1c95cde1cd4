"""Published models in GGUF: what they are is known, and their copies and strangers are told apart."""

from __future__ import annotations

import numpy as np
import pytest
from tests.formats.gguf_models import converted
from tests.real.published import published

import modelkin as mk
from modelkin.tokenizer import read_tokenizer

KNOWN = {
    "smollm2": {"family": "llama", "layers": 30, "residual": 576, "heads": 9, "kv_heads": 3, "vocab": 49152},
    "gemma3": {"family": "gemma2", "layers": 18, "residual": 640, "heads": 4, "kv_heads": 1, "vocab": 262144},
    "tinyllama": {
        "family": "llama",
        "layers": 22,
        "residual": 2048,
        "heads": 32,
        "kv_heads": 4,
        "vocab": 32000,
    },
}
PARAMETERS = {"smollm2": 134_515_008, "gemma3": 268_098_176, "tinyllama": 1_100_048_384}
TOKENS = {"smollm2": b" the", "gemma3": b" the", "tinyllama": b" the"}


@pytest.mark.parametrize("key", KNOWN)
def test_family_and_sizes_are_those_of_the_model(key):
    with mk.open_model(str(published(key))) as model:
        found = model.architecture
        sizes = {"family": found.family, "layers": found.n_layers, **found.sizes}
        assert {name: sizes.get(name) for name in KNOWN[key]} == KNOWN[key]
        assert model.index.n_parameters == PARAMETERS[key]
        assert not found.unknown
        assert model.totals().bytes_fetched <= 11 << 20


@pytest.mark.parametrize("key", KNOWN)
def test_gains_and_embeddings_hold_numbers_of_a_trained_model(key):
    with mk.open_model(str(published(key))) as model:
        gains = model.tensor("model.layers.3.input_layernorm.weight")
        rows = model.tensor("model.embed_tokens.weight", rows=slice(1000, 1200))
    assert np.isfinite(rows).all()
    assert 0.001 < rows.std() < 1
    assert gains.std() > 0.001


@pytest.mark.parametrize("key", KNOWN)
def test_the_tokenizer_has_a_token_for_each_row(key):
    with mk.open_model(str(published(key))) as model:
        data = model.read_file("tokenizer.json", limit=64 << 20)
    assert data is not None
    tokenizer = read_tokenizer({"tokenizer.json": data})
    assert TOKENS[key] in tokenizer.tokens
    assert tokenizer.n_tokens == KNOWN[key]["vocab"]


def test_gains_of_gemma_are_those_of_transformers():
    """They were published in bfloat16, which one plus a gain is too fine for: the right ones are short."""
    with mk.open_model(str(published("gemma3"))) as model:
        gains = model.tensor("model.layers.0.self_attn.q_norm.weight")
    assert is_short(gains).mean() > 0.99
    assert is_short(gains + np.float32(1)).mean() < 0.9
    assert any("1 was subtracted" in note for note in map(str, model.weights.notes))


def is_short(values):
    """Say which numbers are whole in bfloat16: the lower half of their bits is empty."""
    return values.astype(np.float32).view(np.uint32) & 0xFFFF == 0


@pytest.fixture(scope="module")
def smollm2_again(tmp_path_factory):
    """Quantise SmolLM2 once more, from what was read of it."""
    path = published("smollm2")
    made = {}
    with mk.open_model(str(path)) as model:
        arrays = {name: model.tensor(name) for name in model.index}
        assert model.config is not None
        for quant in ("Q8_0", "Q4_0", "F16"):
            folder = tmp_path_factory.mktemp(quant)
            made[quant] = converted(folder / f"{quant}.gguf", arrays, model.config, quant=quant)
    return made


@pytest.mark.parametrize(
    ("quant", "kind"), [("F16", "precision-copy"), ("Q8_0", "quantised-copy"), ("Q4_0", "quantised-copy")]
)
def test_a_model_quantised_again_is_a_copy(smollm2_again, quant, kind):
    result = mk.compare(candidate=str(smollm2_again[quant]), base=str(published("smollm2")))
    assert result.verdict.related
    for part in ("attention", "mlp", "norms"):
        assert result.verdict.components[part].conclusion.value == "shared"
    assert result.relation.kind == kind
