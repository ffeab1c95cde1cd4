"""The known published methods, by name: their cards are data, their code is imported when used."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module, resources
from typing import get_args

from modelkin.errors import SpecError, UsageError
from modelkin.message import say

from ._interface import Needs, ReferenceCard, ReferenceMethod

ALL = "all"
"""Stands for every method that reads weights; those that run models are requested by name."""
_FACTS = {"class_path": str, "version": str, "needs": str, "publication": str}
_TOLD = ("measures", "survives", "defeated_by", "level_from")


def read_reference_cards(text: str) -> dict[str, ReferenceCard]:
    """Read cards by name; an unknown or missing key is an error, and so is a value of another type."""
    found = {}
    for name, facts in tomllib.loads(text).items():
        level = facts.pop("level", None)
        kinds = {key: type(value) for key, value in facts.items()}
        if kinds != _FACTS or facts["needs"] not in get_args(Needs) or not isinstance(level, float | None):
            raise SpecError(name, say("problem.card-level", known=str(list(_FACTS))))
        told = {key: say(f"reference.{name}.{key}") for key in _TOLD}
        page = f"docs/reference/{name}.md"
        found[name] = ReferenceCard(**(facts | told), name=name, level=level, reference=page)
    return found


@cache
def load_reference_cards() -> Mapping[str, ReferenceCard]:
    """Return the cards of all published methods, in display order."""
    file = resources.files("modelkin.reference").joinpath("data", "cards.toml")
    return read_reference_cards(file.read_text(encoding="utf-8"))


def load_reference(name: str) -> ReferenceMethod:
    """Return a method, or say which name was probably meant."""
    cards = load_reference_cards()
    if name not in cards:
        close = difflib.get_close_matches(name, [*cards, ALL], n=1)
        hint = say("hint.did-you-mean", name=close[0]) if close else say("hint.known", names=tuple(cards))
        raise UsageError(name, say("problem.no-published-method"), hint=hint)
    module, _, attribute = cards[name].class_path.partition(":")
    found: ReferenceMethod = getattr(import_module(f"modelkin.reference.{module}"), attribute)(cards[name])
    return found


def chosen_references(names: Iterable[str]) -> tuple[ReferenceMethod, ...]:
    """Return methods by name, each once, in the order of the cards; ``all`` is all that read weights."""
    cards = load_reference_cards()
    asked = {name for name in names if name != ALL}
    methods = {name: load_reference(name) for name in asked}
    if ALL in names:
        methods |= {name: load_reference(name) for name, card in cards.items() if card.needs == "weights"}
    return tuple(methods[name] for name in cards if name in methods)
