"""The pairs that AWM, phi_U and modelkin judge: all rows of the truth table, and strangers in two halves."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from modelkin.casework.lab.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pair of models and whether they are relatives."""

    name: str
    group: str
    """What it is counted under."""
    related: bool
    models: Callable[[], tuple[Checkpoint, Checkpoint]] = field(repr=False)
    half: int = 1
    """Strangers of half 0 set thresholds, those of half 1 count; relatives all count."""
    controls: Callable[[], Sequence[str]] = field(default=tuple, repr=False)
    """Folders of models that are related to neither."""


@cache
def all_cases(most: int | None) -> list[Case]:
    """Return all relatives and strangers; every process makes the same ones."""
    return [*related_cases(), *stranger_cases(most=most)]


def related_cases() -> list[Case]:
    """Return every row of the truth table, counted by what was done."""
    table = import_module("tests.comparison.relations")
    return [
        Case(
            name=row.name,
            group=row.name.partition(": ")[2] or row.name,
            related=True,
            models=partial(_both, row),
        )
        for row in table.relations()
    ]


def _both(row: Any) -> tuple[Checkpoint, Checkpoint]:  # noqa: ANN401  a row of a module that is found at run time
    return row.candidate(), row.base()


def _folders(chosen: Callable[..., Sequence[str]], *about: object) -> list[str]:
    zoo: Path = import_module("tests.places").ZOO
    return [str(zoo / name) for name in chosen(*about)]


def stranger_cases(*, most: int | None = None, seed: int = 0) -> list[Case]:
    """Return pairs of strangers inside each half, each once plain and once under a disguise.

    Parameters
    ----------
    most
        Pairs of the half that counts, drawn at random; None for all. The other half, which sets thresholds,
        is always whole.
    seed
        Of the split, the draw and the disguises.
    """
    truth, expected = (
        import_module("tests.comparison.relations"),
        import_module("tests.comparison.expectations"),
    )
    rng = random.Random(seed)
    names = sorted(truth.lineages())
    rng.shuffle(names)
    half_of = {member: place % 2 for place, name in enumerate(names) for member in truth.lineages()[name]}
    cases: list[Case] = []
    for half in (0, 1):
        pairs = [pair for pair in truth.strangers() if half_of[pair.candidate] == half_of[pair.base] == half]
        if half == 1 and most is not None and most < len(pairs):
            pairs = rng.sample(pairs, most)
        for pair in pairs:
            for disguises in ((), (rng.choice(pair.disguises()),)):
                under = f", {disguises[0]}" if disguises else ""
                cases.append(
                    Case(
                        name=pair.name + under,
                        group=f"strangers, {pair.kind}" + (", disguised" if disguises else ""),
                        related=False,
                        models=partial(pair.models, *disguises, seed=seed),
                        half=half,
                        controls=partial(_folders, expected.controls_of, pair.base, pair.candidate),
                    )
                )
    return cases
