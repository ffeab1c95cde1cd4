"""Where a registry lies: a folder, or a prefix of an object store. Files are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, final

from modelkin.errors import MissingExtra, SourceError, UsageError, not_written

_DRAFT = ".draft"


class RegistryPlace(ABC):
    """Named files, of which each is complete or not there."""

    name: str

    @abstractmethod
    def read(self, file: str) -> bytes:
        """Return a whole file.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        """

    @abstractmethod
    def write(self, file: str, data: bytes) -> None:
        """Write a file and make sure that it stays, before anybody can see it."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names of the complete files in a folder, sorted."""

    @abstractmethod
    def remove(self, file: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def path(self, file: str) -> Path | None:
        """Return where a file lies on this machine, so that it can be memory-mapped; None elsewhere."""

    @abstractmethod
    def writing(self, *, timeout: float) -> Any:  # noqa: ANN401  a context manager
        """Be the only writer for a while."""

    @abstractmethod
    def tidy(self) -> None:
        """Remove what a writer that was stopped has left half done. Only for the one writer."""


def open_place(where: str) -> RegistryPlace:
    """Return the place of a registry: a URL of an object store, or a folder."""
    if "://" in where and not where.startswith("file://"):
        return BucketPlace(where)
    return FolderPlace(Path(where.removeprefix("file://")).expanduser())


@final
class FolderPlace(RegistryPlace):
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def read(self, file: str) -> bytes:
        """Read the file."""
        return (self._folder / file).read_bytes()

    def write(self, file: str, data: bytes) -> None:
        """Write beside its place, flush to the disk, then rename."""
        path = self._folder / file
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
            draft.unlink(missing_ok=True)
            raise not_written(self.name, f"{file} ", error) from error

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
        """Hold the lock file; the system lets go of it when a process ends, however it ends."""
        from filelock import FileLock, Timeout

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with FileLock(str(self._folder / "writer.lock"), timeout=timeout):
                yield
        except Timeout as error:
            raise UsageError(
                self.name,
                "another process is writing to this registry",
                hint="Wait until it has finished; readers need not wait.",
            ) from error
        except PermissionError as error:
            raise not_written(self.name, "the registry ", error) from error

    def tidy(self) -> None:
        """Remove drafts."""
        for draft in self._folder.rglob(f"*{_DRAFT}"):
            draft.unlink(missing_ok=True)


@final
class BucketPlace(RegistryPlace):
    """A prefix of an object store, by fsspec. An object appears when it is complete.

    Object stores have no locks: that there is one writer is up to who runs it. Two at once are found out,
    as both would write the same number of the log, and the second is refused.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise MissingExtra(
                url, "object stores need fsspec", hint="Install it with: pip install 'modelkin[cloud]'"
            ) from error
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SourceError(url, f"cannot be opened: {error}") from error
        self.name = url.split("@")[-1] if "@" in url else url

    def read(self, file: str) -> bytes:
        """Get the object."""
        data: bytes = self._files.cat_file(f"{self._root}/{file}")
        return data

    def write(self, file: str, data: bytes) -> None:
        """Put the object."""
        try:
            if file.startswith("log/") and self._files.exists(f"{self._root}/{file}"):
                raise UsageError(self.name, f"another process has written {file}: two writers at once")
            self._files.pipe_file(f"{self._root}/{file}", data)
        except OSError as error:
            raise not_written(self.name, f"{file} ", error) from error

    def names(self, folder: str) -> list[str]:
        """List the objects below a prefix."""
        self._files.invalidate_cache()
        try:
            found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)

    def remove(self, file: str) -> None:
        """Delete the object."""
        if self._files.exists(f"{self._root}/{file}"):
            self._files.rm_file(f"{self._root}/{file}")

    def path(self, file: str) -> Path | None:
        """Nothing of it is on this machine."""
        return None

    def writing(self, *, timeout: float) -> Any:  # noqa: ANN401  a context manager
        """Trust the caller."""
        return nullcontext()

    def tidy(self) -> None:
        """Leave everything: there are no drafts."""


def _sync_folder(folder: Path) -> None:
    """Make sure that a renamed file is found after a power cut."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
