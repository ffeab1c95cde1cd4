"""A folder or a single file on this machine."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from modelkin.errors import AccessDenied, ChangedWhileReading, NotFound, SourceError, WrongBytes
from modelkin.message import said_by, say
from modelkin.untrusted import path_problem

from .interface import ByteBudget, FileInfo, Location, Source
from .ranges import ByteRange

MAX_FILES = 100_000
"""A folder of a model has some hundreds; with more than this, a whole disk was given by mistake."""
MAX_DEPTH = 4
"""Model repositories are flat or nearly so; a home folder given by mistake is not walked all the way down."""
DESCRIBING = (".json", ".model", ".txt")
"""Suffixes of files that describe the weights next to them: config, tokenizer, index."""

# If a pipe replaces a file between listing and opening, it must not block us.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@final
class LocalSource(Source):
    """Files below a folder, or one file with its neighbours.

    Links are followed: the snapshots in the Hub's cache are links. Of a single file's neighbours only those
    that describe it or belong to it are shown (config, tokenizer, the shards of an index, the other parts of
    a set), or none when it is opened `alone`. Pipes, devices and names that cannot be written into a report
    are left out.
    """

    remote = False

    def __init__(
        self,
        path: Path,
        *,
        ref: str | None = None,
        budget: ByteBudget | None = None,
        alone: bool = False,
    ) -> None:
        self._path = path
        self._alone = alone
        self._root = path.parent if alone and not path.is_dir() else model_folder(path)
        self._ref = ref or str(path)
        self._files: dict[str, FileInfo] | None = None
        self._odd_names: list[str] = []
        self.budget = budget or ByteBudget()

    def __repr__(self) -> str:
        return f"LocalSource({self._ref!r})"

    @property
    def location(self) -> Location:
        """The absolute path."""
        return Location(kind="local", ref=self._ref, origin=str(self._path))

    def files(self) -> dict[str, FileInfo]:
        """List the folder, once."""
        return dict(self._listed())

    @property
    def odd_names(self) -> tuple[str, ...]:
        """Names in the folder that are not safe to use."""
        self._listed()
        return tuple(sorted(self._odd_names))

    def find(self, name: str) -> FileInfo | None:
        """Return one file from the listing."""
        return self._listed().get(name)

    def _listed(self) -> dict[str, FileInfo]:
        if self._files is None:
            with _translated(self._ref):
                self._files = {name: info for name in sorted(self._names()) if (info := self._info(name))}
        return self._files

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        self.budget.reserve(wanted.length, where=file.name)
        # Opened for each read: an index may name more shards than a process may have open.
        with _opened_as_listed(self._root / file.name, file) as handle, _translated(file.name):
            return _read_at(handle, wanted)

    @contextmanager
    def mapped(self, file: FileInfo, wanted: ByteRange) -> Iterator[memoryview]:
        """Map the wanted bytes without copying them: copying is half the work of a pass over a model.

        If the file is replaced meanwhile, the mapping still shows the old one; a write to it is noticed when
        the caller is done. If it is truncated in these milliseconds, the process dies: that cannot be caught.
        """
        if wanted.stop > file.size:
            raise WrongBytes(file.name, say("problem.beyond-file", wanted=str(wanted), size=file.size))
        if not wanted.length:
            yield memoryview(b"")
            return
        self.budget.reserve(wanted.length, where=file.name)
        before = wanted.start % mmap.ALLOCATIONGRANULARITY
        with _opened_as_listed(self._root / file.name, file) as handle:
            with _translated(file.name):
                shown = mmap.mmap(
                    handle, before + wanted.length, access=mmap.ACCESS_READ, offset=wanted.start - before
                )
            # Unmapped once the last view of it is gone.
            yield memoryview(shown)[before:]

    def _names(self) -> list[str]:
        names: list[str] = []
        for name in self._neighbours() if not self._path.is_dir() else self._below():
            (names if path_problem(name) is None else self._odd_names).append(name)
            if len(names) + len(self._odd_names) > MAX_FILES:
                raise SourceError(
                    self._ref,
                    say("problem.many-files-folder", most=MAX_FILES),
                    hint=say("hint.one-folder"),
                )
        return names

    def _neighbours(self) -> Iterator[str]:
        if self._alone:
            yield self._path.name
            return
        belongs = _belonging(self._path.name)
        folder = self._path.parent
        if folder != self._root:
            with os.scandir(self._root) as entries:
                yield from (entry.name for entry in entries if entry.name.endswith(DESCRIBING))
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == self._path.name or belongs(entry.name):
                    yield (folder / entry.name).relative_to(self._root).as_posix()

    def _below(self) -> Iterator[str]:
        os.scandir(self._root).close()  # os.walk would show an unreadable folder as empty
        for folder, subfolders, files in os.walk(self._root, followlinks=False):
            relative = Path(folder).relative_to(self._root)
            if len(relative.parts) >= MAX_DEPTH:
                subfolders.clear()
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            yield from ((relative / name).as_posix() for name in files)

    def _info(self, name: str) -> FileInfo | None:
        try:
            found = os.stat(self._root / name)
        except FileNotFoundError:
            return None  # a dangling link, or gone since the folder was listed
        if not stat.S_ISREG(found.st_mode):
            return None  # a pipe or a device would block or never end
        return FileInfo(name=name, size=found.st_size, etag=_etag(found))


def model_folder(path: Path) -> Path:
    """Return the folder of the model that a path names.

    Exported files are in a folder of their own, ``onnx``, below that of the config and the tokenizer.
    """
    if path.is_dir():
        return path
    above = path.parent.parent
    exported = path.parent.name == "onnx" and not (path.parent / "config.json").exists()
    return above if exported and (above / "config.json").is_file() else path.parent


def _belonging(name: str) -> Callable[[str], bool]:
    """Return which neighbours belong to a file: those that describe it, and the other parts of its set."""
    endings: tuple[str, ...] = DESCRIBING
    if name.endswith(".index.json"):
        endings += (Path(name.removesuffix(".index.json")).suffix or ".safetensors",)
    if name.endswith(".onnx"):  # it may give its data files any name
        return lambda other: True
    first, middle, last = name.rpartition("-of-")
    series = first.rpartition("-")[0]
    if not middle or not series:
        return lambda other: other.endswith(endings)
    return lambda other: (
        other.endswith(endings) or (other.startswith(f"{series}-") and other.endswith(f"-of-{last}"))
    )


def open_local(path: Path, *, ref: str | None = None, budget: ByteBudget | None = None) -> LocalSource:
    """Open an existing path."""
    if not path.exists():
        raise NotFound(ref or str(path), say("problem.no-file-or-folder"))
    return LocalSource(path, ref=ref, budget=budget)


def _etag(found: os.stat_result) -> str:
    return f"{found.st_size:x}-{found.st_mtime_ns:x}"


def _check_unchanged(file: FileInfo, handle: int) -> None:
    now = os.fstat(handle)
    if not stat.S_ISREG(now.st_mode) or (now.st_size, _etag(now)) != (file.size, file.etag):
        raise ChangedWhileReading(file.name, say("problem.changed"), hint=say("hint.run-again"))


def _read_at(handle: int, wanted: ByteRange) -> bytes:
    pieces: list[bytes] = []
    position = wanted.start
    while position < wanted.stop:
        # One call may return less than requested: Linux stops at 2 GiB.
        piece = _pread(handle, wanted.stop - position, position)
        if not piece:
            break  # truncated meanwhile: the check that follows reports it
        pieces.append(piece)
        position += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


if hasattr(os, "pread"):
    _pread = os.pread
else:  # pragma: no cover  Windows

    def _pread(handle: int, length: int, position: int, /) -> bytes:
        # This read has the handle to itself, so moving its position disturbs nobody.
        os.lseek(handle, position, os.SEEK_SET)
        return os.read(handle, length)


@contextmanager
def _opened_as_listed(path: Path, file: FileInfo) -> Iterator[int]:
    """Open a file, and check before and after reading that it is as it was listed."""
    with _translated(file.name):
        handle = os.open(path, _FLAGS)
    try:
        with _translated(file.name):
            _check_unchanged(file, handle)
        yield handle
        with _translated(file.name):
            _check_unchanged(file, handle)
    finally:
        os.close(handle)


@contextmanager
def _translated(where: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ChangedWhileReading(where, say("problem.gone")) from error
    except PermissionError as error:
        raise AccessDenied(where, say("problem.may-not-read"), hint=say("hint.owner")) from error
    except OSError as error:
        raise SourceError(where, say("problem.reading-failed", why=said_by(error))) from error
