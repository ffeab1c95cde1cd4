"""Order that survives pruning: the longest rise of best matches, with a bound that needs no draws."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ._tails import log10_factorial


def longest_increasing(places: Sequence[int]) -> int:
    """Return the length of the longest strictly increasing subsequence.

    >>> longest_increasing([3, 1, 2, 2, 5, 4])
    3
    """
    tails: list[int] = []
    for place in places:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(tails)


def log10_increasing_bound(n: int, length: int) -> float:
    """Return an upper bound of log10 P(the longest increasing subsequence of n places has this length).

    Where every order of the base's units is equally likely, any given set of `length` places that are all
    different rises with probability ``1 / length!``; there are ``n choose length`` of them (Markov's
    inequality for their number). Places that repeat can only lower it.
    """
    if not 0 <= length <= n:
        raise ValueError(f"length: expected 0 to {n}, got {length}")
    choices = log10_factorial(n) - log10_factorial(length) - log10_factorial(n - length)
    return min(0.0, choices - log10_factorial(length))
