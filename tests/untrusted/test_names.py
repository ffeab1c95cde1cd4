"""Names and paths of unknown authors: which ones are used."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.untrusted import name_problem, path_problem


@pytest.mark.parametrize(
    "name", ["a", "model-00001-of-00002.safetensors", "sub/a.json", ".hidden", "a b", "모델.bin"]
)
def test_ordinary_names_are_fine(name):
    assert path_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("..", "contains '..', so it is not a plain path"),
        ("a/../b", "contains '..', so it is not a plain path"),
        ("a//b", "contains an empty part, so it is not a plain path"),
        ("a/", "contains an empty part, so it is not a plain path"),
        ("./a", "contains '.', so it is not a plain path"),
        ("/a", "is absolute"),
        ("~/a", "begins with '~', which stands for a home folder"),
        ("a\\b", r"contains the forbidden character '\\'"),
        ("C:a", "contains the forbidden character ':'"),
        ("a\x00b", "contains the invisible character U+0000"),
        ("a\nb", "contains the invisible character U+000A"),
        ("a\u202eb", "contains the invisible character U+202E"),
        ("a\u200bb", "contains the invisible character U+200B"),
        ("a\ud800b", "contains the invisible character U+D800"),
        ("a" * 1025, "has 1025 characters, more than 1024"),
    ],
)
def test_names_that_could_do_harm_are_refused(name, problem):
    assert str(path_problem(name)) == problem


@given(st.text(alphabet=st.characters(), max_size=30))
def test_a_name_that_passes_stays_in_its_folder_on_every_system(name):
    if path_problem(name) is None:
        assert not PurePosixPath(name).is_absolute()
        assert not PureWindowsPath(name).is_absolute()
        assert not PureWindowsPath(name).drive
        assert ".." not in PureWindowsPath(name).parts
        quote(name)
        name.encode()


@pytest.mark.parametrize("name", ["a", "model.layers.0.weight", "重み", "with space", "é", "x" * 1024])
def test_a_visible_name_is_fine(name: str):
    assert name_problem(name) is None


@given(name=st.text(max_size=40))
def test_a_name_that_is_fine_can_be_written_as_utf8_on_one_line(name):
    if name_problem(name) is None:
        assert name.encode("utf-8").decode("utf-8") == name
        assert name.splitlines() == [name]
