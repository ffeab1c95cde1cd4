"""The scores of two other methods on checkpoints, written from their published formulas; needs scipy.

AWM (Zeng, Chen, He, Wang and Lin, ICLR 2026): the columns of both embeddings are matched by the size of their
cosine, order and signs are applied to the columns of the query and key matrices, and unbiased CKA compares
them. phi_U (Zhu, Ahmed, Kuditipudi and Liang, ICML 2025): rows of the up matrices are matched, and the match
is tested for being in order. Neither folds norm gains: the published methods do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_phi_u import log10_fisher, log10_p_of_match
from modelkin.casework.lab import Checkpoint, layer_of

optimize = import_module("scipy.optimize")

STRANGERS_MEAN, STRANGERS_SPREAD = 0.00375, 0.0028
"""Of AWM's own unrelated pairs, as constants in its code; its "absolute z" is a distance from them."""
WEAKEST_CHILD = 12.1
"""The smallest absolute z that AWM reports of a true child (Llama-3.2-1B); strangers have about 1 at most."""
FEWEST_TOKENS = 16
"""With fewer common tokens cosines of columns say nothing, and no score is given."""

_EMBEDDING = re.compile(r"(?:embed_tokens|\bwte|word_embeddings)\.weight$")
_QUERY = re.compile(r"(?:q_proj|self\.query)\.weight$")
_KEY = re.compile(r"(?:k_proj|self\.key)\.weight$")
_FUSED = re.compile(r"attn\.c_attn\.weight$")
_UP = re.compile(r"(?:up_proj|\.w3|intermediate\.dense)\.weight$")
_UP_INPUT_FIRST = re.compile(r"mlp\.c_fc\.weight$")

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """No score, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AwmScore:
    """What AWM says of two models."""

    score: float
    """Mean unbiased CKA; 1 is a copy."""
    n_tokens: int
    """Tokens in common, by their text."""
    layers: tuple[tuple[int, int], ...]
    """Which layer of the candidate was compared with which of the base."""

    @property
    def absolute_z(self) -> float:
        """The distance from AWM's own strangers in their standard deviations. It is not a p-value."""
        return abs(self.score - STRANGERS_MEAN) / STRANGERS_SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class PhiU:
    """What phi_U says of two models."""

    log10_p: float
    n_tests: int
    """Matrices that were matched: one a layer, or one an expert."""


