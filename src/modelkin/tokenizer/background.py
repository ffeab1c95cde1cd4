"""What tokenizers with a known relation show: measured once on published ones, shipped as facts."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

SEPARATE = "separate"
"""Trained independently by different makers, by their own account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPair:
    """Two published tokenizers."""

    names: tuple[str, str]
    relation: str
    """same, extended, common stock, same maker, or separate."""
    of_smaller: float
    jaccard: float
    same_id: float
    """Share of the shared tokens that have the same id."""
    spearman: float
    run_words: int
    """Tokens of more than one byte in the longest run of equal order."""
    merges_of_smaller: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A measure over pairs that have nothing to do with each other."""

    low: float
    median: float
    high: float
    n_pairs: int
    at_least: int | None
    """Pairs with at least the given value; None if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What separately trained tokenizers show.

    The pairs share members, so this is not a distribution to test against: it shows what is ordinary.
    """

    n_tokenizers: int
    of_smaller: Spread
    jaccard: Spread
    spearman: Spread
    run_words: Spread
    merges_of_smaller: Spread


@cache
def known_pairs() -> tuple[KnownPair, ...]:
    """Return the shipped table."""
    names = [item.name for item in fields(KnownPair)]
    rows = _document()["pairs"]
    return tuple(
        KnownPair(**{name: row[name] for name in names} | {"names": (*row["names"],)}) for row in rows
    )


def background(**here: float | None) -> Background:
    """Place the values of one pair, by measure, among those of separately trained tokenizers."""
    pairs = [pair for pair in known_pairs() if pair.relation == SEPARATE]
    return Background(
        n_tokenizers=len({name for pair in pairs for name in pair.names}),
        **{name: _spread([getattr(pair, name) for pair in pairs], value) for name, value in here.items()},
    )


def _spread(values: list[float | None], here: float | None) -> Spread:
    ordered = sorted(float(value) for value in values if value is not None)
    return Spread(
        low=ordered[0],
        median=ordered[len(ordered) // 2],
        high=ordered[-1],
        n_pairs=len(ordered),
        at_least=None if here is None else sum(value >= here for value in ordered),
    )


@cache
def _document() -> dict[str, Any]:
    text = resources.files("modelkin.tokenizer").joinpath("data", "background.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
