"""Guards at width: which were seen to spring where they must, and to stay where they must not."""

from __future__ import annotations

from tests.scale.record import record

GUARDS = (
    "heads that are alike and not the same",
    "units that resemble many units",
    "gains in an order of their own",
    "parts in which not even equal weights could be found",
    "small weights in the same places",
    "zeros in the same places",
    "layers that all begin alike",
)
"""In the order of the table."""


def seen(guard: str, width: int, *, springs: bool) -> None:
    """Keep that a test has passed which is about one side of a guard."""
    assert guard in GUARDS
    side = "springs" if springs else "stays"
    record("guards", name=f"{guard}, {width:,}, {side}", guard=guard, width=width, side=side)
