"""Object stores and whatever else fsspec can open: s3, gs, az … (extra ``modelkin[cloud]``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, final

from modelkin.errors import (
    AccessDenied,
    BadReference,
    ListingError,
    MissingExtra,
    NetworkError,
    NotFound,
    SourceError,
    UsageError,
    WrongBytes,
)
from modelkin.message import say
from modelkin.options import FetchOptions
from modelkin.untrusted import is_no_path, path_problem, quoted

from ._offline import is_offline, not_stored
from .http_client import reason
from .interface import ByteBudget, FileInfo, Location, Source
from .local import MAX_DEPTH, MAX_FILES
from .ranges import ByteRange
from .ref import without_secrets
from .retry import Retry, Transient

_T = TypeVar("_T")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "RefreshError")
_MOST_ATTEMPTS = 2
"""The stores' own clients already retry several times."""


@final
class FsspecSource(Source):
    """Files below a prefix, or one file, in a store that fsspec opens. Credentials are that store's.

    A prefix is listed once. For a single file nothing is listed (a bucket may hold millions): its neighbours
    are looked up by name. fsspec reads without a condition on the etag, so a file that is replaced by one of
    at least the same size between listing and reading goes unnoticed.
    """

    def __init__(
        self,
        url: str,
        options: FetchOptions,
        *,
        ref: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        self.budget = budget or ByteBudget(options.byte_budget)
        self._ref = ref or without_secrets(url)
        self._offline = is_offline(options)
        self._retry = Retry(attempts=min(options.retries + 1, _MOST_ATTEMPTS), max_wait=options.max_wait)
        self._requests = 0
        self._found: dict[str, FileInfo | None] = {}
        self._odd_names: tuple[str, ...] = ()
        self._listed = False
        self._lock = threading.RLock()
        try:
            import fsspec

            self._system, path = fsspec.core.url_to_fs(
                url, skip_instance_cache=True, use_listings_cache=False, **(storage_options or {})
            )
        except ImportError as error:
            raise MissingExtra(
                self._ref,
                say("problem.package-missing", why=str(error)),
                hint=say("hint.install-cloud"),
            ) from error
        except (TypeError, ValueError) as error:
            raise BadReference(self._ref, say("problem.fsspec-cannot", why=reason(error))) from None
        except Exception as error:
            # Some clients, such as the FTP one, connect at once and may raise anything.
            problem = _translated(error, self._ref)
            raise (problem.error if isinstance(problem, Transient) else problem) from None
        self._root = str(path).rstrip("/")
        self._single: str | None = None

    def __repr__(self) -> str:
        return f"FsspecSource({self._ref!r})"

    @property
    def location(self) -> Location:
        """The URL without credentials."""
        return Location(kind="fsspec", ref=self._ref, origin=self._ref)

    @property
    def n_requests(self) -> int:
        """Calls made to the store; each may be several requests."""
        return self._requests

    def files(self) -> dict[str, FileInfo]:
        """List the prefix, once; for a single file, return what has been found beside it so far."""
        with self._lock:
            if not self._listed:
                self._found = self._call(self._ref, self._list)
                self._listed = True
            return {name: info for name, info in sorted(self._found.items()) if info is not None}

    @property
    def odd_names(self) -> tuple[str, ...]:
        """Names below the prefix that are not safe to use."""
        self.files()
        return self._odd_names

    def find(self, name: str) -> FileInfo | None:
        """Return one file from the listing, or look it up beside a single file."""
        with self._lock:
            self.files()
            if self._single is not None and name not in self._found:
                self._found[name] = None if path_problem(name) else self._look_for(name)
            return self._found.get(name)

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        where = f"{self._ref}/{file.name}"
        path = f"{self._root}/{file.name}"

        def read() -> bytes:
            self.budget.reserve(wanted.length, where=where)
            data = b""
            try:
                data = bytes(self._system.cat_file(path, start=wanted.start, end=wanted.stop))
            finally:
                self.budget.refund(max(0, wanted.length - len(data)))
            if len(data) != wanted.length:
                problem = say("problem.store-sent", length=wanted.length, n=len(data))
                raise Transient(WrongBytes(where, problem))
            return data

        return self._call(where, read)

    def _list(self) -> dict[str, FileInfo | None]:
        if self._system.isfile(self._root):
            self._root, _, self._single = self._root.rpartition("/")
            return {self._single: self._info(self._single)}
        entries = self._system.find(self._root, maxdepth=MAX_DEPTH, withdirs=False, detail=True)
        if not entries:
            raise NotFound(self._ref, say("problem.nothing-there"))
        if len(entries) > MAX_FILES:
            raise ListingError(
                self._ref, say("problem.many-files", most=MAX_FILES), hint=say("hint.one-prefix")
            )
        files: dict[str, FileInfo | None] = {}
        odd: list[str] = []
        for path, entry in sorted(entries.items()):
            name = str(path).removeprefix(f"{self._root}/")
            inside = str(path).startswith(f"{self._root}/") and not is_no_path(name)
            if inside and path_problem(name):
                odd.append(name)
            else:
                files[name] = self._parsed(name, entry)
        self._odd_names = tuple(odd)
        return files

    def _look_for(self, name: str) -> FileInfo | None:
        try:
            return self._call(f"{self._ref}/{name}", lambda: self._info(name))
        except NotFound:
            return None

    def _info(self, name: str) -> FileInfo | None:
        entry = self._system.info(f"{self._root}/{name}")
        return self._parsed(name, entry) if entry.get("type") == "file" else None

    def _parsed(self, name: str, entry: Mapping[str, Any]) -> FileInfo:
        size = entry.get("size")
        if path_problem(name) or not isinstance(size, int) or size < 0:
            raise ListingError(self._ref, say("problem.store-lists", name=quoted(name), size=str(size)[:20]))
        return FileInfo(name=name, size=size, etag=_etag(entry))

    def _call(self, where: str, action: Callable[[], _T]) -> _T:
        if self._offline:
            raise not_stored(where)

        def attempt(_: int) -> _T:
            with self._lock:
                self._requests += 1
            try:
                return action()
            except (Transient, SourceError, ListingError, UsageError):
                raise
            except Exception as error:
                # Anything a store's own client may raise: there are dozens, without a common base class.
                problem = _translated(error, where)
            # Raised outside the handler: an exception keeps the one being handled, with its URLs and keys.
            raise problem

        return self._retry.run(attempt, host=self._ref)


def _translated(error: Exception, where: str) -> SourceError | Transient:
    if isinstance(error, FileNotFoundError):
        return NotFound(where, say("problem.nothing-there"))
    if isinstance(error, PermissionError):
        return AccessDenied(where, say("problem.store-refused", why=reason(error)))
    if type(error).__name__ in _NO_CREDENTIALS:
        return AccessDenied(
            where,
            say("problem.store-credentials", kind=type(error).__name__),
            hint=say("hint.log-in-tools"),
        )
    return Transient(NetworkError(where, say("problem.store-failed", why=reason(error))))


def _etag(entry: Mapping[str, Any]) -> str | None:
    for key in ("ETag", "etag", "md5Hash", "md5", "sha256"):
        if entry.get(key):
            return f"{entry[key]}".strip('"')[:200]
    return None  # the same time may belong to other bytes tomorrow
