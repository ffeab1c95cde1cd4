"""Vectors one by one: mean, spread, range, length, and how much of each is its mean direction."""

from __future__ import annotations

from dataclasses import dataclass

from ._stack import Fault, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One vector in numbers. All are None where it cannot be described; `reason` says why."""

    n: int
    mean: float | None
    std: float | None
    """Over the values there are."""
    minimum: float | None
    maximum: float | None
    norm: float | None
    p99: float | None
    """99th percentile of the absolute values."""
    rho: float | None
    """Mean over root mean square: 1 for a constant, 0 for a balanced vector. None for a vector of zeros."""
    reason: str | None


def describe(stack: Stack) -> tuple[Description, ...]:
    """Describe each row of a stack."""
    useless = stack.faults & (Fault.EMPTY | Fault.NOT_FINITE)
    return tuple(
        _nothing(stack.n, Fault(int(useless[i]))) if useless[i] else _one(stack, i) for i in range(len(stack))
    )


def _one(stack: Stack, i: int) -> Description:
    zero = bool(stack.faults[i] & Fault.ZERO)
    return Description(
        n=stack.n,
        mean=float(stack.mean[i]),
        std=float(stack.std[i]) if stack.varies[i] else 0.0,
        minimum=float(stack.wide[i].min()),
        maximum=float(stack.wide[i].max()),
        norm=float(stack.norm[i]),
        p99=float(stack.p99[i]),
        rho=None if zero else float(stack.rho[i]),
        reason=Fault.ZERO.words if zero else None,
    )


def _nothing(n: int, fault: Fault) -> Description:
    return Description(
        n=n,
        mean=None,
        std=None,
        minimum=None,
        maximum=None,
        norm=None,
        p99=None,
        rho=None,
        reason=fault.words,
    )
