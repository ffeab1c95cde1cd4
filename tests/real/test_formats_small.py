"""Published weights of CTranslate2, whisper.cpp and llama2.c, read as they were published."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.real.published import published

import modelkin as mk
from modelkin.errors import NotFound, UnsupportedFormat

Array = NDArray[Any]

STORIES_TOKENS = 32_000
ONCE_UPON_A_TIME = [1, 9038, 2501, 263, 931, 29892, 727, 471, 263, 2217, 7826, 4257, 365, 2354]
"""Once upon a time, there was a little girl named Lily."""


def test_whisper_tiny_is_read_from_ggml():
    with mk.open_model(str(published("whisper_ggml"))) as model:
        found = mk.inspect_model(model)
        assert (found.format, model.architecture.family) == ("ggml", "whisper")
        assert found.unknown == ()
        assert len(model.index) == 167
        assert found.tokenizer.vocab_size == 50_256
        # The mel filters and most of the file are not read.
        assert model.totals().bytes_fetched < 2_000_000


def test_whisper_tiny_en_is_read_from_ctranslate2():
    with mk.open_model(str(published("whisper_en_ct2"))) as model:
        found = mk.inspect_model(model)
        assert (found.format, model.architecture.family) == ("ctranslate2", "whisper")
        assert found.unknown == ()
        assert model.config is not None
        assert model.config["model_type"] == "whisper"
        # What CTranslate2 itself notes is kept.
        assert "alignment_heads" in model.config
        # Keys have no bias: the stored zeros are left out, queries and values are not zero.
        assert "model.decoder.layers.0.self_attn.k_proj.bias" not in model.index
        for part in "qv":
            assert np.abs(model.tensor(f"model.decoder.layers.0.self_attn.{part}_proj.bias")).max() > 0.01


def test_stories15m_is_read_from_llama2c():
    with mk.open_model(str(published("stories15M"))) as model:
        found = mk.inspect_model(model)
        assert (found.format, model.architecture.family) == ("llama2.c", "llama")
        assert found.unknown == ()
        assert (found.parameters, model.architecture.n_layers) == (15_191_712, 6)
        assert model.index["model.embed_tokens.weight"].shape == (STORIES_TOKENS, 288)
        assert model.totals().bytes_fetched < 1_000


def log_likelihood(model: mk.Model, tokens: list[int], *, beside: bool) -> float:
    """Run the model on tokens: mean log-probability of each after those before it.

    Parameters
    ----------
    model, tokens
        What is run on what.
    beside
        Turn neighbouring dimensions together, as Meta's code does; else those half a head apart, as
        transformers does.
    """
    weight = {name: model.tensor(name).astype(np.float64) for name in model.index}
    n, heads, half = len(tokens), 6, 24
    angles = np.arange(n)[:, None] / 10_000 ** (np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def turned(rows: Array) -> Array:
        rows = rows.reshape(n, heads, 2 * half)
        left, right = (rows[..., 0::2], rows[..., 1::2]) if beside else (rows[..., :half], rows[..., half:])
        return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)

    def normed(rows: Array, name: str) -> Array:
        scaled: Array = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight[name]
        return scaled

    x = weight["model.embed_tokens.weight"][tokens]
    for layer in range(6):
        here = f"model.layers.{layer}."
        h = normed(x, f"{here}input_layernorm.weight")
        q, k, v = (h @ weight[f"{here}self_attn.{part}_proj.weight"].T for part in "qkv")
        scores = np.einsum("ihd,jhd->hij", turned(q), turned(k)) / np.sqrt(2 * half)
        scores = np.exp(scores + np.triu(np.full((n, n), -1e9), 1))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("hij,jhd->ihd", scores, v.reshape(n, heads, 2 * half)).reshape(n, -1)
        x = x + mixed @ weight[f"{here}self_attn.o_proj.weight"].T
        h = normed(x, f"{here}post_attention_layernorm.weight")
        gate, up = (h @ weight[f"{here}mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weight[f"{here}mlp.down_proj.weight"].T
    logits = normed(x, "model.norm.weight") @ weight["model.embed_tokens.weight"].T
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return float(np.mean([logits[place, token] for place, token in enumerate(tokens[1:])]))


def test_queries_of_stories15m_are_in_the_order_of_transformers():
    """The model tells its stories best when rotary positions turn what transformers would turn."""
    with mk.open_model(str(published("stories15M"))) as model:
        right, wrong = (log_likelihood(model, ONCE_UPON_A_TIME, beside=beside) for beside in (False, True))
    assert right > -0.15
    assert wrong < -0.3


def compared(candidate: str, base: str) -> mk.Comparison:
    try:
        return mk.compare(candidate=str(published(candidate)), base=str(published(base)))
    except (UnsupportedFormat, NotFound) as error:
        pytest.skip(f"not read here: {error}")
