"""Rows of tokens: which rows of two models stand for the same token, and which of them are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Role
from modelkin.describe.measures import generator
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import TensorSlice
from modelkin.tokenizer import TokenPairs, equal_rows, read_vocabulary, shared_tokens

from ._selection import RoleChoice

TOKEN_ROLES = (Role.EMBEDDING, Role.OUTPUT_HEAD)
VOCABULARY_BYTES = 4_000_000
"""Of a long tokenizer the beginning is enough: some thousand shared tokens."""
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRows:
    """The same tokens in two models, as slices to read; row k of both is the same token."""

    first: TensorSlice
    second: TensorSlice
    n_shared: int
    how: Message


def token_rows(
    models: tuple[Model, Model], names: tuple[str, str], choice: RoleChoice, *, count: int, seed: int
) -> TokenRows | str:
    """Choose shared tokens at random and say where their rows are; or why there are none."""
    if choice.role not in TOKEN_ROLES or choice.minus is not None or choice.part != "weight":
        return "only embedding and output head have rows for tokens"
    entries = [model.architecture.find(choice.role) for model in models]
    if entries[0] is None or entries[1] is None:
        return "a model has no such tensor"
    pairs = pair_tokens(*models)
    if isinstance(pairs, str):
        return pairs
    tensors = [entry.tensor for entry in entries if entry is not None]
    limits = [model.index[tensor].n_rows for model, tensor in zip(models, tensors, strict=True)]
    usable = [
        (mine, theirs)
        for mine, theirs in zip(pairs.candidate, pairs.base, strict=True)
        if mine < limits[0] and theirs < limits[1]
    ]
    if len(usable) < 3:
        return f"only {len(usable)} tokens are shared"
    order = generator(seed, "tokens", *names).permutation(len(usable))[:count]
    chosen = [usable[at] for at in np.sort(order)]
    return TokenRows(
        first=TensorSlice.scattered(tensors[0], [mine for mine, _ in chosen]),
        second=TensorSlice.scattered(tensors[1], [theirs for _, theirs in chosen]),
        n_shared=len(usable),
        how=pairs.how,
    )


def pair_tokens(first: Model, second: Model) -> TokenPairs | str:
    """Pair the tokens of two models by their text, or say why that is not possible."""
    vocabularies = []
    for model in (first, second):
        found = read_vocabulary(model.start_of(_TOKENIZER, limit=VOCABULARY_BYTES))
        if found is None:
            break
        vocabularies.append(found)
    if len(vocabularies) == 2:
        return shared_tokens(*vocabularies)
    sizes = {model.architecture.sizes.get("vocab") for model in (first, second)}
    files = [model.file_size(_TOKENIZER) for model in (first, second)]
    size = sizes.pop()
    if files == [None, None] and not sizes and size:
        return equal_rows(size, how=say("no-tokenizer-equal"))
    return "a tokenizer.json is missing or of unknown form, so tokens cannot be matched by text"
