"""Independent models of the zoo under one mask, whose zeros were filled: none is reported as a relative."""

import numpy as np
import pytest
from tests.comparison.methods.test_sizes import coded
from tests.places import ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.comparison.methods import _norm_profile, axis
from modelkin.source import MemorySource


def is_table(name):
    return any(word in name for word in ("embed_tokens", "word_embeddings", "wte", "lm_head"))


def is_gain(name):
    return any(word in name.lower() for word in ("norm", "ln_"))


def masked(model, density, filling, *, seed, chosen):
    """Multiply tensors by a mask, the same for all models of these shapes, and fill its zeros."""
    changed, noise = {}, np.random.default_rng([seed, 99])
    for number, (name, values) in enumerate(sorted(model.tensors.items())):
        if chosen(name):
            kept = np.random.default_rng([3, number]).random(values.shape) < density
            under = (values * kept).astype(np.float32)
            if filling == "int8":
                changed[name] = coded(under, bits=8)
            else:
                filled = float(filling) * values.std() * noise.normal(size=values.shape) * ~kept
                changed[name] = (under + filled).astype(np.float32)
    return model.with_tensors(changed)


def verdicts(pair, density, filling, monkeypatch, *, chosen, depth):
    """Return the verdict without what is known of small places, and with it."""
    zoo = load_zoo(ZOO)
    models = [
        masked(zoo[name].load(), density, filling, seed=seed, chosen=chosen) for seed, name in enumerate(pair)
    ]
    candidate, base = (
        MemorySource(model.files(), name=name) for model, name in zip(models, pair, strict=True)
    )

    def judged():
        return mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(depth=depth)).verdict

    with monkeypatch.context() as patch:
        patch.setattr(axis, "given_small_places", lambda test, *_, **__: test)
        patch.setattr(_norm_profile, "given_small_gains", lambda test, *_, **__: test)
        unguarded = judged()
    return unguarded, judged()


@pytest.mark.more
@pytest.mark.parametrize(
    ("pair", "density", "filling"),
    every(
        3,
        [
            (("base", "twin-1"), 0.8, "0.05"),
            (("base", "twin-1"), 0.05, "0.05"),
            (("bert-base", "bert-twin"), 0.97, "0"),
            (("bert-base", "bert-twin"), 0.9, "int8"),
            (("gpt2-base", "gpt2-twin"), 0.8, "0.05"),
            (("moe-base", "moe-twin"), 0.9, "0.02"),
            (("gemma-base", "gemma-twin"), 0.8, "0.05"),
        ],
    ),
    ids=str,
)
def test_strangers_with_one_mask_on_their_token_tables_are_strangers(pair, density, filling, monkeypatch):
    unguarded, verdict = verdicts(pair, density, filling, monkeypatch, chosen=is_table, depth="standard")
    assert unguarded.related  # the trap is there
    assert not verdict.related


@pytest.mark.parametrize(
    ("density", "filling"), [(0.05, "0"), (0.5, "0"), (0.9, "0"), (0.5, "0.2"), (0.9, "0.2")]
)
def test_strangers_with_one_mask_on_their_gains_are_strangers(density, filling, monkeypatch):
    unguarded, verdict = verdicts(
        ("deep-1", "deep-2"), density, filling, monkeypatch, chosen=is_gain, depth="quick"
    )
    assert unguarded.related  # the trap is there
    assert not verdict.related
