"""Models of the zoo, and models derived by arithmetic, as sources in memory."""

from __future__ import annotations

from functools import cache

from tests.places import ZOO

from modelkin import MemorySource
from modelkin.casework.lab import load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs


@cache
def loaded(name: str) -> Checkpoint:
    """Return a model of the zoo."""
    return load_zoo(ZOO)[name].load()


def source(model: Checkpoint | str, name: str = "", dtype: StoredAs = "BF16") -> MemorySource:
    """Return a model that is read from memory."""
    checkpoint = loaded(model) if isinstance(model, str) else model
    return MemorySource(checkpoint.files(dtype), name=name or (model if isinstance(model, str) else "made"))


def with_experts_of(parents: list[Checkpoint], made: Checkpoint) -> Checkpoint:
    """Return an up-cycled model in which each expert is the MLP of another parent."""
    places = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    tensors = dict(made.tensors)
    for name in made.tensors:
        stem, found, rest = name.partition(".block_sparse_moe.experts.")
        if found:
            expert, matrix, _ = rest.split(".")
            tensors[name] = parents[int(expert)].tensors[f"{stem}.mlp.{places[matrix]}.weight"]
    return made.with_tensors(tensors)
