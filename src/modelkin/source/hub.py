"""The Hugging Face Hub, by `huggingface_hub`'s own rules for endpoint, token, cache and offline mode.

One request lists a repository at a revision and pins its commit; each file then costs one request to the
Hub, which answers with a signed address at its storage, and all ranges are read from there.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final
from urllib.parse import quote

from modelkin._version import __version__
from modelkin.errors import (
    AccessDenied,
    ChangedWhileReading,
    ListingError,
    NetworkError,
    NotFound,
    SourceError,
    WrongBytes,
)
from modelkin.message import say
from modelkin.options import MIB, FetchOptions
from modelkin.untrusted import JsonRefused, is_no_path, path_problem, quoted, strict_json

from ._offline import is_offline, not_stored
from .address import Home, WebOrigin, redirected
from .http_client import RangeClient, Reply, busy_hint, is_redirect
from .interface import ByteBudget, Commit, FileInfo, Location, Source
from .local import LocalSource
from .ranges import ByteRange
from .ref import without_secrets
from .remote import RemoteFile, plain_etag
from .store import RangeStore

MAX_FILES = 200_000
"""No repository of a model has nearly as many files; a listing with more is refused as an attack."""
_MAX_VALUES = 30 * MAX_FILES
"""A file in a listing has about a dozen values; 30 leaves room for new fields."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Listing:
    """A commit and its files."""

    commit: str
    files: dict[str, FileInfo]
    odd_names: tuple[str, ...] = ()
    """Names that are not safe to use; those files are ignored."""

    def to_record(self) -> dict[str, object]:
        """Return the listing in the Hub's own format; `parse_listing` reads it back equal."""
        siblings = [_sibling(file) for file in self.files.values()]
        return {
            "sha": self.commit,
            "siblings": [*siblings, *({"rfilename": name, "size": 0} for name in self.odd_names)],
        }


def is_commit(revision: str) -> bool:
    """Say whether a revision is a full commit, which names the same files forever."""
    return _COMMIT.fullmatch(revision) is not None


def load_listing(body: bytes, *, revision: str, where: str) -> Listing:
    """Parse the bytes of a listing."""
    # Counted before parsing: a value takes up to 30 times as much memory as its text.
    if body.count(b"{") + body.count(b"[") > 2 * MAX_FILES + 1000 or body.count(b",") > _MAX_VALUES:
        raise ListingError(where, say("problem.hub-many-files", most=MAX_FILES))
    try:
        document = strict_json(body, max_values=_MAX_VALUES)
    except JsonRefused as error:
        raise ListingError(where, say("problem.listing-unread", why=error.reason)) from error
    return parse_listing(document, revision=revision, where=where)


def parse_listing(document: object, *, revision: str, where: str) -> Listing:
    """Check a listing and keep what is needed of it.

    Raises `ListingError` if it is not a listing, not of the commit that was asked for, or contains an unsafe
    file name.
    """
    if not isinstance(document, dict):
        raise ListingError(where, say("problem.hub-no-object"))
    commit, siblings = document.get("sha"), document.get("siblings")
    if not isinstance(commit, str) or not is_commit(commit):
        raise ListingError(where, say("problem.hub-no-commit", got=quoted(str(commit))))
    if is_commit(revision) and commit != revision:
        raise ListingError(where, say("problem.hub-other-commit", revision=revision, commit=str(commit)))
    if not isinstance(siblings, list):
        raise ListingError(where, say("problem.hub-no-files"))
    files = sorted((_listed_file(entry, where) for entry in siblings), key=lambda file: file.name)
    by_name = {file.name: file for file in files}
    if len(by_name) != len(files):
        raise ListingError(where, say("problem.hub-file-twice"))
    odd = {name for name in by_name if path_problem(name)}
    named = {name: file for name, file in by_name.items() if name not in odd}
    return Listing(commit, named, tuple(sorted(odd)))


