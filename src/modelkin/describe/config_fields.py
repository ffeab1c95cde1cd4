"""Fields of configs, and what other families call the same thing: loaded data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from modelkin.message import Message, say

_WRAPPERS = ("text_config.", "language_config.", "llm_config.", "thinker_config.text_config.")
"""Where multimodal models keep the config of their language model."""
_MAX_FIELDS = 4000
"""Fields that are compared: a config made to be large must not fill a report."""
_MAX_DEPTH = 6
"""Objects inside objects; a deeper one is compared as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """One field under its most common name."""

    name: str
    group: str

    @property
    def meaning(self) -> Message:
        """What it means, in plain words."""
        return say(f"field.{self.name}")


@cache
def known_fields() -> Mapping[str, ConfigField]:
    """Return all known fields, by each of their names."""
    text = resources.files("modelkin.describe").joinpath("data", "config_fields.toml").read_text("utf-8")
    found: dict[str, ConfigField] = {}
    for group, fields in tomllib.loads(text).items():
        for name, entry in fields.items():
            known = ConfigField(name=name, group=group)
            for alias in (name, *entry.get("aliases", ())):
                if alias in found:
                    raise ValueError(f"config_fields.toml names {alias!r} twice")
                found[alias] = known
    return found


def named_fields(config: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Return common name -> (name in this config, value), with nested objects opened.

    A field of the language model inside a wrapper goes by its plain name. If two fields of one config have
    the same common name, the first keeps it and the second goes by its own.
    """
    found: dict[str, tuple[str, object]] = {}
    known = known_fields()
    for path, value in _flattened(config):
        plain = next((path.removeprefix(prefix) for prefix in _WRAPPERS if path.startswith(prefix)), path)
        name = known[plain].name if plain in known else plain
        found[path if name in found else name] = (path, value)
    return found


def _flattened(config: Mapping[str, object]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    stack: list[tuple[str, object, int]] = [(key, value, 1) for key, value in config.items()]
    stack.reverse()
    while stack and len(found) < _MAX_FIELDS:
        path, value, depth = stack.pop()
        if isinstance(value, dict) and value and depth < _MAX_DEPTH:
            inner = [(f"{path}.{key}", item, depth + 1) for key, item in value.items()]
            stack += reversed(inner)
        else:
            found.append((path, value))
    return found
