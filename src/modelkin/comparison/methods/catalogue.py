"""The known methods, by name: their cards are data, their code is imported when used."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module, resources
from typing import get_args

from modelkin.errors import SpecError, UsageError
from modelkin.message import say

from ._interface import Method, MethodCard, Stage

_FACTS = {
    "class_path": str,
    "version": str,
    "component": str,
    "axis": str,
    "exact": bool,
    "null": str,
    "stage": str,
}


def read_cards(text: str) -> dict[str, MethodCard]:
    """Read cards by name; an unknown or missing key is an error, and so is a value of another type."""
    found = {}
    for name, facts in tomllib.loads(text).items():
        kinds = {key: type(value) for key, value in facts.items()}
        if kinds != _FACTS or facts["stage"] not in get_args(Stage):
            odd = sorted({key for key, _ in kinds.items() ^ _FACTS.items()}) or ["stage"]
            raise SpecError(name, say("problem.card-keys", known=str(list(_FACTS)), odd=str(odd)))
        found[name] = MethodCard(
            name=name,
            claim=say(f"methods.{name}.claim"),
            needs=say(f"methods.{name}.needs"),
            defeated_by=say(f"methods.{name}.defeated_by"),
            reference=f"docs/methods/{name}.md",
            **(facts | {"null": say(facts["null"])}),
        )
    return found


@cache
def load_cards() -> Mapping[str, MethodCard]:
    """Return the cards of all methods, in the order in which they run."""
    file = resources.files("modelkin.comparison.methods").joinpath("data", "cards.toml")
    return read_cards(file.read_text(encoding="utf-8"))


def load_method(name: str) -> Method:
    """Return a method, or say which name was probably meant."""
    cards = load_cards()
    if name not in cards:
        close = difflib.get_close_matches(name, cards, n=1)
        hint = say("hint.did-you-mean", name=close[0]) if close else say("hint.known", names=tuple(cards))
        raise UsageError(name, say("problem.no-method"), hint=hint)
    module, _, attribute = cards[name].class_path.partition(":")
    method: Method = getattr(import_module(f"modelkin.comparison.methods.{module}"), attribute)(cards[name])
    return method
