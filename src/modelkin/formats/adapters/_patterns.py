"""Values that hold for some modules: names or their ends, as PEFT writes them in ``alpha_pattern``.

PEFT takes each key for a regular expression. A key from a stranger's file can make matching take for ever, so
only those are evaluated that cannot: plain names, which almost all are, and expressions with a single repeat.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from modelkin.errors import ConfigError, UnsupportedFormat
from modelkin.untrusted import quoted

MAX_KEYS = 200_000
MAX_EXPRESSIONS = 64
_LONGEST = 512
_PLAIN = re.compile(r"[\w.\-]+", re.ASCII)
# Names, escaped dots, anchors, classes of digits, and one repeat at most.
_HARMLESS = re.compile(r"\^?(?:[\w.\-]|\\\.|\\d|\[0-9\])*(?:[*+](?:[\w.\-]|\\\.|\\d|\[0-9\])*)?\$?", re.ASCII)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Patterns(Generic[Value]):
    """Which value a module has. The first key that fits counts."""

    plain: Mapping[str, tuple[int, Value]]
    """Place among all keys, and value, by the end of a name."""
    expressions: tuple[tuple[int, re.Pattern[str], Value], ...] = ()

    @classmethod
    def of_items(cls, items: Mapping[str, Value], file: str) -> Patterns[Value]:
        """Take keys over, in their order.

        Raises
        ------
        ConfigError, UnsupportedFormat
            Too many keys, or an expression that is not evaluated.
        """
        if len(items) > MAX_KEYS:
            raise ConfigError(file, f"expected at most {MAX_KEYS} patterns, got {len(items)}")
        plain: dict[str, tuple[int, Value]] = {}
        expressions: list[tuple[int, re.Pattern[str], Value]] = []
        for place, (key, value) in enumerate(items.items()):
            if _PLAIN.fullmatch(key) and len(key) <= _LONGEST:
                plain[key] = place, value
            elif len(key) <= _LONGEST and _HARMLESS.fullmatch(key) and len(expressions) < MAX_EXPRESSIONS:
                expressions.append((place, _compiled(key, file), value))
            else:
                raise UnsupportedFormat(
                    file,
                    f"the pattern {quoted(key, 80)} is an expression that is not evaluated here",
                    hint="Write the names of the modules out in full.",
                )
        return cls(plain, tuple(expressions))

    def of(self, module: str, default: Value) -> Value:
        """Return the value of the first key that fits a module, or the default."""
        parts = module.split(".")
        ends = (".".join(parts[first:]) for first in range(len(parts)))
        fitting = [self.plain[end] for end in ends if end in self.plain]
        fitting += [(place, value) for place, key, value in self.expressions if key.match(module)]
        return min(fitting, key=lambda item: item[0])[1] if fitting else default


def _compiled(key: str, file: str) -> re.Pattern[str]:
    try:
        return re.compile(rf"(.*\.)?({key})$")
    except re.error as error:
        raise ConfigError(file, f"the pattern {quoted(key, 80)} is no regular expression") from error
