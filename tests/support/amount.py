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


def every(n: int, rows: Iterable[object]) -> list[object]:
    """Return all rows as parameters: every `n`th is for `make test`, the others for `make test-more`.

    A tuple is one row of several parameters.
    """

    def later(row: object) -> object:
        values = row if isinstance(row, tuple) else (row,)
        return pytest.param(*values, marks=pytest.mark.more)

    return [row if number % n == 0 else later(row) for number, row in enumerate(rows)]
