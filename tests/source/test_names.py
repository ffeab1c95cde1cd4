"""Names from outside: which ones are used, and how they are shown."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.source import name_problem, shown


@pytest.mark.parametrize(
    "name", ["a", "model-00001-of-00002.safetensors", "sub/a.json", ".hidden", "a b", "모델.bin"]
)
def test_ordinary_names_are_fine(name):
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("..", "has an empty, '.' or '..' part"),
        ("a/../b", "has an empty, '.' or '..' part"),
        ("a//b", "has an empty, '.' or '..' part"),
        ("a/", "has an empty, '.' or '..' part"),
        ("./a", "has an empty, '.' or '..' part"),
        ("/a", "is not a plain relative path"),
        ("~/a", "is not a plain relative path"),
        ("a\\b", "is not a plain relative path"),
        ("C:a", "is not a plain relative path"),
        ("a\x00b", "contains control characters"),
        ("a\nb", "contains control characters"),
        ("a\u202eb", "contains control characters"),
        ("a\u200bb", "contains control characters"),
        ("a\ud800b", "contains control characters"),
        ("a" * 1025, "is longer than 1024 characters"),
    ],
)
def test_names_that_could_do_harm_are_refused(name, problem):
    assert name_problem(name) == problem


@given(st.text(alphabet=st.characters(), max_size=30))
def test_a_name_that_passes_stays_in_its_folder_on_every_system(name):
    if name_problem(name) is None:
        assert not PurePosixPath(name).is_absolute()
        assert not PureWindowsPath(name).is_absolute()
        assert not PureWindowsPath(name).drive
        assert ".." not in PureWindowsPath(name).parts
        quote(name)
        name.encode()


@given(st.text(max_size=300))
def test_a_name_is_shown_short_and_printable(name):
    assert shown(name).isprintable()
    assert len(shown(name)) <= 121
