"""Property-based fuzzing of the two parsers; `fuzz.py` runs longer."""

from __future__ import annotations

import json
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.formats.hostile.builders import with_length
from tests.formats.hostile.fuzz import FRAGMENTS, check_file, check_index, try_file, try_index

from modelkin.tensors import DTYPES

numbers = st.sampled_from([0, 1, 2, 4, 8, 16, -1, 2**31, 2**62, 2**63, 2**64, 1.5, True, None]) | st.integers(
    0, 40
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*DTYPES, "I4", "", "f32"]),
        "shape": st.lists(numbers, max_size=4),
        "data_offsets": st.lists(numbers, min_size=1, max_size=3),
    },
    optional={"note": json_values},
)
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join)


class TestFiles:
    @given(data=st.binary(max_size=200))
    def test_random_bytes_are_judged(self, data):
        check_file(data)

    @given(text=texts)
    def test_random_fragments_are_judged(self, text):
        check_file(with_length(b"{" + text))

    @given(
        names=st.dictionaries(st.text(max_size=8), json_values | entries, max_size=4), size=st.integers(0, 40)
    )
    @settings(max_examples=300)
    def test_random_objects_are_judged(self, names, size):
        check_file(with_length(json.dumps(names)) + bytes(size))

    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=500)
    def test_mutated_files_are_judged(self, seed):
        try_file(random.Random(seed))

    def test_the_mutations_leave_some_files_whole(self):
        rng = random.Random(1)
        assert 20 < sum(try_file(rng) for _ in range(300)) < 280


class TestIndexes:
    @given(data=st.binary(max_size=200) | texts)
    @example(data=b"")
    def test_random_bytes_are_judged(self, data):
        check_index(data)

    @given(
        weight_map=st.dictionaries(
            st.text(max_size=8),
            st.text("ab./\\:%2e~ \0", max_size=8).map(lambda path: f"{path}.safetensors"),
            max_size=3,
        ),
        more=st.dictionaries(st.text(max_size=8), json_values, max_size=3),
        metadata=json_values,
    )
    @settings(max_examples=300)
    def test_random_objects_are_judged(self, weight_map, more, metadata):
        check_index(json.dumps({**more, "metadata": metadata, "weight_map": weight_map}).encode())

    @given(seed=st.integers(0, 2**32))
    @settings(max_examples=500)
    def test_mutated_indexes_are_judged(self, seed):
        try_index(random.Random(seed))

    def test_the_mutations_leave_some_indexes_whole(self):
        rng = random.Random(1)
        assert 20 < sum(try_index(rng) for _ in range(300)) < 280
