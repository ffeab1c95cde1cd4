"""Where a registry is stored: a folder, or a prefix of an object store. Files are written whole or not."""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, final

from modelkin.errors import MissingExtra, ModelkinError, SourceError, UsageError, not_written
from modelkin.message import say

_DRAFT = ".draft"
_OUR_DRAFT = re.compile(rf".+\.[0-9a-f]{{8}}{re.escape(_DRAFT)}")
_FOLDERS = (".", "log", "segments", "codes")
"""Where drafts are written. A registry may share a folder with other files."""


class RegistryPlace(ABC):
    """Named files, each complete or absent."""

    name: str
    locks: bool
    """Whether `writing` keeps other writers out."""

    @abstractmethod
    def read(self, file: str) -> bytes:
        """Return a whole file; `FileNotFoundError` if there is none."""

    def read_all(self, files: Sequence[str]) -> list[bytes]:
        """Return some whole files."""
        return [self.read(file) for file in files]

    @abstractmethod
    def open(self, file: str) -> IO[bytes]:
        """Open a file to read parts of it; `FileNotFoundError` if there is none."""

    @abstractmethod
    def write(self, file: str, data: bytes, *, new: bool = False) -> None:
        """Write a file durably before anybody can see it; refuse to overwrite one if it must be `new`."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names of the complete files in a folder, sorted."""

    @abstractmethod
    def remove(self, file: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def path(self, file: str) -> Path | None:
        """Return a file's local path, so that it can be memory-mapped; None if it is remote."""

    @abstractmethod
    def writing(self, *, timeout: float) -> Any:  # noqa: ANN401  a context manager
        """Be the only writer for a while."""

    @abstractmethod
    def tidy(self) -> None:
        """Remove what a stopped writer left half done. Only for the single writer."""


def open_place(where: str) -> RegistryPlace:
    """Return the place of a registry: a URL of an object store, or a folder."""
    if "://" in where and not where.startswith("file://"):
        return BucketPlace(where)
    return FolderPlace(Path(where.removeprefix("file://")).expanduser())


@final
class FolderPlace(RegistryPlace):
    """A local folder."""

    locks = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def read(self, file: str) -> bytes:
        """Read the file."""
        return (self._folder / file).read_bytes()

    def open(self, file: str) -> IO[bytes]:
        """Open the file."""
        return (self._folder / file).open("rb")

    def write(self, file: str, data: bytes, *, new: bool = False) -> None:
        """Write to a draft, flush to disk, then rename."""
        path = self._folder / file
        if new and path.exists():
            raise _two_writers(self.name, file)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_DRAFT}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            draft.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise not_written(self.name, file, error) from error

    def names(self, folder: str) -> list[str]:
        """List the folder."""
        place = self._folder / folder
        if not place.is_dir():
            return []
        return sorted(item.name for item in place.iterdir() if not item.name.endswith(_DRAFT))

    def remove(self, file: str) -> None:
        """Unlink the file."""
        (self._folder / file).unlink(missing_ok=True)

    def path(self, file: str) -> Path | None:
        """Join the folder and the name."""
        return self._folder / file

    @contextmanager
    def writing(self, *, timeout: float) -> Iterator[None]:
        """Hold the lock file; the system releases it when a process ends, however it ends."""
        from filelock import FileLock, Timeout

        lock = FileLock(str(self._folder / "writer.lock"), timeout=timeout)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout as error:
            raise UsageError(
                self.name,
                say("problem.registry-busy"),
                hint=say("hint.wait"),
            ) from error
        except OSError as error:
            raise not_written(self.name, say("part.the-registry"), error) from error
        try:
            yield
        finally:
            lock.release()

    def tidy(self) -> None:
        """Remove drafts, and nothing that only looks like one."""
        for folder in _FOLDERS:
            place = self._folder / folder
            for draft in place.iterdir() if place.is_dir() else ():
                if _OUR_DRAFT.fullmatch(draft.name):
                    draft.unlink(missing_ok=True)


@final
class BucketPlace(RegistryPlace):
    """A prefix of an object store, by fsspec. An object appears when it is complete.

    Object stores have no locks. Two concurrent writers would both write the same log number: the store is
    asked to create an object only if there is none, and the second writer is refused.
    """

    locks = False

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise MissingExtra(
                url,
                say("problem.needs-fsspec"),
                hint=say("hint.install", command="pip install 'modelkin[cloud]'"),
            ) from error
        self.name = url.split("@")[-1] if "@" in url else url
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SourceError(self.name, say("problem.cannot-open", why=str(error))) from error

    def read(self, file: str) -> bytes:
        """Get the object."""
        with self._translated():
            data: bytes = self._files.cat_file(f"{self._root}/{file}")
        return data

    def read_all(self, files: Sequence[str]) -> list[bytes]:
        """Get the objects, many at a time."""
        paths = [f"{self._root}/{file}" for file in files]
        with self._translated():
            found = (
                self._files.cat(paths)
                if len(paths) > 1
                else {path: self._files.cat_file(path) for path in paths}
            )
        by_name = {str(path).lstrip("/"): data for path, data in found.items()}
        return [by_name[path.lstrip("/")] for path in paths]

    def open(self, file: str) -> IO[bytes]:
        """Open the object; a read requests just those bytes."""
        with self._translated():
            opened: IO[bytes] = self._files.open(f"{self._root}/{file}", "rb", cache_type="none")
        return opened

    def write(self, file: str, data: bytes, *, new: bool = False) -> None:
        """Put the object."""
        path = f"{self._root}/{file}"
        try:
            with self._translated():
                if new and self._files.exists(path):
                    raise _two_writers(self.name, file)
                self._files.pipe_file(path, data, **({"mode": "create"} if new else {}))
        except FileExistsError as error:
            raise _two_writers(self.name, file) from error

    def names(self, folder: str) -> list[str]:
        """List the objects below a prefix."""
        self._files.invalidate_cache()
        try:
            with self._translated():
                found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)

    def remove(self, file: str) -> None:
        """Delete the object."""
        with self._translated():
            if self._files.exists(f"{self._root}/{file}"):
                self._files.rm_file(f"{self._root}/{file}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Report an object store's error in one line. Every kind of store has its own exceptions."""
        try:
            yield
        except (FileNotFoundError, FileExistsError, ModelkinError):
            raise
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            raise SourceError(self.name, say("problem.object-store", why=said)) from error

    def path(self, file: str) -> Path | None:
        """Nothing is local."""
        return None

    def writing(self, *, timeout: float) -> Any:  # noqa: ANN401  a context manager
        """Trust the caller."""
        return nullcontext()

    def tidy(self) -> None:
        """Leave everything: there are no drafts."""


def _two_writers(place: str, file: str) -> UsageError:
    return UsageError(place, say("problem.two-writers", file=file))


def _sync_folder(folder: Path) -> None:
    """Make sure that a renamed file survives a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
