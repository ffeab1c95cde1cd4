"""What a replay consists of: named numbers, tables, checks, answers. Words come later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modelkin.comparison.verdict import Conclusion

Cell = str | float | int | None
"""The content of a table cell; None if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A published number, and the same number computed here."""

    key: str
    computed: float
    published: float
    tolerance: float
    """What rounding, single precision or reading pixels may explain."""
    source: str
    kind: str
    """``printed``: published, and the same to the digits that were printed. ``rounded``: published, and the
    same to the digits of what it was made of. ``read``: to the pixels of a figure. ``predicted``: only
    predicted, from means and deviations; the difference is what they leave out. ``average``: a mean of a
    shipped table, compared with the same mean computed by someone else; no independent publication."""

    @property
    def agrees(self) -> bool:
        """Whether they are the same number."""
        return abs(self.computed - self.published) <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTable:
    """A table. The names of its columns and of words in it are keys of the texts."""

    key: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    formats: tuple[str, ...] = ()
    """How numbers of each column are written, such as ``.4f``; empty leaves it to the renderer."""


def grid(key: str, rows: Iterable[Iterable[Any]], **columns: str) -> FactTable:
    """Make a table; each of its columns has the format of its numbers."""
    cells = tuple(tuple(map(plain_number, row)) for row in rows)
    formats = tuple(columns.values()) if any(columns.values()) else ()
    return FactTable(key=key, columns=tuple(columns), rows=cells, formats=formats)


def plain_number(value: Any) -> Any:  # noqa: ANN401  whatever it was
    """Return a number of Python for one of numpy; anything else stays as it is."""
    return value.item() if isinstance(value, np.generic) else value


def plain_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return named values with numbers of Python."""
    return {name: plain_number(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One step of the story: its numbers, which its words refer to by name."""

    key: str
    values: Mapping[str, float | int | str]
    grids: tuple[FactTable, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of the dispute, judged from published numbers."""

    key: str
    """``V1`` to ``V14``."""
    conclusion: Conclusion
    effect: float | None
    """Correlation, or what stands for it; None if none was published."""
    sure_z: float | None
    """The smallest z that the effect can have, however the tensors depend on each other."""
    needed_z: float | None
    values: Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A published number, and what contradicts it."""

    number: int
    source: str
    values: Mapping[str, float | int | str]
    recomputed: bool
    """Whether what contradicts it is computed here; otherwise it is published too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The whole story."""

    schema: str
    candidate: str
    base: str
    conclusion: Conclusion
    chapters: tuple[Chapter, ...]
    cases: tuple[Case, ...]
    contradictions: tuple[Contradiction, ...]
    sources: Mapping[str, Mapping[str, str]] = field(repr=False)
    files: Mapping[str, Mapping[str, str]] = field(repr=False)

    def chapter(self, key: str) -> Chapter:
        """Return one chapter."""
        return next(item for item in self.chapters if item.key == key)

    def checks_of(self, *kinds: str) -> tuple[Check, ...]:
        """Return the checks of these kinds."""
        return tuple(check for check in self.checks if check.kind in kinds)

    @property
    def checks(self) -> tuple[Check, ...]:
        """All published numbers that were computed again."""
        return tuple(check for chapter in self.chapters for check in chapter.checks)

    def to_json(self) -> str:
        """Write the numbers as one JSON document. It has no language."""
        from modelkin.document import to_json

        return to_json(self)
