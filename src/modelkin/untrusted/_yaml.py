"""YAML of unknown authors, read strictly: plain data only, no references, no key twice, no deep nesting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelkin.message import Message, say

if TYPE_CHECKING:
    import yaml

_MAX_DEPTH = 32


class YamlRefused(ValueError):
    """YAML that is not taken, with the reason."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


def strict_yaml(data: bytes) -> object:
    """Return plain data.

    Raises
    ------
    YamlRefused
        It is no YAML, or uses more of it than plain data needs.
    """
    import yaml  # only where there is something to read

    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Strict(loader):  # type: ignore[misc]
        """Refuses a key that stands twice."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) != len(keys) or len(keys) != len(node.value):
                raise YamlRefused(say("yaml-keys"))
            found: dict[object, object] = super().construct_mapping(node, deep=deep)
            return found

    try:
        _check_events(yaml.parse(data, Loader=loader))
        return yaml.load(data, Loader=Strict)  # noqa: S506  a subclass of the safe loader
    except YamlRefused:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        line = str(error).split("\n", 1)[0]
        raise YamlRefused(say("yaml-invalid", text=line[:80])) from error


def _check_events(events: Iterator[yaml.Event]) -> None:
    """Refuse references, a few lines of which can stand for endless data, and nesting, which takes hours."""
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise YamlRefused(say("yaml-references"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise YamlRefused(say("yaml-depth", n=_MAX_DEPTH))
