"""The most bytes that may be read, enforced before they are asked for."""

from __future__ import annotations

import threading

from modelkin.errors import BudgetExceeded


class ByteBudget:
    """Counts bytes as they are asked for and refuses what would go over the limit. Thread-safe."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._spent = 0
        self._lock = threading.Lock()

    @property
    def spent(self) -> int:
        """Bytes asked for until now."""
        return self._spent

    def check(self, amount: int, *, where: str) -> None:
        """Raise `BudgetExceeded` when `amount` more bytes would not fit; spend nothing."""
        with self._lock:
            self._refuse_over(amount, where)

    def reserve(self, amount: int, *, where: str) -> None:
        """Spend `amount` bytes, or raise `BudgetExceeded` and spend nothing."""
        with self._lock:
            self._refuse_over(amount, where)
            self._spent += amount

    def refund(self, amount: int) -> None:
        """Give back what was reserved for bytes that did not come after all."""
        with self._lock:
            self._spent -= amount

    def _refuse_over(self, amount: int, where: str) -> None:
        if self.limit is not None and self._spent + amount > self.limit:
            raise BudgetExceeded(
                where,
                f"{amount:,} more bytes are needed, but {self._spent:,} of the budget of {self.limit:,} "
                "are already used; the request was not sent",
                hint="Raise the budget, or choose a smaller depth.",
            )
