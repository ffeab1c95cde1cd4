"""Models made from several: merges by arithmetic, and copies of parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, Part, layer_of, part_of

_PARALLEL = 1e-6
"""Below this angle, in radians, an arc is a straight line in float32."""


def merge_linear(models: Sequence[Checkpoint], weights: Sequence[float]) -> Checkpoint:
    """Return the sum of models of one shape with these weights as they are, and the config of the first."""
    if not models or len(models) != len(weights):
        raise ValueError(f"weights must be one for each of {len(models)} models, got {len(weights)}")
    for other in models[1:]:
        _require_same_shapes(models[0], other)
    return models[0].with_tensors(
        {
            name: _sum(
                [
                    np.float32(weight) * model.tensors[name]
                    for model, weight in zip(models, weights, strict=True)
                ]
            )
            for name in models[0].tensors
        }
    )


def merge_slerp(first: Checkpoint, second: Checkpoint, *, t: float = 0.5) -> Checkpoint:
    """Return the models' tensors interpolated along the arc between them; `t` = 0 is the first model."""
    _require_same_shapes(first, second)
    return first.with_tensors(
        {name: _slerp(array, second.tensors[name], t) for name, array in first.tensors.items()}
    )


def merge_tasks(base: Checkpoint, children: Sequence[tuple[Checkpoint, float]]) -> Checkpoint:
    """Return the base plus the weighted differences of its children from it (task arithmetic)."""
    for child, _ in children:
        _require_same_shapes(base, child)
    return base.with_tensors(
        {
            name: _sum([array, *(np.float32(w) * (child.tensors[name] - array) for child, w in children)])
            for name, array in base.tensors.items()
        }
    )


def merge_dare(
    base: Checkpoint,
    children: Sequence[tuple[Checkpoint, float]],
    *,
    dropped: float = 0.9,
    rng: np.random.Generator,
) -> Checkpoint:
    """Return the base plus its children's differences, most randomly set to zero and the rest scaled up.

    The share `dropped` of the differences is set to zero; the rest is divided by the remaining share.
    """
    if not 0 <= dropped < 1:
        raise ValueError(f"dropped must be in [0, 1), got {dropped}")
    for child, _ in children:
        _require_same_shapes(base, child)
    changed: dict[str, Floats] = {}
    for name, array in base.tensors.items():
        parts = [array]
        for child, weight in children:
            left = rng.random(array.shape) >= dropped
            parts.append(np.float32(weight / (1 - dropped)) * left * (child.tensors[name] - array))
        changed[name] = _sum(parts)
    return base.with_tensors(changed)


def merge_ties(
    base: Checkpoint, children: Sequence[Checkpoint], *, kept: float = 0.2, weight: float = 1.0
) -> Checkpoint:
    """Return the base plus its children's largest differences, where these agree in sign.

    Of each tensor's differences the share `kept` counts, the largest. What is added is `weight` times the
    mean over the children whose sign is that of the sum, number by number.
    """
    if not 0 < kept <= 1:
        raise ValueError(f"kept must be in (0, 1], got {kept}")
    for child in children:
        _require_same_shapes(base, child)
    changed: dict[str, Floats] = {}
    for name, array in base.tensors.items():
        moves = np.stack([_trimmed(child.tensors[name] - array, kept) for child in children])
        agreeing = (np.sign(moves) == np.sign(moves.sum(axis=0))) & (moves != 0)
        mean = (moves * agreeing).sum(axis=0) / np.maximum(agreeing.sum(axis=0), 1)
        changed[name] = np.asarray(array + weight * mean, dtype=np.float32)
    return base.with_tensors(changed)


def copy_parts(
    receiver: Checkpoint,
    donor: Checkpoint,
    *,
    parts: Collection[Part] | None = None,
    layers: Collection[int] | Mapping[int, int] | None = None,
) -> Checkpoint:
    """Return the receiver with some tensors of the donor, which have the same shapes.

    `parts` and `layers` say which; None stands for all. `layers` may map layers of the receiver to those of
    the donor. With layers given, nothing outside them is copied.
    """
    mapped = (
        None if layers is None else dict(layers) if isinstance(layers, Mapping) else {n: n for n in layers}
    )
    changed: dict[str, Floats] = {}
    for name, array in receiver.tensors.items():
        layer = layer_of(name)
        if parts is not None and part_of(name) not in parts:
            continue
        source = name
        if mapped is not None:
            if layer is None or layer not in mapped:
                continue
            source = name.replace(f".{layer}.", f".{mapped[layer]}.", 1)
        _require_same_shape(source, array, donor)
        changed[name] = donor.tensors[source]
    return receiver.with_tensors(changed)


def _slerp(first: Floats, second: Floats, t: float) -> Floats:
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    if 0 in lengths:
        return np.asarray((1 - t) * first + t * second, dtype=np.float32)
    cosine = float(np.vdot(first, second)) / (lengths[0] * lengths[1])
    angle = float(np.arccos(np.clip(cosine, -1, 1)))
    if angle < _PARALLEL:
        return np.asarray((1 - t) * first + t * second, dtype=np.float32)
    shares = np.sin((1 - t) * angle) / np.sin(angle), np.sin(t * angle) / np.sin(angle)
    return np.asarray(shares[0] * first + shares[1] * second, dtype=np.float32)


def _trimmed(move: Floats, kept: float) -> Floats:
    """Return the largest numbers of a tensor and zeros for the others."""
    size = np.abs(move)
    return np.where(size >= np.quantile(size, 1 - kept), move, np.float32(0))


def _sum(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(arrays, axis=0), dtype=np.float32)


def _require_same_shapes(first: Checkpoint, second: Checkpoint) -> None:
    for name, array in first.tensors.items():
        _require_same_shape(name, array, second)


def _require_same_shape(name: str, array: Floats, other: Checkpoint) -> None:
    found = other.tensors.get(name)
    if found is None or found.shape != array.shape:
        got = "none" if found is None else found.shape
        raise ValueError(
            f"models must have equal shapes: {name} has {array.shape} in one, {got} in the other"
        )
