"""Is the licence of a child wider than that of its parent? A small table; what is not in it is unknown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def known_licences() -> Mapping[str, frozenset[str]]:
    """Return what each licence forbids or requires, by its name on the Hub."""
    file = resources.files("modelkin.lineage.cards").joinpath("data", "licences.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))["restrictions"]
    return {name: frozenset(words) for name, words in table.items()}


def left_out(child: str, parent: str) -> tuple[str, ...] | None:
    """Return what the parent's licence requires and the child's does not; None if either is unknown."""
    licences = known_licences()
    mine, theirs = (licences.get(name.strip().lower()) for name in (child, parent))
    return None if mine is None or theirs is None else tuple(sorted(theirs - mine))
