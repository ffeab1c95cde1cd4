"""Model references: which place a text names, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.demo import DEMO_MODELS
from modelkin.errors import BadReference, NotFound
from modelkin.source import ModelRef, pinned
from modelkin.source.ref import without_secrets


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "folder").mkdir()
    (tmp_path / "org" / "local").mkdir(parents=True)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "target", "revision"),
    [
        ("org/name", "org/name", None),
        ("gpt2", "gpt2", None),
        ("org/name@main", "org/name", "main"),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1"),
        ("hf://org/name@v1.0", "org/name", "v1.0"),
        ("HF://org/name", "org/name", None),
        ("Qwen/Qwen2.5-0.5B_x", "Qwen/Qwen2.5-0.5B_x", None),
    ],
)
def test_hub_references(text, target, revision):
    ref = ModelRef.parse(text)
    assert (ref.kind, ref.target, ref.revision, ref.text) == ("hub", target, revision, text)


@pytest.mark.parametrize(
    ("text", "target", "revision", "entry"),
    [
        ("org/name/model.gguf", "org/name", None, "model.gguf"),
        ("org/name/a/b/model.gguf", "org/name", None, "a/b/model.gguf"),
        ("org/name@main/model.gguf", "org/name", "main", "model.gguf"),
        ("hf://org/name@v1.0/q4/model.gguf", "org/name", "v1.0", "q4/model.gguf"),
        ("org/name@refs/pr/1/model.onnx", "org/name", "refs/pr/1", "model.onnx"),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1", None),
        ("hf://org/name", "org/name", None, None),
    ],
)
def test_files_of_hub_repositories(text, target, revision, entry):
    ref = ModelRef.parse(text)
    assert (ref.kind, ref.target, ref.revision, ref.entry) == ("hub", target, revision, entry)


@pytest.mark.parametrize("text", ["org/name/../x.gguf", "org/name/a//b.gguf", "org/name@main/.././x.gguf"])
def test_files_that_leave_their_repository_are_refused(text):
    with pytest.raises(BadReference, match=r"the file .* is not a plain path"):
        ModelRef.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", "org/name@c0ffee"),
        ("hf://org/name@main", "hf://org/name@c0ffee"),
        ("org/name/q4/model.gguf", "org/name@c0ffee/q4/model.gguf"),
        ("org/name@refs/pr/1/model.gguf", "org/name@c0ffee/model.gguf"),
    ],
)
def test_a_pinned_reference_names_the_commit_and_the_file(text, expected):
    assert pinned(text, "c0ffee") == expected
    assert ModelRef.parse(expected).revision == "c0ffee"


@pytest.mark.parametrize(
    "text", ["./folder", "folder", "~/folder", "model.safetensors", "./model.safetensors", "org/local"]
)
def test_existing_paths_are_local(here, text):
    ref = ModelRef.parse(text)
    assert ref.kind == "local"
    assert ref.target == str((here / text.removeprefix("~/")).resolve())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("https://host/a/model.safetensors", "http"),
        ("http://host:8080/model.safetensors.index.json", "http"),
        ("s3://bucket/prefix", "fsspec"),
        ("gs://bucket/prefix", "fsspec"),
        ("memory://x", "fsspec"),
    ],
)
def test_urls(text, kind):
    assert ModelRef.parse(text).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "./nothing",
        "/nothing/here",
        "~/nothing",
        "other.safetensors",
        "a/b.gguf",
        "file:///no",
        "./" + "x" * 300,
    ],
)
def test_paths_that_are_not_there_are_not_found(text):
    with pytest.raises(NotFound, match="no such file"):
        ModelRef.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "a/b/c",
        "org/na me",
        "org/name@",
        "org/name@ x",
        "org/name@a..b",
        "-org/name",
        "nobody/..",
        "a--b/c",
        "org/name.git",
        "hf://",
        "http://",
        "https:///path",
        "http://host",
        "http://host/",
        "http://[/x",
        "http://host:99999/x",
        "http://host:port/x",
        "s3://",
        "x" * 5_000,
        "a\nb",
        "a\x1b[31m",
        "x" * 97,
    ],
)
def test_nonsense_is_refused_in_one_printable_line(text):
    with pytest.raises(BadReference, match=r".") as caught:
        ModelRef.parse(text)
    assert caught.value.exit_code == 2
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_a_home_folder_of_nobody_is_not_found():
    with pytest.raises(NotFound, match="no such home folder"):
        ModelRef.parse("~nobody-of-that-name/model")


def test_a_name_longer_than_file_names_can_be_is_refused():
    with pytest.raises(BadReference, match="expected a Hub repository"):
        ModelRef.parse("x" * 300)


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_a_clear_error(text):
    with contextlib.suppress(BadReference, NotFound):
        assert ModelRef.parse(text).kind in ("hub", "local", "http", "fsspec")


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pass@host/m.safetensors?X-Amz-Signature=pass#pass",
        "https://pass@host/m.safetensors",
        "s3://key:pass@bucket/prefix?token=pass",
    ],
)
def test_credentials_are_not_shown(url):
    ref = ModelRef.parse(url)
    assert "pass" not in f"{ref} {ref!r} {ref.text}"
    assert ref.target == url


@pytest.mark.parametrize(
    "url", ["http://user:pass@[/x", "http://user:pass@host:99999/x", "http://user:pass@host"]
)
def test_credentials_are_not_shown_by_errors_either(url):
    with pytest.raises(BadReference, match="the URL") as caught:
        ModelRef.parse(url)
    assert "pass" not in str(caught.value)


def test_a_url_without_secrets_keeps_its_place():
    assert without_secrets("https://u:p@host:8/a/b?c=d#e") == "https://host:8/a/b"


@pytest.mark.parametrize(
    ("text", "adapter", "base"),
    [
        ("org/adapter::org/base@v1", "org/adapter", "org/base"),
        ("org/adapter@a::hf://org/base", "org/adapter", "org/base"),
        ("folder::org/base", None, "org/base"),
        ("http://[::1]:80/x/adapter_model.safetensors::org/base", None, "org/base"),
        ("org/adapter::http://[::1]/model.safetensors", "org/adapter", "http://[::1]/model.safetensors"),
    ],
)
def test_an_adapter_can_be_written_with_its_base(text, adapter, base):
    ref = ModelRef.parse(text)
    assert ref.text == text
    assert ref.base is not None
    assert ref.base.target == base
    assert ref.base.base is None
    if adapter is not None:
        assert ref.target == adapter


def test_secrets_of_both_parts_are_left_out_of_the_text():
    ref = ModelRef.parse(
        "https://u:secret@host/adapter_model.safetensors::https://host/m.safetensors?key=secret"
    )
    assert "secret" not in f"{ref.text} {ref!r} {ref.base!r}"


def test_a_path_with_colons_in_its_name_is_a_path(here):
    (here / "odd::name").mkdir()
    assert ModelRef.parse("./odd::name").base is None


def test_an_address_in_brackets_is_no_adapter():
    assert ModelRef.parse("http://[::1]/model.safetensors").base is None


@pytest.mark.parametrize("text", ["::", "::org/base", "org/adapter::", "a/b::c/d::e/f"])
def test_half_a_pair_is_no_reference(text):
    with pytest.raises(BadReference, match="expected"):
        ModelRef.parse(text)


@pytest.mark.parametrize("text", ["s3://[", "gs://[::1", "a::htt2s://[", "https://["])
def test_an_address_that_cannot_be_taken_apart_is_refused(text):
    with pytest.raises(BadReference, match="the URL cannot be read"):
        ModelRef.parse(text)


def test_what_is_no_address_is_shown_without_its_secrets():
    assert without_secrets("https://user:secret@[") == "https:// …"


def test_an_address_is_shown_escaped():
    shown = without_secrets("https://host/\x1b[31m\u202e")
    assert shown.isprintable()
    assert shown == r"https://host/\x1b[31m\u202e"


def test_models_that_come_with_the_package_are_named_anywhere():
    ref = ModelRef.parse("demo:base")
    assert (ref.kind, ref.text, ref.entry) == ("local", "demo:base", None)
    assert (Path(ref.target) / "config.json").is_file()
    for name in DEMO_MODELS:
        assert Path(ModelRef.parse(f"demo:{name}").target).name == name


def test_an_unknown_demo_model_is_answered_with_the_nearest_and_the_list():
    with pytest.raises(NotFound, match=r"did you mean demo:base\?") as caught:
        ModelRef.parse("demo:bsae")
    assert "demo:twin-1" in (caught.value.hint or "")


def test_a_folder_called_like_a_demo_model_wins(here):
    (here / "demo:base").mkdir()
    assert ModelRef.parse("demo:base").target == str(here / "demo:base")


@pytest.mark.parametrize("text", ["org/locall", "org/loca", "./org/locla", "org/Local"])
def test_a_slip_in_a_path_is_answered_with_the_name_that_is_there(text):
    with pytest.raises(NotFound, match=r"did you mean org/local\?"):
        ModelRef.parse(text)


def test_a_slip_in_the_present_folder_counts_for_folders_of_models_only(here):
    assert ModelRef.parse("foldr").kind == "hub"
    (here / "folder" / "config.json").write_text("{}")
    with pytest.raises(NotFound, match=r"did you mean folder\?"):
        ModelRef.parse("foldr")


@pytest.mark.parametrize("text", ["hf:org/local", "hf:org/locall", "hf:org/local@main", "org/locall@main"])
def test_the_hub_can_be_named_where_a_folder_has_the_name(text):
    ref = ModelRef.parse(text)
    assert (ref.kind, ref.text) == ("hub", text)
    assert ref.target.startswith("org/local")
    assert ModelRef.parse(pinned(text, "c0ffee")).revision == "c0ffee"
