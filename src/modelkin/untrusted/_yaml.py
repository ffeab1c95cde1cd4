"""YAML of strangers, read strictly: plain data only, no references, no key twice, no deep nesting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

_MAX_DEPTH = 32


class YamlRefused(ValueError):
    """YAML that is not taken, with the reason."""


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
                raise YamlRefused("a key stands twice or is no plain text")
            found: dict[object, object] = super().construct_mapping(node, deep=deep)
            return found

    try:
        _check_events(yaml.parse(data, Loader=loader))
        return yaml.load(data, Loader=Strict)  # noqa: S506  a subclass of the safe loader
    except YamlRefused:
        raise
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        line = str(error).split("\n", 1)[0]
        raise YamlRefused(f"it is no valid YAML ({line[:80]})") from error


def _check_events(events: Iterator[yaml.Event]) -> None:
    """Refuse references, a few lines of which can stand for endless data, and nesting, which takes hours."""
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise YamlRefused("it uses references, which are not followed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise YamlRefused(f"it is nested more than {_MAX_DEPTH} levels deep")
