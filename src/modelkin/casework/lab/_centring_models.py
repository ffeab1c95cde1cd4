"""Vectors of models for the centring animation: two layers of one model, or a layer of two."""

from __future__ import annotations

import numpy as np

from modelkin.describe.matrix import MatrixOptions, find_item, parse_layer_list, parse_role
from modelkin.errors import BadSelection, UsageError
from modelkin.message import Message
from modelkin.model import Model

from ._centring import VectorPair

__all__ = ["model_vectors"]


def model_vectors(models: tuple[Model, ...], *, role: str, layers: str) -> VectorPair:
    """Read two vectors of one role.

    Parameters
    ----------
    models
        One, of which two layers are taken; or two, of each of which one layer is taken.
    role
        As in `modelkin.matrix`: ``input-norm``, ``k-proj``, ... Large tensors are sampled at the same places.
    layers
        ``N,M``; for two models ``N`` stands for ``N,N``.
    """
    if len(models) not in (1, 2):
        raise UsageError("centring", f"expected one model or two, got {len(models)}")
    numbers = parse_layer_list(layers)
    if len(models) == 2 and len(numbers) == 1:
        numbers = (numbers[0], numbers[0])
    if len(numbers) != 2:
        what = "two layers such as 0,10" if len(models) == 1 else "one layer, or one for each model"
        raise BadSelection("layers", f"expected {what}, got {layers[:60]!r}")
    both = (models[0], models[-1])
    choice = parse_role(role)
    options = MatrixOptions(roles=(role,))
    found = []
    for model, layer in zip(both, numbers, strict=True):
        item = find_item(model, choice, layer, options)
        if isinstance(item, Message):
            raise BadSelection(f"{model.location.ref}, layer {layer}", str(item))
        vector = item.vector(model.read(list(item.slices)))
        found.append((np.asarray(vector, dtype=np.float64).ravel(), item.signature))
    if found[0][1] != found[1][1]:
        raise BadSelection(role, f"the shapes differ: {found[0][1][0]} and {found[1][1][0]}")
    names = [f"layer {layer}" for layer in numbers]
    if len(models) == 2:
        names = [f"{model.location.ref} {name}" for model, name in zip(models, names, strict=True)]
    return VectorPair(a=found[0][0], b=found[1][0], names=(names[0], names[1]))
