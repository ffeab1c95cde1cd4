"""The pairs of the zoo with what is known about them: which share an ancestor, and in what."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.places import ZOO

RESHAPED = {
    "depth-up-scaling",
    "layer-removal",
    "unit-pruning",
    "width-pruning",
    "up-cycling",
    "rotation",
}
"""Relations whose children have other coordinates than their parents: see `tests.comparison.relations`."""


@dataclass(frozen=True)
class Member:
    """One model of the zoo."""

    name: str
    family: str
    parent: str | None
    relation: str

    @property
    def path(self) -> str:
        """Where it lies."""
        return str(ZOO / self.name)


@cache
def members() -> dict[str, Member]:
    """Return all models, by name."""
    listed: list[dict[str, Any]] = json.loads((ZOO / "zoo.json").read_text())["models"]
    return {
        item["name"]: Member(item["name"], item["family"], item["parent"], item["relation"])
        for item in listed
    }


def independent_pairs() -> list[tuple[str, str]]:
    """Return pairs of models that were trained from different initialisations, and have equal widths."""
    alone = [
        member.name
        for member in members().values()
        if member.relation in ("independent", "distillation") and member.name != "narrow"
    ]
    config = {name: json.loads((ZOO / name / "config.json").read_text()) for name in alone}
    width = {name: c.get("hidden_size", c.get("n_embd")) for name, c in config.items()}
    family = {name: members()[name].family for name in alone}
    return [
        (first, second)
        for first, second in itertools.combinations(alone, 2)
        if width[first] == width[second] and family[first] == family[second]
    ]


def derived_pairs() -> list[tuple[str, str, str]]:
    """Return (child, parent, relation) for every model whose parts are where its parent's are."""
    return [
        (member.name, member.parent, member.relation)
        for member in members().values()
        if member.parent is not None and member.relation not in RESHAPED
    ]
