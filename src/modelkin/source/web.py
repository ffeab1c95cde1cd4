"""Any http or https server that supports byte ranges."""

from __future__ import annotations

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from modelkin._version import __version__
from modelkin.errors import BadReference, NotFound, WrongBytes
from modelkin.message import say
from modelkin.options import MIB, FetchOptions
from modelkin.untrusted import path_problem, quoted

from ._offline import is_offline, not_stored
from .address import Home
from .http_client import RangeClient, Reply
from .interface import ByteBudget, FileInfo, Location, Source
from .ranges import ByteRange
from .ref import without_secrets
from .remote import RemoteFile, strong_etag
from .store import RangeStore, StoreKey

MOST_HEADS = 32 * MIB
"""First bytes kept until somebody takes them; older ones are read again when wanted."""


@final
class HttpSource(Source):
    """The file a URL names, and its neighbours, which are looked up by name.

    A web server has no listing: a file is known once it has been found. The read that finds it returns its
    first bytes, which `take_heads` hands over for the header that is wanted next.
    """

    def __init__(
        self,
        url: str,
        options: FetchOptions,
        *,
        ref: str | None = None,
        store: RangeStore | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        from urllib3.util import make_headers

        self.budget = budget or ByteBudget(options.byte_budget)
        parts = urlsplit(url)
        self._folder, _, name = parts.path.rpartition("/")
        self._name = unquote(name)
        if problem := path_problem(self._name):
            raise BadReference(
                without_secrets(url), say("problem.file-name", name=quoted(self._name), problem=problem)
            )
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="")
        self._headers = {"User-Agent": f"modelkin/{__version__}"}
        secrets = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            secrets["Authorization"] = make_headers(basic_auth=login)["authorization"]
        self._ref = ref or without_secrets(url)
        self._head_bytes = options.head_bytes
        self._offline = is_offline(options)
        self._store = store
        self._client = RangeClient(options, self.budget, home=Home(urlunsplit(self._parts), secrets))
        self._found: dict[str, FileInfo | None] = {}
        self._heads: list[tuple[FileInfo, bytes]] = []
        self._remote: dict[str, RemoteFile] = {}
        self._lock = threading.Lock()
        self._looking: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def __repr__(self) -> str:
        return f"HttpSource({self._ref!r})"

    @property
    def location(self) -> Location:
        """The folder of the file, without credentials and query."""
        origin = urlunsplit((self._parts.scheme, self._parts.netloc, self._folder, "", ""))
        return Location(kind="http", ref=self._ref, origin=origin)

    @property
    def n_requests(self) -> int:
        """Requests sent."""
        return self._client.traffic.requests

    def files(self) -> dict[str, FileInfo]:
        """Return the file that the URL names, and every other one found by name so far."""
        if self.find(self._name) is None:
            raise NotFound(self._ref, say("problem.no-file-404"))
        with self._lock:
            return {name: info for name, info in sorted(self._found.items()) if info is not None}

    def find(self, name: str) -> FileInfo | None:
        """Look for a file beside the named one, once."""
        with self._lock:
            looking = self._looking[name]
        with looking:  # only threads that look for the same file wait
            if name not in self._found:
                info = self._look_for(name)
                with self._lock:
                    self._found[name] = info
            return self._found[name]

    def take_heads(self) -> Iterable[tuple[FileInfo, bytes]]:
        """Hand over the first bytes of the files that were found."""
        with self._lock:
            heads, self._heads = self._heads, []
        return heads

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        if self._offline:
            raise not_stored(f"{self._ref}/{file.name}")
        return self._remote_file(file.name).read(wanted).body

    # -- finding ---------------------------------------------------------------------------------------

    def _look_for(self, name: str) -> FileInfo | None:
        if path_problem(name):
            return None
        seen, known = self._seen_before(name)
        if self._offline:
            if not seen:
                raise not_stored(f"{self._ref}/{name}")
            return known
        remote = self._remote_file(name)
        unchanged = {"If-None-Match": f'"{known.etag}"'} if known is not None else {}
        try:
            reply = remote.read(ByteRange(0, self._head_bytes), may_end_early=True, extra_headers=unchanged)
        except NotFound:
            self._remember(name, None)
            return None
        if reply.status == 304:
            return known
        return self._found_now(name, reply, remote.shown)

    def _found_now(self, name: str, reply: Reply, where: str) -> FileInfo:
        if reply.total is None:
            raise WrongBytes(where, say("problem.no-length"))
        # The same weak etag or time may belong to other bytes tomorrow: nothing is stored under them.
        info = FileInfo(name=name, size=reply.total, etag=strong_etag(reply.headers.get("ETag")))
        with self._lock:
            self._heads.append((info, reply.body))
            # An index may name thousands of files, all looked up before the first is read.
            del self._heads[: -max(1, MOST_HEADS // self._head_bytes)]
        self._remember(name, info)
        return info

    def _remember(self, name: str, info: FileInfo | None) -> None:
        if self._store is not None:
            value: dict[str, object] = {"missing": True}
            if info is not None:
                value = {"size": info.size, "etag": info.etag}
            self._store.write_record(*self._record(name), value=value)

    def _seen_before(self, name: str) -> tuple[bool, FileInfo | None]:
        """Return whether an earlier run asked this address, and the file if there was one."""
        record = self._store.read_record(*self._record(name)) if self._store else None
        if record is None:
            return False, None
        size, etag = record.get("size"), record.get("etag")
        if isinstance(size, int) and size >= 0 and isinstance(etag, str):
            return True, FileInfo(name=name, size=size, etag=etag)
        return record.get("missing") is True, None

    def stored_as(self, file: FileInfo) -> StoreKey:
        """Return the key of a file, with its query: ``?id=1`` and ``?id=2`` are two files."""
        return replace(super().stored_as(file), query=self._query(file.name))

    def _record(self, name: str) -> tuple[str | None, ...]:
        return "web", self.location.origin, name, self._query(name)

    def _query(self, name: str) -> str | None:
        query = self._parts.query if name == self._name else ""
        return hashlib.sha256(query.encode()).hexdigest() if query else None

    def _remote_file(self, name: str) -> RemoteFile:
        with self._lock:
            if name not in self._remote:
                if name == self._name:
                    url = urlunsplit(self._parts)
                else:
                    path = f"{self._folder}/{quote(name)}"
                    url = urlunsplit((self._parts.scheme, self._parts.netloc, path, "", ""))
                self._remote[name] = RemoteFile(url, self._client, headers=self._headers)
            return self._remote[name]
