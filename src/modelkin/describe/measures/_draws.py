"""Random baselines: reordered values, random vectors, exchanged tokens. Always seeded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ._measure import Measure, measured, parts_of
from ._pairs import Pairs
from .stack import Floats, Stack

Draws = Mapping[str, np.ma.MaskedArray[Any, Any]]
"""Name of a measure -> one row for each draw, one column for each pair."""

MOST_VALUES = 50_000_000
"""Values of one side that all draws together may use; larger data get fewer draws."""
FEWEST_DRAWS = 10
"""Draws that are made however large the data: fewer show no spread."""


def too_many_to_draw(n_values: int) -> bool:
    """Say whether even the fewest draws of new numbers would take too long: each is ranked and summed."""
    return FEWEST_DRAWS * n_values > 2 * MOST_VALUES


def draws_for(n_values: int, wanted: int) -> int:
    """Return how many draws can be afforded for so many values of one side; results state the number."""
    affordable = MOST_VALUES // max(1, n_values)
    return max(min(wanted, FEWEST_DRAWS), min(wanted, affordable))


def generator(seed: int, *names: str) -> np.random.Generator:
    """Return a random generator for a seed and a purpose: the order of requests changes no result."""
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    return np.random.default_rng([seed, int.from_bytes(blake2b(text, digest_size=8).digest(), "little")])


def shuffle_draws(
    measures: Sequence[Measure], a: Stack, b: Stack, pairs: Pairs, *, draws: int, seed: int, key: str = ""
) -> Draws:
    """Measure again with the places of b reordered at random, in the same way in all its rows.

    One order for all layers keeps what connects the layers of a model, so that the mean over layers varies as
    it would between unrelated models. Another `key` draws other orders.
    """
    random = generator(seed, "shuffle", key)
    orders = [random.permutation(b.n) for _ in range(draws)]
    found = {measure.name: np.full((draws, len(pairs)), np.nan) for measure in measures}
    for part in parts_of(a, b, pairs):
        for draw, order in enumerate(orders):
            theirs = part.b.shuffled(order)
            for measure in measures:
                values = measured(measure, part.a, theirs, part.pairs).values
                found[measure.name][draw, part.at] = values.filled(np.nan)
    return {name: np.ma.masked_invalid(rows) for name, rows in found.items()}


def random_draws(
    measures: Sequence[Measure], a: Stack, b: Stack, pairs: Pairs, *, draws: int, seed: int, key: str = ""
) -> Draws:
    """Measure normal numbers with the mean and the standard deviation of each row."""
    random = generator(seed, "random", key)
    found: dict[str, list[npt.NDArray[Any]]] = {measure.name: [] for measure in measures}
    for _ in range(draws):
        mine, theirs = _normal(a, random), _normal(b, random)
        for measure in measures:
            found[measure.name].append(measured(measure, mine, theirs, pairs).values.filled(np.nan))
    return {name: np.ma.masked_invalid(np.reshape(rows, (draws, len(pairs)))) for name, rows in found.items()}


def permuted_pairs(n: int, *, draws: int, seed: int) -> Iterator[Pairs]:
    """Yield pairings of n rows with n rows in which no row meets its own partner."""
    random = generator(seed, "pairing")
    for _ in range(draws if n > 1 else 0):
        order = random.permutation(n)
        # A random cycle: each row is paired with the next one in a random order.
        yield Pairs.of(order, np.roll(order, 1))


def random_pairs(n: int, *, count: int, seed: int) -> Pairs:
    """Choose pairs of different rows of one stack."""
    random = generator(seed, "pairs")
    if n < 2:
        return Pairs.of([], [])
    first = random.integers(0, n, count)
    return Pairs.of(first, (first + random.integers(1, n, count)) % n)


def gaussian_cosine(
    mean_a: npt.ArrayLike, mean_b: npt.ArrayLike, sd_a: npt.ArrayLike, sd_b: npt.ArrayLike
) -> Floats:
    """Return the cosine of long independent vectors with these means and standard deviations."""
    a, b, s, t = (np.asarray(value, dtype=np.float64) for value in (mean_a, mean_b, sd_a, sd_b))
    return np.asarray(a * b / (np.hypot(a, s) * np.hypot(b, t)), dtype=np.float64)


def _normal(like: Stack, random: np.random.Generator) -> Stack:
    drawn = random.standard_normal((len(like), like.n)) * like.std[:, None] + like.mean[:, None]
    drawn[~like.finite] = np.nan
    return Stack(drawn)
