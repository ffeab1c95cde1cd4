"""Key dimensions as corresponding rows: their order within a head survives when units are reordered.

Rotary positions rotate pairs of key dimensions, each pair at its own frequency. Renumbering a model can
reorder heads, and rotate or scale the pairs of a head if the queries are rotated back. The order of pairs
within a head is fixed by the frequencies. So a pair is one complex row of the residual stream, known up to a
complex factor, and there are few heads to choose from: rows for a map of the stream that need neither tokens
nor units. The sign of the map stays open: every pair may have been rotated by half a circle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.message import say

from .coordinates import LearnedMap
from .residual import Array, Frame, find_frame, unit_rows

_Complex = npt.NDArray[np.complex64]

KEYS_FIT = 0.5
"""A map from keys with a lower fit is not used. Of 3,564 pairs of unrelated models 149 have similar heads,
mostly of eight dimensions; their maps fit at most 0.38 (0.24 if every other layer teaches them: 15 of 5,724).
With fewer rows than dimensions it is part of a map, and its fit is the root of their ratio: 0.66 for four
layers of a 70B model."""
_ALIKE = 0.3
"""Correlation of two heads' pair geometry above which they may be the same head. Copies with 30 % of noise on
every weight have 0.8."""
_FEWEST_FOUND = 0.25
"""Share of the heads that must be found: between strangers next to none are."""
_TURNED_ALIKE = 0.3
"""Correlation of products of rows, once pairs are turned back: near 1 for relatives, near 0 for strangers."""
_HEADS_AT_ONCE = 16
"""Heads whose pairs are rotated back together: products of 1,024 pairs of heads of 128 dimensions."""
_PARALLEL = 1e-6
"""Area that two rows span, relative to their squared lengths, below which they are parallel in single
precision."""
_ROUNDS = 100
"""Of a power iteration in which the second eigenvalue is usually a tenth of the first."""


def frame_of_key_rows(
    candidate: list[Array], base: list[Array], *, head_width: int, seed: int
) -> Frame | None:
    """Learn a map from key matrices, which are freed; None if its fit is too low.

    The matrices are those of `key_rows`. The seed divides rows into those to learn from and those held out.
    """
    rows = key_rows(candidate, base, head_width=head_width)
    candidate.clear()
    base.clear()
    made = None if rows is None else find_frame(*rows, learned_from=say("key-rows"), seed=seed)
    return replace(made, sign_open=True) if isinstance(made, Frame) and made.fit > KEYS_FIT else None


def map_of_keys(
    candidate: Sequence[Array], base: Sequence[Array], *, head_width: int, seed: int
) -> LearnedMap | None:
    """Learn the same map as a matrix."""
    made = frame_of_key_rows([*candidate], [*base], head_width=head_width, seed=seed)
    if made is None:
        return None
    return LearnedMap(
        matrix=made.as_matrix(),
        fit=made.fit,
        n_units=made.n_rows,
        rounds=1,
        learned_from=made.learned_from,
        sign_open=True,
    )


def key_rows(
    candidate: Sequence[Array], base: Sequence[Array], *, head_width: int
) -> tuple[Array, Array] | None:
    """Return rows of both models that belong together; None if too few heads are found again.

    Key matrices of layers that are assumed to face each other are dimensions of heads by the residual stream,
    with the gain in front folded in; a head has `head_width` dimensions.
    """
    mine, theirs = ([_pairs(rows, head_width) for rows in side] for side in (candidate, base))
    heads = list(_found_heads(mine, theirs))
    if len(heads) < max(1.0, _FEWEST_FOUND * sum(len(layer) for layer in mine)):
        return None
    groups = [
        group
        for start in range(0, len(heads), _HEADS_AT_ONCE)
        if (group := _TurnedHeads.of(heads[start : start + _HEADS_AT_ONCE])).alike > _TURNED_ALIKE
    ]
    if not groups:
        return None
    surest = max(groups, key=lambda group: group.alike)
    signs = [group.sign_to(surest) for group in groups]
    return (
        np.concatenate([_real_rows(sign * group.mine) for sign, group in zip(signs, groups, strict=True)]),
        np.concatenate([_real_rows(group.theirs) for group in groups]),
    )


def _pairs(rows: Array, head_width: int) -> _Complex:
    """Return pairs of dimensions as complex rows of one length each: heads x pairs x residual dimensions.

    Both dimensions of a pair are made orthonormal in the one way that does not depend on their rotation.
    """
    n_heads, half = len(rows) // head_width, head_width // 2
    values = rows[: n_heads * 2 * half].reshape(n_heads, 2, half, -1)
    values = np.nan_to_num(values, posinf=0.0, neginf=0.0)
    first, second = values[:, 0], values[:, 1]
    a, b, c = (
        np.einsum("hfd,hfd->hf", one, other)
        for one, other in ((first, first), (first, second), (second, second))
    )
    area = np.sqrt(np.maximum(a * c - b * b, 0.0))
    usable = area > _PARALLEL * (a + c)
    scale = np.where(usable, 1.0 / np.where(usable, area * np.sqrt(a + c + 2.0 * area), 1.0), 0.0)
    found = np.empty(first.shape, dtype=np.complex64)
    found.real = ((c + area) * scale)[..., None] * first - (b * scale)[..., None] * second
    found.imag = ((a + area) * scale)[..., None] * second - (b * scale)[..., None] * first
    return found


def _found_heads(mine: Sequence[_Complex], theirs: Sequence[_Complex]) -> Iterator[tuple[_Complex, _Complex]]:
    """Yield heads of facing layers that are each other's best match by how their pairs lie to each other."""
    here, there = _signatures(mine), _signatures(theirs)
    for layer, others, a, b in zip(mine, theirs, here, there, strict=True):
        alike = a @ b.T
        to_base, to_candidate = np.argmax(alike, axis=1), np.argmax(alike, axis=0)
        for head, other in enumerate(to_base):
            if to_candidate[other] == head and alike[head, other] > _ALIKE:
                yield layer[head], others[other]


