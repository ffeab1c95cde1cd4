"""How much of a truth table `make test` runs; the rest is run by `make test-more` and by `make scale`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

_Row = TypeVar("_Row")


def marked(
    rows: Iterable[_Row], now: Callable[[_Row], bool], more: Callable[[_Row], bool] | None = None
) -> list[object]:
    """Return all rows as parameters; of those that are not for `now` some have the marker `more`, the others
    `scale`.
    """

    def one(row: _Row) -> object:
        if now(row):
            return row
        return pytest.param(row, marks=pytest.mark.more if more and more(row) else pytest.mark.scale)

    return [one(row) for row in rows]
