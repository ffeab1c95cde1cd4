"""Is the licence of a child wider than that of its parent? A small table; what is not in it is unknown."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

_ALIKE = "share-alike"


@cache
def known_licences() -> Mapping[str, frozenset[str]]:
    """Return what each licence forbids or requires, by its name on the Hub."""
    return _table("restrictions")


@cache
def accepted_licences() -> Mapping[str, frozenset[str]]:
    """Return which other licences one that demands the same terms accepts for derivatives."""
    return _table("accepted")


def left_out(child: str, parent: str) -> tuple[str, ...] | None:
    """Return what the parent's licence requires and the child's does not; None if either is unknown.

    Two licences may both demand the same terms of derivatives: each means its own, or those it accepts.
    """
    licences = known_licences()
    first, second = (name.strip().lower() for name in (child, parent))
    mine, theirs = licences.get(first), licences.get(second)
    if mine is None or theirs is None:
        return None
    if first != second and first not in accepted_licences().get(second, ()):
        mine = mine - {_ALIKE}
    return tuple(sorted(theirs - mine))


def forbids_derivatives(licence: str) -> bool:
    """Say whether a licence lets nobody pass derivatives on, under whichever licence."""
    return "no-derivatives" in known_licences().get(licence.strip().lower(), ())


def _table(name: str) -> Mapping[str, frozenset[str]]:
    file = resources.files("modelkin.lineage.cards").joinpath("data", "licences.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))[name]
    return {licence: frozenset(words) for licence, words in table.items()}
