"""What files import, by their import statements alone: parsing a thousand files whole takes many seconds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_STATEMENT = re.compile(
    r"^[ \t]*from[ ]+(?P<dots>\.*)(?P<module>[\w.]*)[ ]+import[ ]+(?:\((?P<many>[^)]*)\)|(?P<few>[^\n#]+))"
    r"|^[ \t]*import[ ]+(?P<whole>[\w., ]+)",
    re.MULTILINE,
)


class Import(NamedTuple):
    """`from ..module import name` has level 2; `import module` has no name."""

    level: int
    module: str
    name: str


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Return everything a file imports, in functions too."""
    return tuple(found for match in _STATEMENT.finditer(path.read_text()) for found in _imports(match))


def _imports(match: re.Match[str]) -> list[Import]:
    if match["whole"]:
        return [Import(0, name.split()[0], "") for name in match["whole"].split(",")]
    listed = re.sub(r"#.*", "", match["many"] or match["few"])
    names = [name.split()[0] for name in listed.split(",") if name.strip()]
    return [Import(len(match["dots"]), match["module"], name) for name in names]
