"""What a source of bytes is. It knows files, sizes and ranges; it knows nothing about tensors."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, final

from modelkin.errors import BudgetExceeded, NotFound, WrongBytes
from modelkin.message import say

from .ranges import ByteRange
from .store import StoreKey


class ByteBudget:
    """Counts bytes as they are asked for and refuses what would go over the limit. Thread-safe."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._spent = 0
        self._lock = threading.Lock()

    @property
    def spent(self) -> int:
        """Bytes asked for so far."""
        return self._spent

    def check(self, amount: int, *, where: str) -> None:
        """Raise `BudgetExceeded` if `amount` more bytes would not fit; spend nothing."""
        with self._lock:
            self._refuse_over(amount, where)

    def reserve(self, amount: int, *, where: str) -> None:
        """Spend `amount` bytes, or raise `BudgetExceeded` and spend nothing."""
        with self._lock:
            self._refuse_over(amount, where)
            self._spent += amount

    def refund(self, amount: int) -> None:
        """Give back what was reserved for bytes that never arrived."""
        with self._lock:
            self._spent -= amount

    def _refuse_over(self, amount: int, where: str) -> None:
        if self.limit is not None and self._spent + amount > self.limit:
            raise BudgetExceeded(
                where,
                say("problem.budget", amount=amount, spent=self._spent, limit=self.limit),
                hint=say("hint.budget"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One entry of a repository's history, as the source states it. Dates and authors are claims."""

    id: str
    date: str | None
    title: str
    authors: tuple[str, ...] = ()


SourceKind = Literal["hub", "local", "http", "fsspec", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One file of a model, as its source describes it before any of its bytes are read."""

    name: str
    """Path inside the model, with forward slashes."""
    size: int
    etag: str | None = None
    """Whatever the source uses to tell two versions of a file apart; None where it has nothing."""
    sha256: str | None = None
    """Digest of the whole file, if the source publishes one. Not computed here."""
    git_sha1: str | None = None
    """Git's hash of the whole file, if the source publishes that instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a model was found: enough to name it in a report and to find it again."""

    kind: SourceKind
    ref: str
    """The reference as the user wrote it. Never holds a token."""
    origin: str
    """Canonical address without credentials: ``https://host/org/name``, an absolute path, a URL."""
    revision: str | None = None
    """The commit it resolved to, if the source has commits."""


class Source(ABC):
    """A set of named files that can be read by byte range.

    Implementations are thread-safe: `read_range` is called from several threads at once.
    """

    remote: bool = True
    """Whether reading uses the network: only then are ranges stored and round trips worth saving."""

    budget: ByteBudget
    """Charged by the source before it reads."""

    @property
    @abstractmethod
    def location(self) -> Location:
        """Where this model is, with its revision pinned."""

    @abstractmethod
    def files(self) -> dict[str, FileInfo]:
        """Return every file known without reading one, by name, in sorted order."""

    @property
    def odd_names(self) -> tuple[str, ...]:
        """Names of files that exist but are not safe to use; those files are ignored."""
        return ()

    def find(self, name: str) -> FileInfo | None:
        """Return one file, or None if there is none of that name."""
        return self.files().get(name)

    @final
    def need(self, name: str) -> FileInfo:
        """Return one file, or raise `NotFound` if there is none of that name."""
        info = self.find(name)
        if info is None:
            raise NotFound(f"{self.location.ref}/{name}", say("problem.no-file-in-model"))
        return info

    @final
    def read_range(self, file: FileInfo, wanted: ByteRange) -> bytes:
        """Return exactly the wanted bytes of a file, or raise a `SourceError`.

        A range outside the file is refused here, before anything is requested.
        """
        if wanted.stop > file.size:
            raise WrongBytes(file.name, say("problem.beyond-file", wanted=str(wanted), size=file.size))
        if not wanted.length:
            return b""
        data = self._read(file, wanted)
        if len(data) != wanted.length:
            raise WrongBytes(file.name, say("problem.bytes-got", length=wanted.length, n=len(data)))
        return data

    @abstractmethod
    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        """Charge the budget and read a range that lies in the file and is not empty."""

    @contextmanager
    def mapped(self, file: FileInfo, wanted: ByteRange) -> Iterator[memoryview]:
        """Expose the wanted bytes while the context is open, without a copy where possible."""
        yield memoryview(self.read_range(file, wanted))

    def history(self, limit: int) -> tuple[Commit, ...] | None:
        """Return the newest commits, at most `limit`, newest first; None where the source has no history."""
        return None

    def take_heads(self) -> Iterable[tuple[FileInfo, bytes]]:
        """Hand over, once, the first bytes that had to be read to find files."""
        return ()

    @property
    def n_requests(self) -> int:
        """Requests sent so far; 0 for sources that send none."""
        return 0

    def stored_as(self, file: FileInfo) -> StoreKey:
        """Return the key under which ranges of a file are stored: where it really is, and its name there."""
        place = self.location
        return StoreKey(origin=place.origin, revision=place.revision, file=file.name, etag=file.etag)

    def is_on_disk(self, file: FileInfo) -> bool:
        """Say whether a file of a remote model is read from the local disk anyway."""
        return not self.remote

    def close(self) -> None:
        """Release connections and handles. Safe to call twice."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
