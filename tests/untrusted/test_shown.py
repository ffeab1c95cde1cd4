"""How text of unknown authors is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.untrusted import plain, quoted, short_names, visible


@given(text=st.text())
def test_what_is_shown_is_printable_and_short(text):
    for shown in (quoted(text * 50), plain(text), visible(text)):
        assert shown.isprintable()
    # At most ten characters for each of those that are shown.
    assert len(quoted(text * 50)) < 1300


def test_a_short_name_is_shown_in_quotes():
    assert quoted("model.norm.weight") == "'model.norm.weight'"


def test_a_long_name_is_cut_and_its_length_told():
    assert quoted("x" * 200) == f"'{'x' * 120}'... (200 characters)"
    assert quoted("x" * 200, 10) == "'xxxxxxxxxx'... (200 characters)"


def test_a_plain_file_name_is_shown_as_it_is():
    assert plain("sub/model.safetensors") == "sub/model.safetensors"


@pytest.mark.more
@pytest.mark.parametrize(
    ("refs", "expected"),
    [
        (["org/base", "other/child@main"], ("base", "child@main")),
        (["one/llama", "two/llama", "one/llama"], ("one/llama", "two/llama", "one/llama")),
        (
            ["/data/a/model.safetensors", "/data/b/model.safetensors"],
            ("a/model.safetensors", "b/model.safetensors"),
        ),
        (["./runs/child/", "base"], ("child", "base")),
        (["org/lora::org/base", "org/base"], ("lora::base", "base")),
        (
            ["https://host/x/resolve/main/model.safetensors.index.json", "x"],
            ("x/resolve/main/model.safetensors.index.json", "x"),
        ),
        (["/", ""], ("/", "")),
    ],
)
def test_the_shortest_end_that_tells_references_apart(refs, expected):
    assert short_names(refs) == expected


@pytest.mark.more
@given(refs=st.lists(st.text(alphabet="ab/:@.", max_size=12), max_size=5))
def test_short_names_tell_apart_what_differs(refs):
    assert len(set(short_names(refs))) == len(set(refs))
