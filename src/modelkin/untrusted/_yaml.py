"""YAML of unknown authors, read strictly: plain data only, no references, no key twice, no deep nesting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelkin.message import Refusal, say

if TYPE_CHECKING:
    import yaml

_MAX_DEPTH = 32
"""Files that people write have a handful of levels, and each takes a call of the reader."""
_MAX_NUMBER = 1000
"""Characters of a number. Reading takes time quadratic in their count."""
_NUMBERS = ("int", "float")


class YamlRefused(Refusal):
    """Refused YAML, with the reason."""


def strict_yaml(data: bytes) -> object:
    """Return plain data; YAML that uses more than plain data needs is refused."""
    import yaml  # only when there is something to read

    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Strict(loader):  # type: ignore[misc]
        """Refuses a repeated key."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) != len(keys) or len(keys) != len(node.value):
                raise YamlRefused(say("yaml-keys"))
            found: dict[object, object] = super().construct_mapping(node, deep=deep)
            return found

        def construct_scalar(self, node: yaml.ScalarNode) -> object:
            numeric = node.tag.removeprefix("tag:yaml.org,2002:") in _NUMBERS
            if numeric and len(node.value) > _MAX_NUMBER:
                raise YamlRefused(say("yaml-number", n=_MAX_NUMBER))
            return super().construct_scalar(node)

    try:
        _check_events(yaml.parse(data, Loader=loader))
        return yaml.load(data, Loader=Strict)  # noqa: S506  a subclass of the safe loader
    except YamlRefused:
        raise
    # A scalar that only looks like a number or a date can end in any of these.
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
        ArithmeticError,
        LookupError,
        AttributeError,
    ) as error:
        line = str(error).split("\n", 1)[0]
        raise YamlRefused(say("yaml-invalid", text=line[:80])) from error


def _check_events(events: Iterator[yaml.Event]) -> None:
    """Refuse what plain data does not need.

    A few lines of references can stand for endless data, nesting can take hours, and a tag turns text into
    something other than what it looks like.
    """
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise YamlRefused(say("yaml-references"))
        if getattr(event, "tag", None) is not None:
            raise YamlRefused(say("yaml-tags"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise YamlRefused(say("yaml-depth", n=_MAX_DEPTH))
