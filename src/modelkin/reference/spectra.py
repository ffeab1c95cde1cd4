"""Spectra of attention, aligned over the depth, after GhostSpec (Wang, Ma, Li and Li, AAAI 2026).

For each layer the singular values of ``Wq' Wk`` and ``Wv' Wo'`` are cut to their effective rank, scaled to
the range from 0 to 1 and compared; dynamic programming finds which layers face each other. The products are
taken over the residual stream, where mixing within heads does not change them; the publication writes them
the other way round, and fits the two constants of its final similarity, which are not published as fixed
numbers.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.message import Message
from modelkin.model import Model

from ._interface import RawScore, ReferencePair
from .layered import LayeredMethod, Layers
from .reading import Floats, RoleMatrix, SideReader

SKIPPED_LAYER = 0.01
"""What a layer without a counterpart costs on the path."""

Values = npt.NDArray[np.float64]


def product_spectrum(first: Floats, second: Floats) -> Values:
    """Return the singular values of ``first' @ second``, largest first, without making the product.

    They are the roots of the eigenvalues of (first first') (second second'), of the size of the inner axis.
    """
    wide = [matrix.astype(np.float64) for matrix in (first, second)]
    grams = [matrix @ matrix.T for matrix in wide]
    n = len(grams[0])
    # Rank-deficient matrices need a tiny ridge for a root of this kind.
    grams[0][np.diag_indices(n)] += 1e-10 * float(np.trace(grams[0])) + np.finfo(np.float64).tiny
    root = np.linalg.cholesky(grams[0])
    found = np.linalg.eigvalsh(root.T @ grams[1] @ root)
    return np.asarray(np.sqrt(np.clip(found[::-1], 0.0, None)), dtype=np.float64)


def effective_rank(spectrum: Values) -> int:
    """Return the exponential of the entropy of the spectrum's shares (Roy and Vetterli, 2007)."""
    total = float(spectrum.sum())
    if total <= 0.0:
        return 1
    shares = spectrum[spectrum > 0] / total
    return max(2, int(np.exp(-float(np.sum(shares * np.log(shares))))))


def spectral_distance(first: Values, second: Values) -> float:
    """Return the mean squared difference of two spectra, cut to one length and scaled to 0 to 1."""
    n = min(effective_rank(first), effective_rank(second), len(first), len(second))
    scaled = [_to_unit(spectrum[:n]) for spectrum in (first, second)]
    return float(np.mean((scaled[0] - scaled[1]) ** 2))


def _to_unit(spectrum: Values) -> Values:
    low, high = float(spectrum.min()), float(spectrum.max())
    return (spectrum - low) / (high - low) if high > low else np.zeros_like(spectrum)


def aligned(distances: Values, skipped: float = SKIPPED_LAYER) -> tuple[float, list[tuple[int, int]]]:
    """Return the cheapest way to give every layer of the shallower model one of the deeper, in order."""
    if distances.shape[0] > distances.shape[1]:
        cost, path = aligned(distances.T, skipped)
        return cost, [(second, first) for first, second in path]
    n, m = distances.shape
    best = np.full((n, m), np.inf)
    before = np.full((n, m), -1)
    best[0] = distances[0] + skipped * np.arange(m)
    for i in range(1, n):
        for j in range(i, m):
            costs = best[i - 1, :j] + skipped * (j - np.arange(j) - 1)
            before[i, j] = int(np.argmin(costs))
            best[i, j] = costs[before[i, j]] + distances[i, j]
    ends = best[-1] + skipped * (m - 1 - np.arange(m))
    place = int(np.argmin(ends))
    cost, path = float(ends[place]), []
    for i in range(n - 1, -1, -1):
        path.append((i, place))
        place = int(before[i, place])
    return cost, path[::-1]


@final
class Spectra(LayeredMethod):
    """One minus the root mean square difference of normalised spectra along the best path of layers."""

    def compared(
        self, pair: ReferencePair, readers: tuple[SideReader, SideReader], layers: Layers
    ) -> RawScore | Message:
        """Read layer by layer and keep two spectra for each."""
        mine, theirs = (
            [_layer_spectra(reader, layer, model) for layer in side]
            for reader, side, model in zip(readers, layers, pair.models, strict=True)
        )
        distances = np.array(
            [
                [np.mean([spectral_distance(x, y) for x, y in zip(a, b, strict=True)]) for b in theirs]
                for a in mine
            ]
        )
        cost, path = aligned(distances)
        difference = float(np.mean([distances[place] for place in path]))
        numbers = [model.architecture.layers for model in pair.models]
        return RawScore(
            score=1.0 - float(np.sqrt(difference)),
            details={"path_cost": cost, "mean_squared_difference": difference},
            layers=tuple((numbers[0][first], numbers[1][second]) for first, second in path),
        )


def _layer_spectra(reader: SideReader, layer: tuple[RoleMatrix, ...], model: Model) -> tuple[Values, Values]:
    query, key, value, output = (reader.matrix(matrix) for matrix in layer)
    sizes = model.architecture.sizes
    return (
        product_spectrum(_summed_groups(query, len(key), sizes.get("qk_dim")), key),
        product_spectrum(value, _summed_groups(output.T, len(value), sizes.get("v_dim"))),
    )


def _summed_groups(rows: Floats, n: int, size: int | None) -> Floats:
    """Add the query heads that read one KV head: its product with their sum is the sum of their products."""
    if len(rows) == n or not size or len(rows) % n:
        return rows
    groups = rows.reshape(n // size, len(rows) // n, size, rows.shape[1])
    return np.asarray(groups.sum(axis=1).reshape(n, rows.shape[1]))
