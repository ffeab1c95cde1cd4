"""Trains unrelated models that are hard for own-layers: ``python docs/own_layers_train.py`` (needs the lab).

Same config, data and order of data, different seeds; and shapes in which chance or repetition could look like
kinship: tiny widths, fewer units than dimensions, one layer used throughout, layers initialised as copies of one,
tied embeddings, layers that all start from the same numbers. Writes ``.cache/own-layers/models``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from modelkin.casework.lab.builder import Builder, encode, saved, vocabulary  # noqa: E402
from modelkin.casework.lab.recipes import load_recipes  # noqa: E402
from modelkin.casework.lab.training import Training, new_model, train  # noqa: E402

OUT = ROOT / ".cache" / "own-layers" / "models"
STEPS = 120

KINDS: dict[str, dict[str, Any]] = {
    "one-layer": {},
    "begun-as-copies": {},
    "one-beginning": {},
    "twins": {},
    "width-16": {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "head_dim": 8},
    "width-24": {"hidden_size": 24, "intermediate_size": 64, "num_attention_heads": 2, "head_dim": 8},
    "few-units": {"intermediate_size": 24},
    "deeper": {"hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 8, "num_attention_heads": 4},
    "tied-tables": {"tie_word_embeddings": True},
}
SEEDS = {"twins": 6, "one-layer": 3, "begun-as-copies": 3, "one-beginning": 3, "tied-tables": 2}
"""How many of each; five of the others."""


def main() -> None:
    """Train what is not there yet."""
    book = load_recipes()
    builder = Builder(book, OUT)
    tokenizer = builder.tokenizer(book.recipes["base"].tokenizer)
    tokens = encode(tokenizer, builder.text(book.recipes["base"].corpus))
    for kind, changes in KINDS.items():
        for seed in range(SEEDS.get(kind, 5)):
            folder = OUT / f"{kind}-{seed}"
            if (folder / "config.json").exists():
                continue
            model = _new(
                book.configs["llama"], kind, changes, vocab=len(vocabulary(tokenizer)), seed=900 + seed
            )
            trained = train(model, Training(tokens=tokens, steps=STEPS, learning_rate=3e-3, order_seed=1))
            if kind == "one-layer":
                _repeat_first(model)
            saved(model, tokenizer).write(folder)
            print(folder.name, f"{trained.first_loss:.2f} -> {trained.last_loss:.2f}", flush=True)


def _new(config: dict[str, Any], kind: str, changes: dict[str, Any], *, vocab: int, seed: int) -> Any:  # noqa: ANN401
    arguments = {**config["arguments"], **changes}
    model = new_model({**config, "arguments": arguments}, vocab=vocab, seed=seed)
    layers = model.model.layers
    if kind == "one-layer":
        for number in range(1, len(layers)):
            layers[number].self_attn = layers[0].self_attn
            layers[number].mlp = layers[0].mlp
    if kind == "begun-as-copies":
        for layer in layers[1:]:
            layer.load_state_dict(layers[0].state_dict())
    if kind == "one-beginning":  # of all models, too: a recipe without a random number in it
        _deterministic(model)
    return model


def _deterministic(model: Any) -> None:  # noqa: ANN401
    """Begin every MLP of every layer with the same rows of a cosine basis; the rest stays random."""
    import numpy as np
    import torch

    for layer in model.model.layers:
        for matrix in (layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj):
            n, m = matrix.weight.shape
            grid = np.cos(np.pi * (np.arange(n)[:, None] + 0.5) * (np.arange(m)[None] + 0.5) / max(n, m))
            order = np.random.default_rng(5).permutation(n)
            with torch.no_grad():
                matrix.weight.copy_(torch.tensor(0.07 * grid[order], dtype=torch.float32))


def _repeat_first(model: Any) -> None:  # noqa: ANN401
    """Write the one layer at every position: files do not record that modules were shared."""
    import copy

    layers = model.model.layers
    for number in range(1, len(layers)):
        layers[number].self_attn = copy.deepcopy(layers[0].self_attn)
        layers[number].mlp = copy.deepcopy(layers[0].mlp)


if __name__ == "__main__":
    main()
