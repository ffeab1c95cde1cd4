"""Plans: every wanted byte, few requests, little waste, all connections at work."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from modelkin.source import BytePlan, ByteRange, merged
from modelkin.source.ranges import FREE_WASTE, SHORTEST_PIECE, plan_requests, total_length

MIB = 1 << 20
ranges = st.builds(
    lambda start, length: ByteRange(start, start + length),
    st.integers(0, 20 * MIB),
    st.integers(1, 3 * MIB),
)
missing = st.dictionaries(st.sampled_from("abc"), st.lists(ranges, max_size=15), max_size=3)


@given(
    missing,
    st.integers(0, MIB),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.sampled_from([MIB, 8 * MIB]),
    st.integers(1, 16),
)
def test_a_plan_covers_what_is_missing_within_its_bounds(
    missing, max_gap, max_waste, piece_bytes, connections
):
    requests = plan_requests(
        missing, max_gap=max_gap, max_waste=max_waste, piece_bytes=piece_bytes, connections=connections
    )
    needed = sum(total_length(merged(items)) for items in missing.values())
    fetched = sum(item.length for _, item in requests)
    assert needed <= fetched <= needed + max(max_waste * needed, FREE_WASTE)
    assert all(0 < item.length <= piece_bytes for _, item in requests)
    for file, items in missing.items():
        asked = merged(item for name, item in requests if name == file)
        assert total_length(asked) == sum(item.length for name, item in requests if name == file), (
            "no overlap"
        )
        assert all(any(block.contains(item) for block in asked) for item in items if item.length)
        between = merged(items)
        for left, right in itertools.pairwise(between):
            joined = any(block.contains(ByteRange(left.stop - 1, right.start + 1)) for block in asked)
            assert not joined or right.start - left.stop <= max_gap


def plan(items: list[ByteRange], **changes: float) -> list[ByteRange]:
    settings = {"max_gap": 256 * 1024, "max_waste": 0.05, "piece_bytes": 8 * MIB, "connections": 16}
    return [item for _, item in plan_requests({"a": items}, **(settings | changes))]  # type: ignore[arg-type]


def test_neighbours_are_read_as_one():
    assert plan([ByteRange(0, 10), ByteRange(10, 20), ByteRange(25, 30)]) == [ByteRange(0, 30)]


def test_the_smallest_gaps_are_closed_first():
    items = [ByteRange(0, 1_000), ByteRange(61_000, 62_000), ByteRange(62_100, 63_000)]
    assert plan(items) == [ByteRange(0, 63_000)]
    far = [ByteRange(0, 1_000), ByteRange(70_000, 71_000), ByteRange(71_100, 72_000)]
    assert plan(far) == [ByteRange(0, 1_000), ByteRange(70_000, 72_000)]


def test_equal_gaps_are_all_closed_or_none():
    items = [ByteRange(start, start + 100) for start in range(0, 4_000_000, 40_000)]
    assert plan(items) == items, "closing all of them would waste 4 MB"


def test_a_long_range_is_shared_by_all_connections():
    parts = plan([ByteRange(0, 32 * MIB)])
    assert len(parts) == 16
    assert {part.length for part in parts} == {2 * MIB}
    assert len(plan([ByteRange(0, 256 * MIB)])) == 32, "pieces stay at most 8 MiB"


def test_a_short_range_is_not_cut():
    assert plan([ByteRange(0, SHORTEST_PIECE)]) == [ByteRange(0, SHORTEST_PIECE)]


def test_nothing_needs_no_request():
    assert plan([]) == []
    assert plan([ByteRange(5, 5)]) == []


def test_a_plan_sums_itself_up():
    made = BytePlan(requests=(("b", ByteRange(0, 10)), ("a", ByteRange(5, 8))), bytes_needed=12)
    assert (made.bytes_to_fetch, made.n_requests, made.files) == (13, 2, ("a", "b"))
