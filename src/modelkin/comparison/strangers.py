"""How the agreement of facing layers ranks among pairs of unrelated models: the caller's and an archive.

Such ranks decide nothing: they are shown next to what mismatched layers of the pair itself show. The archive
is numbers only: it was measured on pairs of actually trained, unrelated models (`docs/own_layers.py`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from math import fsum

from modelkin.comparison.methods import Contrast, Evidence, Rank
from modelkin.stats import log10_conformal

ContrastScores = Mapping[str, float]
"""Mean agreement of facing layers, of what could agree, of units and of heads."""
_PARTS = {"mlp": "units", "experts": "units", "attention": "heads"}
_FEWEST = 20
"""Fewest archived pairs comparable to the pair for a rank among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedPair:
    """One measured pair of unrelated models."""

    part: str
    units: int
    """Units of the smallest layer that were looked for."""
    mean_facing: float
    largest_facing: float
    largest_mismatched: float


@cache
def load_archive() -> tuple[ArchivedPair, ...]:
    """Read the numbers of all pairs of unrelated models that come with the package."""
    file = resources.files("modelkin.comparison.methods").joinpath("data", "strangers.csv")
    with file.open(encoding="utf-8") as text:
        return tuple(
            ArchivedPair(
                part=row["part"],
                units=int(row["units"]),
                mean_facing=float(row["mean_facing"]),
                largest_facing=float(row["largest_facing"]),
                largest_mismatched=float(row["largest_mismatched"]),
            )
            for row in csv.DictReader(text)
        )


def scores_by_part(evidence: Iterable[Evidence]) -> ContrastScores:
    """Return one number for the units of a pair of models, and one for their heads."""
    shares: dict[str, list[float]] = {}
    for item in evidence:
        if isinstance(item, Contrast):
            shares.setdefault(_PARTS[item.component], []).append(item.effect.value)
    return {part: fsum(found) / len(found) for part, found in shares.items()}


def with_ranks(evidence: Iterable[Evidence], controls: Sequence[ContrastScores]) -> list[Evidence]:
    """Give contrasts of layers their ranks among control pairs and among the archive; leave others alone."""
    items = list(evidence)
    scores = scores_by_part(items)
    return [
        replace(
            item,
            rank=_rank(scores[_PARTS[item.component]], _of_part(controls, _PARTS[item.component])),
            archive=_rank(scores[_PARTS[item.component]], _alike(item), fewest=_FEWEST),
        )
        if isinstance(item, Contrast)
        else item
        for item in items
    ]


def _rank(score: float, others: Sequence[float], *, fewest: int = 1) -> Rank | None:
    if len(others) < fewest:
        return None
    return Rank(
        log10_p=log10_conformal(score, others), control_pairs=len(others), largest_control=max(others)
    )


def _of_part(scores: Iterable[ContrastScores], part: str) -> list[float]:
    return [found[part] for found in scores if part in found]


def _alike(item: Contrast) -> list[float]:
    """Return the archived pairs that had no more units: fewer agree more often by chance."""
    part = _PARTS[item.component]
    return [pair.mean_facing for pair in load_archive() if pair.part == part and pair.units <= item.n]
