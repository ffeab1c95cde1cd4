"""Changes of the token rows: more of them, in another order, or initialised afresh."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab.checkpoint import Checkpoint, Floats

from .layout import axes_of

_NUMBERED = ("bos_token_id", "eos_token_id", "pad_token_id")


def extend_vocabulary(checkpoint: Checkpoint, *, n_new: int, rng: np.random.Generator) -> Checkpoint:
    """Return the model with random token rows appended. Preserves the logits of the old tokens.

    New rows have the mean and the spread of the old ones. The tokenizer is unchanged: the new rows belong to
    no token, as in a padded vocabulary.
    """
    changed: dict[str, Floats] = {}
    for name, array in _token_tensors(checkpoint).items():
        noise = rng.standard_normal((n_new, *array.shape[1:]), dtype=np.float32)
        changed[name] = np.concatenate([array, array.mean(axis=0) + array.std(axis=0) * noise])
    return checkpoint.with_tensors(changed, vocab_size=int(checkpoint.config["vocab_size"]) + n_new)


def pad_vocabulary(checkpoint: Checkpoint, *, multiple: int) -> Checkpoint:
    """Return the model with rows of zeros up to the next multiple. Preserves the logits of the old tokens."""
    n_old = int(checkpoint.config["vocab_size"])
    n_new = -n_old % multiple
    changed = {
        name: np.concatenate([array, np.zeros((n_new, *array.shape[1:]), dtype=np.float32)])
        for name, array in _token_tensors(checkpoint).items()
    }
    return checkpoint.with_tensors(changed, vocab_size=n_old + n_new)


def reorder_vocabulary(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Return the model with its tokens under other numbers. Preserves the function, up to those numbers.

    Token rows, ``tokenizer.json`` and the special tokens of the config change together, so that every text
    gets the same probability as before.
    """
    if checkpoint.tokenizer is None:
        raise ValueError("checkpoint must have a tokenizer: without it the rows have no names to keep")
    order = rng.permutation(int(checkpoint.config["vocab_size"]))
    number = np.argsort(order)
    changed = {name: array[order] for name, array in _token_tensors(checkpoint).items()}
    special = {
        key: int(number[old]) for key in _NUMBERED if isinstance(old := checkpoint.config.get(key), int)
    }
    return Checkpoint(
        config={**checkpoint.config, **special},
        tensors={**checkpoint.tensors, **changed},
        tokenizer=_renumbered(checkpoint.tokenizer, number),
    )


def renew_embeddings(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Return the model with all token rows, of input and output, redrawn. Changes the function."""
    return checkpoint.with_tensors(
        {
            name: array.std() * rng.standard_normal(array.shape, dtype=np.float32)
            for name, array in _token_tensors(checkpoint).items()
        }
    )


def _token_tensors(checkpoint: Checkpoint) -> dict[str, Floats]:
    return {
        name: array for name, array in checkpoint.tensors.items() if axes_of(name, array.ndim)[0] == "vocab"
    }


def _renumbered(tokenizer_json: str, number: NDArray[np.intp]) -> str:
    tokenizer: dict[str, Any] = json.loads(tokenizer_json)
    vocab = {token: int(number[old]) for token, old in tokenizer["model"]["vocab"].items()}
    tokenizer["model"]["vocab"] = dict(sorted(vocab.items(), key=lambda item: item[1]))
    added = [{**token, "id": int(number[token["id"]])} for token in tokenizer["added_tokens"]]
    tokenizer["added_tokens"] = sorted(added, key=lambda token: int(token["id"]))
    return json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
