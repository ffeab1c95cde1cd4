"""The algebra of byte ranges, against sets of numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.source import ByteRange, merged
from modelkin.source.ranges import split, subtracted, total_length

ranges = st.builds(
    lambda start, length: ByteRange(start, start + length), st.integers(0, 60), st.integers(0, 20)
)
lists = st.lists(ranges, max_size=12)


def numbers(items: list[ByteRange]) -> set[int]:
    return {number for item in items for number in range(item.start, item.stop)}


def gaps(items: list[ByteRange]) -> list[int]:
    return [right.start - left.stop for left, right in itertools.pairwise(items)]


@given(lists)
def test_merging_keeps_every_byte_once(items):
    found = merged(items)
    assert numbers(found) == numbers(items)
    assert total_length(found) == len(numbers(items))
    assert all(gap > 0 for gap in gaps(found))


@given(lists, st.integers(0, 15))
def test_merging_with_a_gap_closes_exactly_the_small_gaps(items, gap):
    found = merged(items, gap=gap)
    assert numbers(items) <= numbers(found)
    assert all(each > gap for each in gaps(found))
    assert {at for item in found for at in (item.start, item.stop)} <= {
        at for item in items for at in (item.start, item.stop)
    }


@given(lists, lists)
def test_subtracting_against_sets(items, covered):
    found = subtracted(items, covered)
    assert numbers(found) == numbers(items) - numbers(covered)
    assert found == merged(found)


@given(ranges, st.integers(1, 9))
def test_splitting_keeps_order_and_bytes(item, piece):
    parts = list(split(item, piece=piece))
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(item.start, item.stop))
    assert all(0 < part.length <= piece for part in parts)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 4), (-2, -1)])
def test_a_range_that_is_none_is_refused(start, stop):
    with pytest.raises(ValueError, match="a byte range needs 0 <= start <= stop"):
        ByteRange(start, stop)


def test_a_range_knows_what_is_in_it():
    outer = ByteRange(10, 20)
    assert outer.contains(ByteRange(10, 20))
    assert not outer.contains(ByteRange(9, 12))
    assert outer.clipped(15) == ByteRange(10, 15)
    assert outer.clipped(5) == ByteRange(5, 5)
    assert str(outer) == "10-20"