def _listed_file(entry: object, where: str) -> FileInfo:
    name = entry.get("rfilename") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str):
        raise ListingError(where, say("problem.hub-no-name"))
    if is_no_path(name):
        raise ListingError(where, say("problem.file-name", name=quoted(name), problem=path_problem(name)))
    lfs = entry.get("lfs")
    lfs = lfs if isinstance(lfs, dict) else {}
    size = lfs.get("size", entry.get("size"))
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**60:
        raise ListingError(where, say("problem.no-size", name=quoted(name), got=quoted(str(size)[:80])))
    sha256, blob = _matching(_SHA256, lfs.get("sha256")), _matching(_COMMIT, entry.get("blobId"))
    # For a file in LFS, the blob is only a pointer to it.
    return FileInfo(name=name, size=size, etag=sha256 or blob, sha256=sha256, git_sha1=None if lfs else blob)


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _sibling(file: FileInfo) -> Mapping[str, object]:
    shared: dict[str, object] = {"rfilename": file.name, "size": file.size}
    if file.sha256 is not None:
        return {**shared, "lfs": {"sha256": file.sha256, "size": file.size}}
    return {**shared, "blobId": file.etag}


def parse_history(body: bytes, *, where: str) -> tuple[Commit, ...]:
    """Parse the bytes of a list of commits, or refuse them."""
    try:
        document = strict_json(body)
    except JsonRefused as error:
        raise ListingError(where, say("problem.commits-unread", why=error.reason)) from error
    if not isinstance(document, list):
        raise ListingError(where, say("problem.commits-no-list"))
    found = []
    for entry in document:
        commit = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or _matching(_COMMIT, commit) is None:
            raise ListingError(where, say("problem.commits-no-commit"))
        date, title, authors = (entry.get(key) for key in ("date", "title", "authors"))
        people = (
            [person.get("user") for person in authors if isinstance(person, dict)]
            if isinstance(authors, list)
            else []
        )
        found.append(
            Commit(
                id=str(commit),
                date=date[:40] if isinstance(date, str) else None,
                title=title[:_LONGEST_TITLE] if isinstance(title, str) else "",
                authors=tuple(name[:80] for name in people[:10] if isinstance(name, str)),
            )
        )
    return tuple(found)


MAX_HISTORY = 4 * MIB
"""Room for thousands of commits; far fewer are requested."""
_LONGEST_TITLE = 300
"""Characters kept of a commit's title: what a reader sees of it, whatever its author wrote."""
MAX_LISTING = 64 * MIB
"""A listing holds about 300 bytes per file; repositories have at most some tens of thousands of files."""
_HINT_ACCESS = say("hint.ask-access")
_HINT_LOGIN = say("hint.login")


