"""Ways of reading against each other on one emulated Hub: requests, bytes, seconds, client CPU, ratios."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import HubProcess, LlamaShape

from benchmarks.floor import HEAD_BYTES, Floor, least_time, unbounded_time
from benchmarks.subject import (
    FAR,
    N_SHARDS,
    NEAR,
    REPO,
    SHAPE,
    USUAL,
    Network,
    Selection,
    attention,
    norms,
    repository,
)
from benchmarks.tables import Table, megabytes, seconds, times
from benchmarks.ways import LABELS
from benchmarks.worker import Reading, read_in_process
from modelkin import FetchOptions

CONNECTIONS = FetchOptions().connections
REPEATS = 5
"""Runs of modelkin, of which the median is shown; the others take so long that noise does not matter."""
N_EXTRAPOLATED = 12
"""Tensors that way (a) reads on other networks; its time is scaled, as each tensor costs the same."""

RIVALS = ("request-per-tensor", "one-session", "filesystem", "filesystem-uncached", "whole-shards")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One way on one selection, as seen from both ends."""

    way: str
    reading: Reading
    hub_requests: int
    cdn_requests: int
    hub_bytes: int
    cdn_bytes: int

    @property
    def n_bytes(self) -> int:
        """Bytes of bodies from both origins."""
        return self.hub_bytes + self.cdn_bytes


def measure(
    hub: HubProcess,
    way: str,
    selection: Selection,
    home: Path,
    *,
    fetch_options: Mapping[str, Any] | None = None,
) -> Measured:
    """Run one way in a fresh process and count what the server saw."""
    hub.reset()
    reading = read_in_process(
        way, endpoint=hub.url, selection=selection, home=home, fetch_options=fetch_options
    )
    if reading.n_bytes != selection.n_bytes:
        raise RuntimeError(f"{way}: expected {selection.n_bytes} bytes of tensors, got {reading.n_bytes}")
    return Measured(
        way=way,
        reading=reading,
        hub_requests=hub.n_requests("hub"),
        cdn_requests=hub.n_requests("cdn"),
        hub_bytes=hub.bytes_sent("hub"),
        cdn_bytes=hub.bytes_sent("cdn"),
    )


