from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.tensors._names import name_problem, plain, quoted


@given(text=st.text())
def test_what_is_shown_is_printable_and_short(text):
    for shown in (quoted(text * 50), plain(text)):
        assert shown.isprintable()
        # At most ten characters for each of eighty.
        assert len(shown) < 1100


def test_a_short_name_is_shown_in_quotes():
    assert quoted("model.norm.weight") == "'model.norm.weight'"


def test_a_long_name_is_cut_and_its_length_told():
    assert quoted("x" * 200) == f"'{'x' * 80}'... (200 characters)"


def test_a_plain_file_name_is_shown_as_it_is():
    assert plain("sub/model.safetensors") == "sub/model.safetensors"


@pytest.mark.parametrize("name", ["a", "model.layers.0.weight", "重み", "with space", "é", "x" * 1024])
def test_a_visible_name_is_fine(name: str):
    assert name_problem(name) is None


@given(name=st.text(max_size=40))
def test_a_name_that_is_fine_can_be_written_as_utf8_on_one_line(name):
    if name_problem(name) is None:
        assert name.encode("utf-8").decode("utf-8") == name
        assert name.splitlines() == [name]