def _signatures(layers: Sequence[_Complex]) -> list[Array]:
    """Return for each head how much its pairs have in common, which neither rotation nor scaling alters.

    What all heads of a model have in common does not tell them apart, and is subtracted.
    """
    upper = np.triu_indices(layers[0].shape[1], 1)
    made = [
        np.array([_common(head)[upper] for head in layer], dtype=np.float32).reshape(len(layer), -1)
        for layer in layers
    ]
    middle = np.concatenate(made).mean(axis=0)
    return [unit_rows(heads - middle) for heads in made]


def _common(head: _Complex) -> npt.NDArray[np.floating]:
    """Return the squared products of the planes that pairs span: pairs by pairs."""
    return np.asarray(np.abs(head @ head.conj().T) ** 2 + np.abs(head @ head.T) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TurnedHeads:
    """Pairs of some heads, the candidate's turned to be like the base's, up to one sign for all of them."""

    mine: _Complex
    theirs: _Complex
    alike: float
    """Correlation of products among the candidate's rows with those among the base's."""

    @classmethod
    def of(cls, heads: Sequence[tuple[_Complex, _Complex]]) -> _TurnedHeads:
        """Find the angle of every pair.

        With angles t, products of z and conj(z') in the candidate are those of the base times exp(i(t - t')):
        the angles are the phases of the leading eigenvector of their quotients, up to a common one. Products
        of z and z' are those of the base times exp(i(t + t')), which gives that one up to a sign; of the two
        signs, the one that rotates less is taken.
        """
        mine, theirs = (np.concatenate(side) for side in zip(*heads, strict=True))
        plain = [_without_diagonal(rows @ rows.conj().T) for rows in (mine, theirs)]
        crossed = [_without_diagonal(rows @ rows.T) for rows in (mine, theirs)]
        turns = _leading_phases(plain[0] * plain[1].conj())
        total = np.vdot(np.outer(turns, turns) * crossed[1], crossed[0])
        turns = turns * np.exp(0.5j * np.angle(total))
        turns = turns * np.sign(turns.real.sum() or 1.0)
        matched = np.vdot(np.outer(turns, turns.conj()) * plain[1], plain[0]).real + abs(total)
        sizes = [sum(np.vdot(part[at], part[at]).real for part in (plain, crossed)) for at in (0, 1)]
        return cls(
            mine=mine * turns.conj()[:, None].astype(np.complex64),
            theirs=theirs,
            alike=float(matched / max(np.sqrt(sizes[0] * sizes[1]), 1e-20)),
        )

    def sign_to(self, other: _TurnedHeads) -> int:
        """Return the sign with which products with another group are like those of the base."""
        plain = np.vdot(self.theirs @ other.theirs.conj().T, self.mine @ other.mine.conj().T)
        crossed = np.vdot(self.theirs @ other.theirs.T, self.mine @ other.mine.T)
        return -1 if (plain + crossed).real < 0 else 1


def _without_diagonal(products: _Complex) -> _Complex:
    np.fill_diagonal(products, 0)
    return products


def _leading_phases(matrix: _Complex) -> _Complex:
    """Return the phases of the leading eigenvector of a Hermitian matrix."""
    vector = np.ones(len(matrix), dtype=np.complex64)
    for _ in range(_ROUNDS):
        after = matrix @ vector
        vector = after / max(float(np.linalg.norm(after)), 1e-30)
    size = np.abs(vector)
    return np.asarray(np.where(size > 0, vector / np.where(size > 0, size, 1), 1), dtype=np.complex64)


def _real_rows(rows: _Complex) -> Array:
    """Return both dimensions of every pair as separate rows."""
    return np.concatenate([rows.real, rows.imag]).astype(np.float32)
