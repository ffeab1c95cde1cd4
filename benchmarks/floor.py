"""The least time that reading can take on a connection, whatever the client does. Arithmetic only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.subject import Network

HEAD_BYTES = 128 * 1024
"""First read of a shard, which brings its header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Steps that wait for each other, in seconds."""

    listing: float
    """A connection to the Hub, and one answer: which files there are."""
    resolve: float
    """One more answer of the Hub, for all shards at once: where each shard is stored."""
    headers: float
    """A connection to the storage, and one answer, for all shards at once: where each tensor is."""
    data: float
    """The tensors themselves."""

    @property
    def seconds(self) -> float:
        """The whole chain."""
        return self.listing + self.resolve + self.headers + self.data


def least_time(network: Network, *, n_ranges: int, n_bytes: int, n_shards: int, connections: int) -> Floor:
    """Return the floor of a client that plans well and keeps to a number of connections.

    Every step assumes that nothing but the line takes time. Connections to the Hub beyond the first count as
    opened while the listing is in progress. One connection per shard is open when the data phase begins.
    """
    chain = {
        "listing": network.connection + network.hub,
        "resolve": network.hub,
        "headers": network.connection + network.cdn + network.transfer(HEAD_BYTES),
    }
    warm = min(n_shards, connections)
    # Time that all connections together must spend, shared evenly: long ranges can be split.
    busy = max(n_ranges, connections) * network.cdn + (connections - warm) * network.connection
    shared = (busy + network.transfer(n_bytes)) / connections
    counted = _rounds(network, n_ranges=n_ranges, warm=warm, cold=connections - warm)
    return Floor(**chain, data=max(shared, counted))


def unbounded_time(network: Network) -> Floor:
    """Return the floor of a client with any number of connections, all opened ahead of their use.

    Bytes then take no time: this is the chain of answers that wait for each other, and nothing else.
    """
    return Floor(
        listing=network.connection + network.hub,
        resolve=network.hub,
        headers=network.connection + network.cdn,
        data=network.cdn,
    )


def _rounds(network: Network, *, n_ranges: int, warm: int, cold: int) -> float:
    """Return when the last of many short requests is answered, one at a time on each connection."""
    if network.cdn <= 0:
        return 0.0
    # An answer comes at k round trips on a warm connection, and later by a handshake on a cold one.
    answers = [network.cdn * trip for trip in range(1, math.ceil(n_ranges / max(1, warm)) + 1)]
    times = sorted(
        [moment for moment in answers for _ in range(warm)]
        + [moment + network.connection for moment in answers for _ in range(cold)]
    )
    return times[n_ranges - 1]
