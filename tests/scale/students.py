"""Made-up students of hidden states and copies of attention, both in the teacher's coordinates, at any width.

What was seen of trained students at widths of 48 and 96 is made here without training: token rows and gains
that correlate with the teacher's, MLPs of a stranger, and heads that pass on what the teacher's heads do up
to a cosine of 0.4 to 0.8, each in a basis of its own. A copy of attention is made in the same way, so that
heads are nearer and nothing else is different.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from tests.scale.lifelike import Grown

from modelkin.casework.lab.checkpoint import Checkpoint

Floats = NDArray[np.float32]
STUDENT = (0.4, 0.8)
"""Cosines of a student's heads with its teacher's: trained ones reach 0.79."""
TUNED = (0.955, 0.99)
"""Cosines of copied heads that were trained on a little."""
TABLES, GAINS = 0.6, 0.5
"""How much token rows and gains of a student correlate with those of its teacher."""


def taught(teacher: Checkpoint, size: Grown, cosines: tuple[float, float], *, seed: int) -> Checkpoint:
    """Return a model in the teacher's coordinates whose heads have such cosines with the teacher's.

    Parameters
    ----------
    size
        Of both.
    cosines
        The smallest and the largest; heads are spread evenly between them.
    seed
        Of everything that is not the teacher's.
    """
    other = size.drawn(seed=seed)
    rng = np.random.default_rng([seed, 7])
    tensors = dict(other.tensors)
    for name, own in other.tensors.items():
        if own.ndim == 1:
            tensors[name] = np.exp(mixed(np.log(teacher.tensors[name]), np.log(own), GAINS))
        elif "embed_tokens" in name or "lm_head" in name:
            tensors[name] = mixed(teacher.tensors[name], own, TABLES)
    for layer in range(size.layers):
        tensors |= _attention(teacher, other, size, cosines, layer, rng)
    return Checkpoint(config=other.config, tensors=tensors, tokenizer=other.tokenizer)


def mixed(one: Floats, two: Floats, cosine: float) -> Floats:
    """Return a mixture as large as `one` that has about this cosine with it, means aside."""
    middle, spread = one.mean(), one.std()
    rest = math.sqrt(1.0 - cosine**2)
    made = cosine * (one - middle) / spread + rest * (two - two.mean()) / two.std()
    return np.asarray(middle + spread * made, np.float32)


def _attention(
    teacher: Checkpoint,
    other: Checkpoint,
    size: Grown,
    cosines: tuple[float, float],
    layer: int,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Mix heads one by one, then turn the basis inside each: values freely, keys in rotary pairs."""
    width, per_group = size.width // size.heads, size.heads // size.kv_heads
    query, key, value, output = (
        f"model.layers.{layer}.self_attn.{part}_proj.weight" for part in ("q", "k", "v", "o")
    )
    made = {name: np.empty_like(other.tensors[name]) for name in (query, key, value, output)}
    wanted = rng.permutation(np.linspace(*cosines, size.heads))
    for group in range(size.kv_heads):
        turn, angles = orthogonal(width, rng), rng.uniform(0.0, 2 * np.pi, width // 2)
        rows, heads = _rows(group, width), range(group * per_group, (group + 1) * per_group)
        # The cosine of a product is that of its factors, multiplied: half of it is in the values.
        inside = math.sqrt(float(wanted[heads].max()))
        for name, basis in ((value, turn), (key, _pairs(angles))):
            made[name][rows] = basis @ mixed(teacher.tensors[name][rows], other.tensors[name][rows], inside)
        for head in heads:
            places, own = _rows(head, width), float(wanted[head]) / inside
            columns = mixed(teacher.tensors[output][:, places], other.tensors[output][:, places], own)
            made[output][:, places] = columns @ turn.T
            rows_of_head = mixed(teacher.tensors[query][places], other.tensors[query][places], own)
            made[query][places] = _pairs(angles) @ rows_of_head
    return made


def _rows(number: int, width: int) -> slice:
    return slice(number * width, (number + 1) * width)


def orthogonal(n: int, rng: np.random.Generator) -> Floats:
    """Return a rotation of n dimensions."""
    return np.asarray(np.linalg.qr(rng.standard_normal((n, n)))[0], np.float32)


def _pairs(angles: NDArray[np.float64]) -> Floats:
    """Return a matrix that turns dimensions k and k + n/2, which rotary positions turn together."""
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return np.asarray(np.block([[cos, -sin], [sin, cos]]), np.float32)
