"""Known names behind a prefix that nobody knows: ``net.core.layers.0`` in place of ``model.layers.0``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from modelkin.message import say

from ._renamed import Renamed

_MAX_DEPTH: Final = 4
_SHOWN: Final = 60
_MOST: Final = 0.7
"""An output head, or a head of another task, may stay outside the prefix."""


def unprefixed(names: Iterable[str]) -> Iterator[Renamed]:
    """Yield the names without prefixes that most of them have, the shortest first."""
    every = list(names)
    counts: Counter[str] = Counter()
    for name in every:
        parts = name.split(".", _MAX_DEPTH)[:-1]
        for depth in range(1, min(len(parts), _MAX_DEPTH) + 1):
            counts[".".join(parts[:depth]) + "."] += 1
    common = [prefix for prefix, count in counts.items() if count >= max(2, _MOST * len(every))]
    for prefix in sorted(common, key=len):
        shown = prefix if prefix.isprintable() and len(prefix) <= _SHOWN else f"{prefix[:_SHOWN]!r}..."
        yield Renamed(
            usual={name: name[len(prefix) :] for name in every if name.startswith(prefix)},
            notes=(say("prefix", prefix=shown),),
            prefix=prefix,
        )
