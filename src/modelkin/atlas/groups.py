"""Groups that pairs connect, grown pair by pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


class JoinedGroups(Generic[Member]):
    """Members, each at first a group of its own."""

    def __init__(self, members: Iterable[Member]) -> None:
        self._above = {member: member for member in members}

    def join(self, first: Member, second: Member) -> bool:
        """Join the groups of two members; say whether they were apart."""
        a, b = self._top(first), self._top(second)
        self._above[a] = b
        return a != b

    def listed(self) -> list[list[Member]]:
        """Return the groups, single members included, each and all in the order of the members."""
        groups: dict[Member, list[Member]] = {}
        for member in self._above:
            groups.setdefault(self._top(member), []).append(member)
        return list(groups.values())

    def _top(self, member: Member) -> Member:
        above = self._above
        while above[member] != member:
            above[member] = above[above[member]]
            member = above[member]
        return member


def connected(n: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of the first n numbers that pairs connect, single ones included, each in order."""
    groups = JoinedGroups(range(n))
    for first, second in pairs:
        groups.join(first, second)
    return groups.listed()