def measure_fresh(
    hub: HubProcess,
    way: str,
    selection: Selection,
    *,
    repeats: int = 1,
    fetch_options: Mapping[str, Any] | None = None,
) -> Measured:
    """Measure from empty caches, several times; return the run of median time."""
    runs: list[Measured] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as home:
            runs.append(measure(hub, way, selection, Path(home), fetch_options=fetch_options))
    return sorted(runs, key=lambda run: run.reading.seconds)[len(runs) // 2]


def check_equal(found: Sequence[Measured]) -> None:
    """Raise unless all ways read the same numbers."""
    digests = {one.reading.digest for one in found}
    if len(digests) != 1:
        raise RuntimeError(f"the ways disagree: {[(one.way, one.reading.digest[:12]) for one in found]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound that modelkin must keep, counted, not timed."""

    name: str
    value: int
    most: int


def limits(found: Measured, selection: Selection, *, n_shards: int = N_SHARDS) -> list[Limit]:
    """Return what was promised about requests and bytes."""
    return [
        Limit(name="requests to the Hub (shards + 2)", value=found.hub_requests, most=n_shards + 2),
        Limit(
            name="bytes (1.05 x needed + 128 KiB a shard)",
            value=found.cdn_bytes,
            most=int(1.05 * selection.n_bytes) + n_shards * HEAD_BYTES,
        ),
    ]


def floor_of(network: Network, selection: Selection, shape: LlamaShape = SHAPE) -> Floor:
    """Return the least time for a selection with modelkin's number of connections."""
    n_ranges = len(selection.tensors) if selection.name == "norms" else len(selection.tensors) // 4
    return least_time(
        network,
        n_ranges=n_ranges,
        n_bytes=selection.n_bytes,
        n_shards=N_SHARDS,
        connections=CONNECTIONS,
    )


def run(*, quick: bool = False) -> str:
    """Measure everything about reading; return it as Markdown."""
    parts: list[str] = []
    selections = (norms(), attention())
    with HubProcess({REPO: repository()}, USUAL.options()) as hub:
        for selection in selections:
            parts.append(_comparison(hub, selection, quick=quick))
        parts.append(_again(hub, selections))
    parts.append(_other_lines(quick=quick))
    return "\n\n".join(parts)


def _comparison(hub: HubProcess, selection: Selection, *, quick: bool) -> str:
    ours = measure_fresh(hub, "modelkin", selection, repeats=REPEATS)
    left_out = {"request-per-tensor", "whole-shards"} if quick else set()
    if selection.name != "norms":
        left_out.add("whole-shards")  # the same files, hence the same download, as for the norms
    rivals = [way for way in RIVALS if way not in left_out]
    found = [measure_fresh(hub, way, selection) for way in rivals] + [ours]
    check_equal(found)
    table = Table(
        [
            "way",
            "Hub requests",
            "CDN requests",
            "MB moved",
            "seconds",
            "client CPU s",
            "modelkin is faster by",
        ],
        [
            [
                LABELS[one.way],
                str(one.hub_requests),
                str(one.cdn_requests),
                megabytes(one.n_bytes),
                seconds(one.reading.seconds),
                seconds(one.reading.cpu_seconds),
                "" if one is ours else times(one.reading.seconds / ours.reading.seconds),
            ]
            for one in found
        ],
    )
    floor, least = floor_of(USUAL, selection), unbounded_time(USUAL)
    bounds = Table(
        ["promise", "measured", "limit", "kept"],
        [
            [limit.name, f"{limit.value:,}", f"{limit.most:,}", "yes" if limit.value <= limit.most else "NO"]
            for limit in limits(ours, selection)
        ],
    )
    chain = (
        f"listing {floor.listing:.3f} + resolve {floor.resolve:.3f} + headers {floor.headers:.3f} "
        f"+ tensors {floor.data:.3f}"
    )
    return "\n\n".join(
        [
            f"### {selection.name}: {len(selection.tensors)} tensors, {megabytes(selection.n_bytes)} MB",
            table.markdown(),
            bounds.markdown(),
            f"The line itself allows {floor.seconds:.3f} s with {CONNECTIONS} connections ({chain}): "
            f"modelkin needs **{times(ours.reading.seconds / floor.seconds)}** that. With any number of "
            f"connections, all opened ahead, it would be {least.seconds:.3f} s "
            f"({times(ours.reading.seconds / least.seconds)}).",
        ]
    )


def _again(hub: HubProcess, selections: Sequence[Selection]) -> str:
    rows: list[list[str]] = []
    for selection in selections:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            first = measure(hub, "modelkin", selection, home)
            second = measure(hub, "modelkin", selection, home)
            offline = measure(hub, "modelkin", selection, home, fetch_options={"offline": True})
        check_equal([first, second, offline])
        rows += [
            [
                f"{selection.name}, {name}",
                str(one.hub_requests),
                str(one.cdn_requests),
                megabytes(one.n_bytes),
                seconds(one.reading.seconds),
                seconds(one.reading.cpu_seconds),
            ]
            for name, one in (("first", first), ("second", second), ("offline", offline))
        ]
    columns = ["run", "Hub requests", "CDN requests", "MB moved", "seconds", "client CPU s"]
    return f"### Again, from the store\n\n{Table(columns, rows).markdown()}"


def _other_lines(*, quick: bool) -> str:
    """Compare on other latencies: the ratios must not depend on the ones chosen."""
    selection = norms()
    some = Selection(
        name="norms",
        tensors=selection.tensors[:N_EXTRAPOLATED],
        n_bytes=selection.n_bytes * N_EXTRAPOLATED // len(selection.tensors),
    )
    rows: list[list[str]] = []
    for network in (NEAR,) if quick else (NEAR, FAR):
        with HubProcess({REPO: repository()}, network.options()) as hub:
            ours = measure_fresh(hub, "modelkin", selection, repeats=3)
            slow = measure_fresh(hub, "request-per-tensor", some).reading.seconds
            slow *= len(selection.tensors) / N_EXTRAPOLATED
            uncached = measure_fresh(hub, "filesystem-uncached", selection)
        check_equal([ours, uncached])
        mine = ours.reading.seconds
        rows.append(
            [
                network.summary,
                seconds(mine),
                *(f"{seconds(other)} ({times(other / mine)})" for other in (slow, uncached.reading.seconds)),
                times(mine / floor_of(network, selection).seconds),
            ]
        )
    columns = ["Hub / CDN / new connection", "(e) s", "(a) s", "(c) cache off, s", "(e) / floor"]
    note = (
        f"Norms only. (a) was measured on {N_EXTRAPOLATED} of {len(selection.tensors)} tensors and scaled; "
        "the others are whole."
    )
    return f"### Other lines\n\n{Table(columns, rows).markdown()}\n\n{note}"
