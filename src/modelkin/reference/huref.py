"""HuRef: products of matrices between tokens that disguises leave unchanged, and plain parameter cosine.

Zeng, Wang, Hu, Xu, Chen, Zhou and Lin, NeurIPS 2024. Three products for each of the last two layers, all
between the embeddings X of the rarest tokens: ``X Wq' Wk X'``, ``X Wv' Wo' X'`` and, for gated MLPs,
``X (Wgate' * Wup') Wdown' X'``. Gains are not folded, and gate and up are multiplied value by value, as in
the published code: a rotation of the residual stream therefore changes the third product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import TensorSlice

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import Floats, RoleMatrix, SideReader, inner_product, role_matrix, rows_slice
from .same_parts import SamePart, same_parts

N_TOKENS = 4096
"""The last tokens of a table, as published: the rarest, which training changes least."""
N_LAYERS = 2
"""The last ones, as published."""
_ATTENTION = (Role.ATTENTION_QUERY, Role.ATTENTION_KEY, Role.ATTENTION_VALUE, Role.ATTENTION_OUTPUT)
_MLP = (Role.MLP_GATE, Role.MLP_UP, Role.MLP_DOWN)
_PIECE = 4_000_000
"""Elements of a tensor held at a time."""

Terms = dict[tuple[int, str], tuple[RoleMatrix, ...]]
"""Layer counted from the end, and name of a term -> its matrices."""


@final
class InvariantTerms(ReferenceMethod):
    """ICS: the cosine of standardised products between the rarest shared tokens."""

    uses_tokens = True

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for rows of the last shared tokens, and the attention and MLP of the last two layers."""
        rows, terms = pair.rows, _shared_terms(pair)
        if isinstance(rows, Message):
            return rows
        if isinstance(terms, Message):
            return terms
        chosen = rows.last(N_TOKENS).sides()
        sides = []
        for (name, numbers), found in zip(chosen, terms, strict=True):
            # A plain MLP has one matrix for gate and up: its slice is requested once.
            slices = dict.fromkeys(matrix.slice for term in found.values() for matrix in term)
            sides.append([rows_slice(name, numbers), *slices])
        return sides[0], sides[1]

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Compute each term for both models and take the cosine."""
        rows, terms = pair.rows, _shared_terms(pair)
        if isinstance(rows, Message):
            return rows
        if isinstance(terms, Message):
            return terms
        sides = rows.last(N_TOKENS).sides()
        tokens = [reader.rows(*side) for reader, side in zip(readers, sides, strict=True)]
        found: dict[str, float] = {}
        for key in terms[0]:
            made = [
                _standardised(_term(key[1], reader, model, matrices[key], x))
                for reader, model, matrices, x in zip(readers, pair.models, terms, tokens, strict=True)
            ]
            found[f"{key[1]}_{key[0]}"] = inner_product(made[0], made[1])
        # The flattened terms have one length and mean zero, so the cosine of all is the mean of each.
        return RawScore(
            score=float(np.mean(list(found.values()))),
            details={**found, "tokens": float(len(tokens[0]))},
        )


def _shared_terms(pair: ReferencePair) -> tuple[Terms, Terms] | Message:
    for model in pair.models:
        if not model.architecture.is_known:
            return say("unknown-architecture", model=model.location.ref)
    mine, theirs = (dict(_terms(model)) for model in pair.models)
    both = [key for key in mine if key in theirs]
    if not both:
        return say("reference-no-terms")
    return {key: mine[key] for key in both}, {key: theirs[key] for key in both}


def _terms(model: Model) -> Iterator[tuple[tuple[int, str], tuple[RoleMatrix, ...]]]:
    for place, layer in enumerate(reversed(model.architecture.layers[-N_LAYERS:]), start=1):
        query, key, value, output = (role_matrix(model, role, layer) for role in _ATTENTION)
        if query is not None and key is not None:
            yield (place, "attention"), (query, key)
        if value is not None and output is not None:
            yield (place, "values"), (value, output)
        gate, up, down = (role_matrix(model, role, layer) for role in _MLP)
        if up is not None and down is not None:
            yield (place, "mlp"), (up, down) if gate is None else (up, down, gate)


def _term(name: str, reader: SideReader, model: Model, matrices: tuple[RoleMatrix, ...], x: Floats) -> Floats:
    """Return one product between tokens."""
    first, second = reader.matrix(matrices[0]), reader.matrix(matrices[1])
    if name == "mlp":
        if len(matrices) == 3:
            first = first * reader.matrix(matrices[2])
        return np.asarray((x @ first.T) @ (x @ second).T)
    if name == "values":
        left, right = x @ first.T, x @ second
        return np.asarray(_spread_groups(left, right.shape[1], model, "v_dim") @ right.T)
    left, right = x @ first.T, x @ second.T
    return np.asarray(left @ _spread_groups(right, left.shape[1], model, "qk_dim").T)


def _spread_groups(values: Floats, width: int, model: Model, space: str) -> Floats:
    """Repeat KV heads for every query head that reads them."""
    size = model.architecture.sizes.get(space)
    if values.shape[1] == width or not size or width % values.shape[1]:
        return values
    heads = values.reshape(len(values), -1, size)
    return np.repeat(heads, width // values.shape[1], axis=1).reshape(len(values), width)


def _standardised(term: Floats) -> Floats:
    term = term - np.float32(term.mean(dtype=np.float64))
    spread = float(np.sqrt(inner_product(term, term)))
    return term / np.float32(spread) if spread > 0 else term


@final
class ParameterCosine(ReferenceMethod):
    """PCS: the cosine of all parameters that both models have in one shape, as one long vector."""

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for every tensor that both have."""
        parts = same_parts(*pair.models)
        if isinstance(parts, Message):
            return parts
        names = [[part.names[side] for part in parts] for side in (0, 1)]
        mine, theirs = ([TensorSlice.whole(name) for name in dict.fromkeys(listed)] for listed in names)
        return mine, theirs

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Walk over both models in pieces and sum up products."""
        parts = same_parts(*pair.models)
        if isinstance(parts, Message):
            return parts
        sums = np.zeros(3)
        n_values = 0
        for part in parts:
            for first, second in _pieces(part, readers):
                sums += [first @ second, first @ first, second @ second]
                n_values += len(first)
        if not sums[1:].all():
            return say("reference-all-zero")
        return RawScore(
            score=float(sums[0] / np.sqrt(sums[1] * sums[2])),
            details={"values": float(n_values), "tensors": float(len(parts))},
        )


def _pieces(
    part: SamePart, readers: tuple[SideReader, SideReader]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, part.n_elements, _PIECE):
        stop = min(part.n_elements, start + _PIECE)
        first, second = (
            np.nan_to_num(
                np.asarray(reader.read([TensorSlice.blocks(name, [(start, stop)])])[0], dtype=np.float64)
            ).ravel()
            for reader, name in zip(readers, part.names, strict=True)
        )
        yield first, second
