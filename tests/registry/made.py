"""Fingerprints without models, and files of tiny ones."""

from __future__ import annotations

import numpy as np

from modelkin.fingerprint import Fingerprint, FingerprintedModel, SlotRecord
from modelkin.fingerprint.recipe import DATA_BYTES, N_LAYERS, RECIPE, SLOTS


def drawn(name: str, seed: int, *, parent: Fingerprint | None = None, share: float = 0.0) -> Fingerprint:
    """Return a fingerprint of random numbers; with a parent, a share of its numbers."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(DATA_BYTES) * 32
    if parent is not None:
        own = np.frombuffer(parent.data, np.int8).astype(float)
        values = share * own + np.sqrt(1 - share**2) * values
    layers = (0, 1, 2, 16, 31)
    assert len(layers) == N_LAYERS
    return Fingerprint(
        recipe=RECIPE,
        model=FingerprintedModel(
            ref=name,
            kind="hub",
            revision=f"{seed:040x}",
            family="llama",
            model_type="llama",
            layers=32,
            hidden_size=4_096,
            vocab_size=32_000,
            parameters=6_738_415_616,
            format="safetensors",
        ),
        slots=tuple(
            SlotRecord(
                kind=slot.kind,
                layer=layers[slot.place] if slot.n_units == 64 and slot.kind != "experts" else None,
                n_units=slot.n_units,
            )
            for slot in SLOTS
        ),
        token_gram=True,
        data=np.clip(np.rint(values), -127, 127).astype(np.int8).tobytes(),
    )
