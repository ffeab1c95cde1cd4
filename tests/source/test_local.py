"""Local files: what is listed, what is left out, and files that change while being read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from modelkin.errors import AccessDenied, ChangedWhileReading, NotFound, SourceError, WrongBytes
from modelkin.source import ByteRange, FileInfo
from modelkin.source import local as local_module
from modelkin.source.local import LocalSource, open_local

DATA = bytes(range(256)) * 8
posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


@pytest.fixture
def folder(tmp_path) -> Path:
    made: Path = tmp_path / "model"
    made.mkdir()
    (made / "model.safetensors").write_bytes(DATA)
    (made / "config.json").write_bytes(b"{}")
    return made


def info_of(source: LocalSource, name: str = "model.safetensors") -> FileInfo:
    info = source.find(name)
    assert info is not None
    return info


def test_links_are_followed(folder, tmp_path):
    (tmp_path / "blob").write_bytes(b"linked")
    (folder / "link.bin").symlink_to(tmp_path / "blob")
    (folder / "dangling.bin").symlink_to(tmp_path / "nothing")
    source = LocalSource(folder)
    assert list(source.files()) == ["config.json", "link.bin", "model.safetensors"]
    assert source.read_range(info_of(source, "link.bin"), ByteRange(0, 6)) == b"linked"


@posix
def test_pipes_and_devices_are_not_files(folder):
    os.mkfifo(folder / "pipe.bin")
    (folder / "zero.bin").symlink_to("/dev/zero")
    assert list(LocalSource(folder).files()) == ["config.json", "model.safetensors"]


@posix
def test_a_pipe_put_in_the_place_of_a_file_does_not_block(folder):
    source = LocalSource(folder)
    info = info_of(source)
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(ChangedWhileReading, match="the file was changed after it was listed"):
        source.read_range(info, ByteRange(0, 10))


@pytest.mark.parametrize("change", ["rewrite", "grow", "cut", "touch"])
def test_a_file_that_changed_since_it_was_listed_is_noticed(folder, change):
    source = LocalSource(folder)
    info = info_of(source)
    path = folder / "model.safetensors"
    before = path.stat()
    data = {"rewrite": DATA[::-1], "grow": DATA + b"x", "cut": DATA[:-1], "touch": DATA}[change]
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    with pytest.raises(ChangedWhileReading, match="the file was changed after it was listed") as caught:
        source.read_range(info, ByteRange(0, 10))
    assert "Run again" in (caught.value.hint or "")


def test_a_file_that_is_cut_while_it_is_read_is_noticed(folder, monkeypatch):
    source = LocalSource(folder)
    info = info_of(source)
    pread = local_module._pread

    def cut_first(handle: int, length: int, position: int) -> bytes:
        os.truncate(folder / "model.safetensors", 100)
        return pread(handle, length, position)

    monkeypatch.setattr(local_module, "_pread", cut_first)
    with pytest.raises(ChangedWhileReading, match="the file was changed"):
        source.read_range(info, ByteRange(0, 2_000))


def test_a_file_that_is_gone_is_noticed(folder):
    source = LocalSource(folder)
    info = info_of(source)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ChangedWhileReading, match="disappeared since it was listed"):
        source.read_range(info, ByteRange(0, 10))


def test_short_reads_are_continued(folder, monkeypatch):
    pread = local_module._pread
    monkeypatch.setattr(
        local_module, "_pread", lambda handle, length, at: pread(handle, min(length, 100), at)
    )
    source = LocalSource(folder)
    assert source.read_range(info_of(source), ByteRange(5, 1_999)) == DATA[5:1_999]


def test_no_handle_stays_open(folder):
    source = LocalSource(folder)
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        source.read_range(info_of(source), ByteRange(0, 10))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PermissionError(13, "no"), AccessDenied), (OSError(5, "Input/output error"), SourceError)],
)
def test_errors_of_the_system_are_put_in_our_words(folder, monkeypatch, error, kind):
    source = LocalSource(folder)
    info = info_of(source)

    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(
        kind,
        match=r"model\.safetensors: (permission to read this was denied|reading failed: Input/output error)",
    ):
        source.read_range(info, ByteRange(0, 10))


def test_folders_are_walked_to_a_depth_and_hidden_ones_are_not(folder):
    deep = folder / "a" / "b" / "c" / "d"
    deep.mkdir(parents=True)
    (deep / "in.json").write_text("{}")
    (deep / "e").mkdir()
    (deep / "e" / "out.json").write_text("{}")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.json").write_text("{}")
    assert set(LocalSource(folder).files()) == {"config.json", "model.safetensors", "a/b/c/d/in.json"}


def test_a_loop_of_links_ends(folder):
    (folder / "loop").symlink_to(folder)
    assert list(LocalSource(folder).files()) == ["config.json", "model.safetensors"]


def test_a_folder_that_is_no_model_is_not_walked_to_its_end(folder, monkeypatch):
    monkeypatch.setattr(local_module, "MAX_FILES", 1)
    with pytest.raises(SourceError, match="the folder holds more than 1 files") as caught:
        LocalSource(folder).files()
    assert caught.value.hint == "Give the folder of one model."


@posix
def test_names_that_could_not_be_shown_are_left_out(folder):
    (folder / "evil\x1b[2J.json").write_text("{}")
    Path(os.fsdecode(bytes(folder) + b"/bad\xff.json")).write_text("{}")
    assert list(LocalSource(folder).files()) == ["config.json", "model.safetensors"]


def test_a_single_file_shows_what_describes_it(folder):
    (folder / "other.safetensors").write_bytes(b"x")
    (folder / "tokenizer.model").write_bytes(b"x")
    source = LocalSource(folder / "model.safetensors")
    assert list(source.files()) == ["config.json", "model.safetensors", "tokenizer.model"]
    assert list(LocalSource(folder / "model.safetensors", alone=True).files()) == ["model.safetensors"]


def test_an_index_shows_its_shards(folder):
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "model.safetensors" in LocalSource(folder / "model.safetensors.index.json").files()


def test_what_is_not_there_cannot_be_opened(tmp_path):
    with pytest.raises(NotFound, match="ref: no such file or folder"):
        open_local(tmp_path / "nothing", ref="ref")


def test_a_range_is_shown_as_it_is_in_the_file(folder):
    source = LocalSource(folder)
    for wanted in (ByteRange(0, 5), ByteRange(7, 2048), ByteRange(2048, 2048)):
        with source.mapped(info_of(source), wanted) as shown:
            assert bytes(shown) == DATA[wanted.start : wanted.stop]
    with (
        pytest.raises(WrongBytes, match="the file has 2048 bytes"),
        source.mapped(info_of(source), ByteRange(0, 2049)),
    ):
        pass


def test_a_file_that_is_written_to_while_it_is_shown_is_noticed(folder):
    source = LocalSource(folder)
    info = info_of(source)
    with (
        pytest.raises(ChangedWhileReading, match="the file was changed"),
        source.mapped(info, ByteRange(0, 5)),
    ):
        (folder / "model.safetensors").write_bytes(DATA + b"more")
    with (
        pytest.raises(ChangedWhileReading, match="the file was changed"),
        source.mapped(info, ByteRange(0, 5)),
    ):
        pass


def test_a_file_that_is_replaced_while_it_is_shown_stays_what_it_was(folder):
    source = LocalSource(folder)
    (folder / "new").write_bytes(b"short")
    with source.mapped(info_of(source), ByteRange(0, 2048)) as shown:
        os.replace(folder / "new", folder / "model.safetensors")
        assert bytes(shown) == DATA
