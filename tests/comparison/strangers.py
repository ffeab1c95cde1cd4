"""Pairs of the zoo that share no weights: whatever is done to one of them, they stay strangers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Literal

from tests.comparison.disguises import disguised, kept_zoo, suitable, zoo_model

from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.casework.lab.zoo import Zoo, ZooModel

Kind = Literal["distilled", "twins", "same-config", "same-family", "other-family"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """Two models of different lineages."""

    candidate: str
    base: str
    kind: Kind
    """What is alike: one learned the other's predictions; config, data and order; config; family; nothing."""

    @property
    def name(self) -> str:
        """Both names and what they have in common."""
        return f"{self.candidate} ~ {self.base} ({self.kind})"

    def disguises(self) -> tuple[str, ...]:
        """Return what `models` can put on the candidate."""
        return suitable(zoo_model(self.candidate))

    def models(self, *disguises: str, seed: int = 0) -> tuple[Checkpoint, Checkpoint]:
        """Return candidate and base, the candidate under the disguises."""
        return disguised(zoo_model(self.candidate), *disguises, seed=seed), zoo_model(self.base)


@cache
def strangers() -> tuple[Strangers, ...]:
    """Return every pair of models of the zoo that have no ancestor and no initialisation in common."""
    zoo = kept_zoo()
    return tuple(
        Strangers(candidate=second.name, base=first.name, kind=_kind(zoo, second, first))
        for first, second in itertools.combinations(zoo.values(), 2)
        if zoo.root(first.name) != zoo.root(second.name)
    )


@cache
def lineages() -> dict[str, tuple[str, ...]]:
    """Return the members of every lineage by the name of its oldest."""
    zoo = kept_zoo()
    found: dict[str, tuple[str, ...]] = {}
    for name in zoo:
        found[zoo.root(name)] = (*found.get(zoo.root(name), ()), name)
    return found


def _kind(zoo: Zoo, first: ZooModel, second: ZooModel) -> Kind:
    for student, other in ((first, second), (second, first)):
        if student.teacher is not None and zoo.root(student.teacher) == zoo.root(other.name):
            return "distilled"
    if first.family != second.family:
        return "other-family"
    keys = ("config", "tokenizer", "corpus", "order_seed", "steps", "learning_rate")
    alike = [first.record[key] == second.record[key] for key in keys]
    if all(alike) and first.parent is None and second.parent is None:
        return "twins"
    return "same-config" if alike[0] else "same-family"
