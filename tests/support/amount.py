"""How much of a truth table `make test` runs. The rest has the marker `scale` and is run by `make scale`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

_Row = TypeVar("_Row")


def marked(rows: Iterable[_Row], now: Callable[[_Row], bool]) -> list[object]:
    """Return all rows as parameters; those that are not for `now` have the marker `scale`."""
    return [row if now(row) else pytest.param(row, marks=pytest.mark.scale) for row in rows]
