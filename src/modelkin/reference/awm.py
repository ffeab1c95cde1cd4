"""AWM: columns of both embeddings matched, then unbiased CKA of queries and keys (Zeng and others, 2026).

The columns are matched by the size of their cosine, order and signs are applied to the columns of the query
and key matrices, and unbiased CKA compares them. Norm gains are not folded in, as in the published method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.message import Message

from ._interface import RawScore, ReferencePair, Wanted
from .layered import LayeredMethod, Layers
from .reading import RoleMatrix, SideReader, Spill, inner_product, rows_slice
from .tails import assigned

STRANGERS_MEAN, STRANGERS_SPREAD = 0.00375, 0.0028
"""Of AWM's own unrelated pairs, as constants in its code; its "absolute z" is a distance from them."""

Matrix = npt.NDArray[np.floating]
Gram = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMatch:
    """Column ``candidate[i]`` goes with column ``base[i]`` times ``signs[i]``."""

    candidate: npt.NDArray[np.intp]
    base: npt.NDArray[np.intp]
    signs: npt.NDArray[np.float64]


def match_columns(candidate: Matrix, base: Matrix) -> ColumnMatch | Message:
    """Match the columns of two embeddings over the same tokens; some of the wider one's stay unmatched."""
    cosines = _unit_columns(candidate).T @ _unit_columns(base)
    columns = assigned(np.abs(cosines))
    if isinstance(columns, Message):
        return columns
    (ours,) = np.nonzero(columns >= 0)
    theirs = columns[ours]
    signs = np.where(cosines[ours, theirs] < 0, -1.0, 1.0)
    return ColumnMatch(candidate=ours, base=theirs, signs=signs)


def centred_gram(weight: Matrix) -> Gram:
    """Return the Gram matrix of the columns, centred without bias and of norm one (Song et al., 2007)."""
    gram = weight.T @ weight
    n = len(gram)
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(axis=0, dtype=np.float64) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    gram -= means[:, None].astype(gram.dtype)
    gram -= means[None, :].astype(gram.dtype)
    np.fill_diagonal(gram, 0.0)
    size = float(np.sqrt(inner_product(gram, gram)))
    return np.asarray(gram / size if size > 0 else gram, dtype=np.float32)


@final
class Awm(LayeredMethod):
    """Mean unbiased CKA of queries and keys after matching the columns of the embeddings."""

    uses_tokens = True
    roles = (Role.ATTENTION_QUERY, Role.ATTENTION_KEY)

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for rows of shared tokens, and all query and key matrices."""
        matrices, rows = super().wanted(pair), pair.rows
        if isinstance(rows, Message):
            return rows
        if isinstance(matrices, Message):
            return matrices
        tables = [rows_slice(name, numbers) for name, numbers in rows.sides()]
        return [tables[0], *matrices[0]], [tables[1], *matrices[1]]

    def compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], layers: Layers
    ) -> RawScore | Message:
        """Match columns, then compare layer by layer; all with all if depths differ."""
        rows = pair.rows
        if isinstance(rows, Message):
            return rows
        tables = [
            reader.rows(name, numbers) for reader, (name, numbers) in zip(readers, rows.sides(), strict=True)
        ]
        columns = match_columns(tables[0], tables[1])
        if isinstance(columns, Message):
            return columns
        del tables
        if len(layers[0]) == len(layers[1]):
            found = np.array(list(_diagonal(readers, layers, columns)))
            pairs = [(layer, layer) for layer in range(len(found))]
            by_pair = found
        else:
            every = _all_pairs(readers, layers, columns)
            chosen = assigned(every.mean(axis=2))
            if isinstance(chosen, Message):
                return chosen
            pairs = [(place, int(other)) for place, other in enumerate(chosen) if other >= 0]
            by_pair = np.array([every[place] for place in pairs])
        score = float(by_pair.mean())
        return RawScore(
            score=score,
            details={
                "absolute_z": abs(score - STRANGERS_MEAN) / STRANGERS_SPREAD,
                "queries": float(by_pair[:, 0].mean()),
                "keys": float(by_pair[:, 1].mean()),
                "tokens": float(len(rows)),
            },
            layers=_numbered(pair, pairs),
        )


def _numbered(pair: ReferencePair, pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    mine, theirs = (model.architecture.layers for model in pair.models)
    return tuple((mine[first], theirs[second]) for first, second in pairs)


def _mine(reader: SideReader, layer: tuple[RoleMatrix, ...], columns: ColumnMatch) -> Iterator[Gram]:
    for matrix in layer:
        yield centred_gram(reader.matrix(matrix)[:, columns.candidate])


def _theirs(reader: SideReader, layer: tuple[RoleMatrix, ...], columns: ColumnMatch) -> Iterator[Gram]:
    for matrix in layer:
        yield centred_gram(reader.matrix(matrix)[:, columns.base] * columns.signs.astype(np.float32))


def _diagonal(
    readers: tuple[SideReader, SideReader], layers: Layers, columns: ColumnMatch
) -> Iterator[list[float]]:
    for first, second in zip(*layers, strict=True):
        ours, theirs = _mine(readers[0], first, columns), _theirs(readers[1], second, columns)
        yield [inner_product(a, b) for a, b in zip(ours, theirs, strict=True)]


def _all_pairs(
    readers: tuple[SideReader, SideReader], layers: Layers, columns: ColumnMatch
) -> npt.NDArray[np.float64]:
    found = np.zeros((len(layers[0]), len(layers[1]), len(layers[0][0])))
    with Spill() as kept:
        for place, layer in enumerate(layers[1]):
            for role, gram in enumerate(_theirs(readers[1], layer, columns)):
                kept.keep((place, role), gram)
        for mine, layer in enumerate(layers[0]):
            for role, gram in enumerate(_mine(readers[0], layer, columns)):
                for theirs in range(len(layers[1])):
                    found[mine, theirs, role] = inner_product(gram, kept[theirs, role])
    return found


def _unit_columns(rows: Matrix) -> Matrix:
    sizes = np.linalg.norm(rows, axis=0)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0))