def awm(candidate: Checkpoint, base: Checkpoint) -> AwmScore | Skipped:
    """Return AWM's score. It is symmetric: only the matching's shape depends on which model is wider."""
    rows = _common_rows(candidate, base)
    if isinstance(rows, Skipped):
        return rows
    columns = match_columns(*rows)
    found = ucka_of_layers(_queries_and_keys(candidate), _queries_and_keys(base), columns)
    mean = found.mean(axis=2)
    if len(mean) == mean.shape[1]:
        pairs = [(layer, layer) for layer in range(len(mean))]
    else:
        ours, theirs = optimize.linear_sum_assignment(mean, maximize=True)
        pairs = [(int(first), int(second)) for first, second in zip(ours, theirs, strict=True)]
    score = float(np.mean([mean[pair] for pair in pairs]))
    return AwmScore(score=score, n_tokens=len(rows[0]), layers=tuple(pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMatch:
    """Column ``candidate[i]`` goes with column ``base[i]`` times ``signs[i]``."""

    candidate: NDArray[np.intp]
    base: NDArray[np.intp]
    signs: Matrix


def match_columns(candidate: Matrix, base: Matrix) -> ColumnMatch:
    """Match the columns of two embeddings over the same tokens; of the wider one some stay alone."""
    cosines = _unit_columns(candidate).T @ _unit_columns(base)
    ours, theirs = optimize.linear_sum_assignment(1.0 - np.abs(cosines))
    signs = np.where(cosines[ours, theirs] < 0, -1.0, 1.0)
    return ColumnMatch(candidate=ours, base=theirs, signs=signs)


def ucka_of_layers(
    candidate: Sequence[tuple[Matrix, Matrix]], base: Sequence[tuple[Matrix, Matrix]], columns: ColumnMatch
) -> Matrix:
    """Return unbiased CKA for (layer of the candidate, layer of the base, query or key)."""
    ours = [[_centred(w[:, columns.candidate]) for w in layer] for layer in candidate]
    theirs = [[_centred(w[:, columns.base] * columns.signs) for w in layer] for layer in base]
    return np.array(
        [[[float(np.sum(x * y)) for x, y in zip(a, b, strict=True)] for b in theirs] for a in ours]
    )


def ucka(first: Matrix, second: Matrix) -> float:
    """Return the unbiased CKA of two matrices whose columns are the samples."""
    return float(np.sum(_centred(first) * _centred(second)))


def phi_u(candidate: Checkpoint, base: Checkpoint) -> PhiU | Skipped:
    """Return phi_U, combined over layers (and experts) by Fisher's method."""
    ours, theirs = _up_rows(candidate), _up_rows(base)
    if ours.keys() != theirs.keys():
        return Skipped(reason="the models have other numbers of layers or experts")
    if any(rows.shape != theirs[key].shape for key, rows in ours.items()):
        return Skipped(reason="the models have other widths")
    found = [log10_p_of_match(rows, theirs[key]) for key, rows in sorted(ours.items())]
    return PhiU(log10_p=log10_fisher(found), n_tests=len(found))


def tokens_of(checkpoint: Checkpoint) -> dict[str, int]:
    """Return the row of every token by its text, as ``tokenizer.json`` has it."""
    if checkpoint.tokenizer is None:
        return {}
    document = json.loads(checkpoint.tokenizer)
    added = {item["content"]: int(item["id"]) for item in document.get("added_tokens", ())}
    return {**document["model"]["vocab"], **added}


def _common_rows(candidate: Checkpoint, base: Checkpoint) -> tuple[Matrix, Matrix] | Skipped:
    vocabularies = tokens_of(candidate), tokens_of(base)
    tables = [_embedding(model) for model in (candidate, base)]
    common = [
        (vocabularies[0][text], vocabularies[1][text])
        for text in sorted(vocabularies[0].keys() & vocabularies[1].keys())
        if vocabularies[0][text] < len(tables[0]) and vocabularies[1][text] < len(tables[1])
    ]
    if len(common) < FEWEST_TOKENS:
        return Skipped(reason=f"{len(common)} common tokens are too few")
    ours, theirs = np.array(common).T
    return tables[0][ours], tables[1][theirs]


def _embedding(checkpoint: Checkpoint) -> Matrix:
    (table,) = (array for name, array in checkpoint.tensors.items() if _EMBEDDING.search(name))
    return table.astype(np.float64)


def _queries_and_keys(checkpoint: Checkpoint) -> list[tuple[Matrix, Matrix]]:
    """Return the query and key matrix of each layer, residual dimensions as columns."""
    queries: dict[int, Matrix] = {}
    keys: dict[int, Matrix] = {}
    for name, stored in checkpoint.tensors.items():
        layer, array = layer_of(name), stored.astype(np.float64)
        if layer is None:
            continue
        if _FUSED.search(name):  # input first; query, key and value side by side
            queries[layer], keys[layer], _ = (part.T for part in np.split(array, 3, axis=1))
        elif _QUERY.search(name):
            queries[layer] = array
        elif _KEY.search(name):
            keys[layer] = array
    return [(queries[layer], keys[layer]) for layer in sorted(queries)]


def _up_rows(checkpoint: Checkpoint) -> dict[str, NDArray[np.float32]]:
    """Return the matrices whose rows are MLP units, by layer and expert."""
    found: dict[str, NDArray[np.float32]] = {}
    for name, array in checkpoint.tensors.items():
        expert = re.search(r"experts\.\d+", name)
        key = f"{layer_of(name)} {expert[0] if expert else ''}"
        if _UP.search(name):
            found[key] = array
        elif _UP_INPUT_FIRST.search(name):
            found[key] = array.T
    return found


def _centred(weight: Matrix) -> Matrix:
    """Return the Gram matrix of the columns, centred without bias and of norm one (Song et al., 2007)."""
    gram = weight.T @ weight
    n = len(gram)
    np.fill_diagonal(gram, 0.0)
    means = gram.sum(axis=0) / (n - 2)
    means -= means.sum() / (2 * (n - 1))
    gram = gram - means[:, None] - means[None, :]
    np.fill_diagonal(gram, 0.0)
    return np.asarray(gram / np.linalg.norm(gram))


def _unit_columns(rows: Matrix) -> Matrix:
    sizes = np.linalg.norm(rows, axis=0)
    return np.asarray(rows / np.where(sizes > 0, sizes, 1.0))
