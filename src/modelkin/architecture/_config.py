"""A config as it came: any JSON at all. Reads numbers out of it and says what was not usable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from modelkin.message import Message, say

_MAX_NUMBER: Final = 1 << 40  # no axis of any model is longer; larger numbers are mistakes or attacks
_MAX_SHOWN: Final = 40


def nested(config: object, path: str) -> object:
    """Return the value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(config, Mapping):
            return None
        config = config.get(key)
    return config


class ConfigView:
    """Typed access to one config; what is of the wrong type counts as absent and is noted.

    Parameters
    ----------
    data
        The parsed JSON object.
    """

    def __init__(self, data: Mapping[str, object]) -> None:
        self.data = data
        self.notes: dict[str, Message] = {}

    def number(self, path: str) -> Fraction | None:
        """Return a positive number of sensible size, or None."""
        value = nested(self.data, path)
        if value is None:
            return None
        number = _as_number(value)
        if number is None:
            self.notes[path] = say("config-number", name=repr(path), value=_shown(value))
        return number

    def text(self, path: str) -> str | None:
        """Return a string, or None."""
        value = nested(self.data, path)
        return value if isinstance(value, str) else None

    def texts(self, path: str) -> tuple[str, ...]:
        """Return the strings of a list."""
        value = nested(self.data, path)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def has_value(self, path: str, expected: str | int | bool) -> bool:
        """Whether the value at a path is this one, of the same type."""
        value = nested(self.data, path)
        return type(value) is type(expected) and value == expected

    def mentions(self, words: tuple[str, ...]) -> bool:
        """Whether a key that is set, or a string, holds one of these words in lower case."""
        for key, value in self.data.items():
            if value and any(word in str(key).lower() for word in words):
                return True
            if isinstance(value, str) and any(word in value.lower() for word in words):
                return True
        return False


def _shown(value: object) -> str:
    """Return a value in a few characters, whatever it is."""
    if isinstance(value, str):
        return repr(value[:_MAX_SHOWN])
    return repr(value) if isinstance(value, float | bool) else type(value).__name__


def _as_number(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 < value <= _MAX_NUMBER:
        return None
    return Fraction(value).limit_denominator(1 << 20)