@final
class HubSource(Source):
    """One repository at one commit."""

    def __init__(
        self,
        repo_id: str,
        revision: str | None,
        options: FetchOptions,
        *,
        ref: str | None = None,
        store: RangeStore | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        from huggingface_hub import constants

        self.budget = budget or ByteBudget(options.byte_budget)
        self._repo_id = repo_id
        self._revision = revision or "main"
        self._ref = ref or repo_id
        self._address = without_secrets((options.endpoint or constants.ENDPOINT).rstrip("/"))
        self._offline = is_offline(options)
        self._store = store
        self._home = Home(self._address, hub_secrets(options.token, self._ref))
        self._client = RangeClient(options, self.budget, home=self._home)
        self._headers = hub_headers()
        self._listing: Listing | None = None
        self._remote: dict[str, RemoteFile] = {}
        self._downloaded: dict[str, LocalSource | None] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"HubSource({self._ref!r})"

    @property
    def location(self) -> Location:
        """The repository with its commit."""
        return Location(
            kind="hub",
            ref=self._ref,
            origin=f"{self._address}/{self._repo_id}",
            revision=self._listed().commit,
        )

    @property
    def n_requests(self) -> int:
        """Requests sent, to the Hub and to its storage."""
        return self._client.traffic.requests

    def files(self) -> dict[str, FileInfo]:
        """Return the repository's listing."""
        return dict(self._listed().files)

    @property
    def odd_names(self) -> tuple[str, ...]:
        """Names in the listing that are not safe to use."""
        return self._listed().odd_names

    def find(self, name: str) -> FileInfo | None:
        """Return one file of the listing."""
        return self._listed().files.get(name)

    def history(self, limit: int) -> tuple[Commit, ...] | None:
        """Return the newest commits up to the resolved one; none if nothing may be requested."""
        if self._offline:
            return None
        place = f"{self._repo_id}/commits/{self._listed().commit}"
        url = f"{self._address}/api/models/{place}?limit={limit}"
        reply = self._client.get_document(url, headers=self._headers, limit=MAX_HISTORY)
        if reply.status != 200:
            raise self._refusal(reply, self._ref)
        return parse_history(reply.body, where=self._ref)[:limit]

    def is_on_disk(self, file: FileInfo) -> bool:
        """Say whether the Hub's own cache on this machine holds the whole file."""
        return self._in_hub_cache(file) is not None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    # -- listing ---------------------------------------------------------------------------------------

    def _listed(self) -> Listing:
        if self._listing is None:
            with self._lock:
                if self._listing is None:
                    self._listing = self._list_offline() if self._offline else self._list_online()
        return self._listing

    def _list_online(self) -> Listing:
        if is_commit(self._revision) and (stored := self._stored_listing(self._revision)):
            return stored  # a commit never changes: nothing to ask
        reply = self._ask_for_listing()
        if reply.status != 200:
            raise self._refusal(reply, self._ref)
        listing = load_listing(reply.body, revision=self._revision, where=self._ref)
        if self._store is not None:
            self._store.write_record(
                "listing", self._address, self._repo_id, listing.commit, value=listing.to_record()
            )
            self._store.write_record(
                "revision", self._address, self._repo_id, self._revision, value={"commit": listing.commit}
            )
        return listing

    def _ask_for_listing(self) -> Reply:
        revision = quote(self._revision, safe="")
        url = f"{self._address}/api/models/{self._repo_id}/revision/{revision}?blobs=true"
        for _ in range(3):
            try:
                reply = self._client.get_document(url, headers=self._headers, limit=MAX_LISTING)
            except WrongBytes as error:
                raise ListingError(self._ref, say("problem.hub-listing", problem=error.said)) from error
            moved = self._moved(reply)
            if moved is None:
                break
            url = moved
        return reply

    def _moved(self, reply: Reply) -> str | None:
        """Return the new address of a renamed repository: followed only inside the Hub itself."""
        location = reply.headers.get("Location", "")
        if not is_redirect(reply.status) or not location:
            return None
        if location.startswith("/") and not location.startswith("//"):
            location = self._address + location  # the endpoint may itself have a path
        try:
            url = redirected(self._address, location)
        except ValueError:
            return None
        same = WebOrigin.of(url) == self._home.origin and url.startswith(f"{self._address}/")
        return url if same else None

    def _list_offline(self) -> Listing:
        """List what an earlier run saw, or else what `huggingface_hub` itself downloaded."""
        commit: object = self._revision
        if not is_commit(self._revision) and self._store is not None:
            found = self._store.read_record("revision", self._address, self._repo_id, self._revision)
            commit = found.get("commit") if found else None
        if isinstance(commit, str) and (stored := self._stored_listing(commit)):
            return stored
        folder = self._downloaded_snapshot()
        return self._stored_listing(folder.name) or Listing(folder.name, LocalSource(folder).files())

    def _stored_listing(self, commit: str) -> Listing | None:
        if self._store is None:
            return None
        record = self._store.read_record("listing", self._address, self._repo_id, commit)
        try:
            return None if record is None else parse_listing(record, revision=commit, where=self._ref)
        except ListingError:
            return None  # damaged

    def _downloaded_snapshot(self) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            return Path(snapshot_download(self._repo_id, revision=self._revision, local_files_only=True))
        except LocalEntryNotFoundError as error:
            raise not_stored(self._ref, say("problem.offline-model")) from error

    # -- reading ---------------------------------------------------------------------------------------

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        """Return the wanted bytes, from the Hub's local cache if it has the file."""
        downloaded = self._in_hub_cache(file)
        if downloaded is not None:
            return downloaded.read_range(next(iter(downloaded.files().values())), wanted)
        if self._offline:
            raise not_stored(f"{self._ref}/{file.name}")
        return self._remote_file(file).read(wanted).body

    def _in_hub_cache(self, file: FileInfo) -> LocalSource | None:
        """Return the file from `huggingface_hub`'s cache, if it is there and has the right size."""
        from huggingface_hub import try_to_load_from_cache

        with self._lock:
            if file.name not in self._downloaded:
                path = try_to_load_from_cache(self._repo_id, file.name, revision=self._listed().commit)
                self._downloaded[file.name] = None
                if isinstance(path, str):
                    source = LocalSource(Path(path), budget=self.budget, alone=True)
                    if [found.size for found in source.files().values()] == [file.size]:
                        self._downloaded[file.name] = source
            return self._downloaded[file.name]

    def _remote_file(self, file: FileInfo) -> RemoteFile:
        with self._lock:
            if file.name not in self._remote:
                # Not `hf_hub_url`: it ignores the endpoint it is given when its own has been changed, and
                # the token would go to another host.
                place = f"{self._repo_id}/resolve/{self._listed().commit}/{quote(file.name)}"
                url = f"{self._address}/{place}"
                self._remote[file.name] = RemoteFile(
                    url,
                    self._client,
                    headers=self._headers,
                    size=file.size,
                    refusal=self._refusal,
                    check_redirect=lambda reply: _check_same(file, reply),
                )
            return self._remote[file.name]

    def _refusal(self, reply: Reply, where: str) -> SourceError:
        """Explain the Hub's refusal; ``X-Error-Code`` says what it means."""
        code = reply.headers.get("X-Error-Code", "")
        status = reply.status
        login = _HINT_ACCESS if self._home.has_secrets else _HINT_LOGIN
        if code == "GatedRepo":
            return AccessDenied(where, say("problem.gated"), hint=login)
        if code == "RevisionNotFound":
            hint = say("hint.revisions")
            return NotFound(where, say("problem.no-revision", revision=repr(self._revision)), hint=hint)
        if code == "EntryNotFound":
            return NotFound(where, say("problem.no-file-at-commit"))
        if code == "RepoNotFound" or (status == 404 and not code):
            return NotFound(where, say("problem.no-model"), hint=say("hint.check-spelling", login=login))
        if status in (401, 403):
            known = self._home.has_secrets
            problem = say("problem.token-refused" if known else "problem.token-needed", status=status)
            return AccessDenied(where, problem, hint=login)
        problem = say("problem.hub-answered", status=status)
        if code:
            problem = say("problem.hub-answered-code", status=status, why=quoted(code, 40))
        return NetworkError(where, problem, hint=busy_hint(status))


def hub_headers() -> dict[str, str]:
    """Return the headers that say who we are.

    Not `huggingface_hub.utils.build_hf_headers`: to describe the caller it asks the Hub for a list of known
    agents, which is an unwanted request.
    """
    import huggingface_hub

    return {"user-agent": f"modelkin/{__version__}; hf_hub/{huggingface_hub.__version__}"}


def hub_secrets(token: str | bool | None, where: str) -> dict[str, str]:
    """Return the token as it is sent, from wherever `huggingface_hub` finds it."""
    secret = _token(token, where)
    if secret is None:
        return {}
    if not secret.isascii() or not secret.isprintable():
        raise AccessDenied(where, say("problem.odd-token"), hint=_HINT_LOGIN)
    return {"authorization": f"Bearer {secret}"}


def _token(token: str | bool | None, where: str) -> str | None:
    from huggingface_hub import constants, get_token

    if isinstance(token, str):
        return token
    if token is False or (token is None and constants.HF_HUB_DISABLE_IMPLICIT_TOKEN):
        return None
    known = get_token()
    if known is None and token is True:
        raise AccessDenied(where, say("problem.no-token"), hint=_HINT_LOGIN)
    return known


def _check_same(file: FileInfo, reply: Reply) -> None:
    """Check what the Hub sends with its redirect against the listing."""
    etag = plain_etag(reply.headers.get("X-Linked-Etag"))
    if etag is not None and file.sha256 is not None and etag != file.sha256:
        raise ChangedWhileReading(
            file.name, say("problem.digest-listing", listed=str(file.sha256), found=etag[:70])
        )
    size = reply.headers.get("X-Linked-Size")
    if size is not None and size != str(file.size):
        raise ChangedWhileReading(
            file.name, say("problem.size-listing", listed=file.size, found=quoted(size, 20))
        )
