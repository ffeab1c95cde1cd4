"""The byte budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from modelkin.errors import BudgetExceeded
from modelkin.source.interface import ByteBudget


def test_a_budget_is_spent_and_given_back():
    budget = ByteBudget(100)
    budget.reserve(60, where="x")
    with pytest.raises(
        BudgetExceeded, match="x: 41 more bytes are needed, but 60 of the budget of 100"
    ) as caught:
        budget.reserve(41, where="x")
    assert caught.value.exit_code == 2
    assert "Raise the budget" in (caught.value.hint or "")
    assert budget.spent == 60
    budget.refund(10)
    budget.check(50, where="x")
    budget.reserve(50, where="x")
    assert budget.spent == 100


def test_a_budget_of_nothing_allows_nothing():
    budget = ByteBudget(0)
    budget.reserve(0, where="x")
    with pytest.raises(BudgetExceeded, match="1 more bytes"):
        budget.check(1, where="x")


def test_without_a_limit_everything_is_counted():
    budget = ByteBudget()
    budget.reserve(1 << 50, where="x")
    assert budget.spent == 1 << 50


def test_threads_cannot_spend_the_same_byte_twice():
    budget = ByteBudget(1_000)

    def spend(_: int) -> bool:
        try:
            budget.reserve(7, where="x")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(500))) == 142
    assert budget.spent == 994
