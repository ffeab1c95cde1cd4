"""The local store of fetched ranges: content-addressed, shared by processes, bounded in size.

::

    v1/objects/ab/<sha256>                        the bytes of one range, named by their digest
    v1/ranges/cd/<sha256 of key>/<start>-<stop>-<sha256>     empty; says which object holds a range
    v1/records/ef/<sha256 of key>.json            small facts, such as the listing of a commit
    v1/tmp/                                       half-written files, which nobody reads

An object gets its name only once it is complete, and a range is named only once its object exists, so a
process may be killed at any point. Whatever is read is checked against its digest: damaged data counts as
missing.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock

from modelkin.errors import SourceError
from modelkin.message import said_by, say
from modelkin.options import MIB
from modelkin.untrusted import strict_json

from .ranges import ByteRange

LOCK_PATIENCE = 60.0
"""Seconds to wait for another process that is evicting."""
MAX_RECORD = 64 * MIB
"""As much as a listing of a repository may take (`hub.MAX_LISTING`): the longest record there is."""
_MARKER = re.compile(r"(\d{1,19})-(\d{1,19})-([0-9a-f]{64})")
_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Ranges of model files fetched by modelkin. Safe to delete.\n"
)
_ABANDONED_AFTER = 3600.0
"""Seconds: no write of one range takes an hour, not even to a slow network disk."""
_KEEP_AFTER_EVICTION = 0.9
"""Share of the limit that stays: evicting down to the limit itself would evict again at the next write."""
# Other processes write too: once this share of the limit has been written here, the store is recounted.
_COUNT_AGAIN = 1 / 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKey:
    """Which version of which file a range belongs to.

    The place is part of the key, not only the etag: a server that claims another file's digest for its own
    bytes must not be able to pass them off as that file.
    """

    origin: str
    revision: str | None
    file: str
    etag: str | None
    query: str | None = None
    """Digest of the URL's query: another query is another file. The query itself may be a secret."""

    def digest(self) -> str:
        """Name of this key on disk."""
        query = [] if self.query is None else [self.query]
        return _digest_of([self.origin, self.revision, self.file, self.etag, *query])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """What the store holds."""

    path: Path
    n_bytes: int
    n_objects: int
    n_files: int
    limit: int
    n_drafts: int = 0
    """Half-written files of processes that are writing now or were killed."""
    draft_bytes: int = 0
    """Their bytes, which are part of `n_bytes`."""


class RangeStore:
    """Ranges on disk. Safe with several threads and processes; being full never fails an analysis."""

    def __init__(self, root: Path, *, limit: int) -> None:
        self.root = root
        self.limit = limit
        self._base = root / "v1"
        self._size = 0
        self._until_count = 0
        self._writable = True
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RangeStore({str(self.root)!r})"

    # -- ranges ----------------------------------------------------------------------------------------

    def extents(self, key: StoreKey, wanted: list[ByteRange] | None = None) -> list[ByteRange]:
        """Return the stored ranges of a file, sorted; only those that overlap `wanted`, if given."""
        found = self._markers(key) if wanted is None else self._overlapping(key, wanted)
        return sorted(extent for extent, digest in found if self._object(digest).exists())

    def load(self, key: StoreKey, wanted: list[ByteRange]) -> Iterator[tuple[ByteRange, str, bytes]]:
        """Yield whole stored ranges that overlap `wanted`, with their verified digests.

        `wanted` is sorted and without overlaps.
        """
        for extent, digest in sorted(self._overlapping(key, wanted)):
            data = self._load_object(digest, extent.length)
            if data is None:
                _remove(self._marker(key, extent, digest))
            else:
                yield extent, digest, data

    def save(self, key: StoreKey, extent: ByteRange, data: bytes, *, digest: str | None = None) -> None:
        """Keep the bytes of one range. A full or read-only disk is no error: the store stops growing."""
        if extent.length == 0 or extent.length != len(data) or len(data) > self.limit:
            return
        digest = digest or hashlib.sha256(data).hexdigest()
        target, marker = self._object(digest), self._marker(key, extent, digest)

        def write() -> None:
            if _size_of(target) != len(data):
                self._make_room(len(data))
                self._write(target, data)
            _in_folder(marker, lambda: os.close(os.open(marker, os.O_WRONLY | os.O_CREAT, 0o666)))

        self._attempt(write)

    def agrees(self, key: StoreKey, extent: ByteRange, data: bytes) -> bool:
        """Say whether fresh bytes of a file agree with the stored ones, as far as those go."""
        for held, _, kept in self.load(key, [extent]):
            start, stop = max(held.start, extent.start), min(held.stop, extent.stop)
            mine = kept[start - held.start : stop - held.start]
            if mine != data[start - extent.start : stop - extent.start]:
                return False
        return True

    def drop(self, key: StoreKey) -> None:
        """Forget every range of a file: it is not the file it was taken for."""
        for extent, digest in list(self._markers(key)):
            _remove(self._marker(key, extent, digest))

    # -- records ---------------------------------------------------------------------------------------

    def read_record(self, *key: str | None) -> dict[str, object] | None:
        """Return a record written under the same key, or None."""
        path = self._record(key)
        try:
            document = strict_json(_read(path, limit=MAX_RECORD), max_values=MAX_RECORD)
        except (OSError, ValueError):
            return None
        if not isinstance(document, dict) or document.get("key") != list(key):
            return None
        _mark_used(path)
        value = document.get("value")
        return value if isinstance(value, dict) else None

    def write_record(self, *key: str | None, value: dict[str, object]) -> None:
        """Keep a small fact under a key, in place of what was there."""
        data = json.dumps({"key": list(key), "value": value}).encode()

        def write() -> None:
            self._make_room(len(data))
            self._write(self._record(key), data)

        if len(data) <= min(self.limit, MAX_RECORD):
            self._attempt(write)

    # -- the whole -------------------------------------------------------------------------------------

    def info(self) -> StoreInfo:
        """Count what is held."""
        objects, drafts = list(self._files("objects")), list(self._drafts())
        n_files = sum(1 for group in _folders(self._base / "ranges") for _ in _folders(group))
        return StoreInfo(
            path=self.root,
            n_bytes=sum(size for _, size, _ in [*objects, *self._files("records"), *drafts]),
            n_objects=len(objects),
            n_files=n_files,
            limit=self.limit,
            n_drafts=len(drafts),
            draft_bytes=sum(size for _, size, _ in drafts),
        )

    def clear(self) -> StoreInfo:
        """Remove everything this store wrote, and nothing else; return what it held."""
        before = self.info()
        if not self._base.is_dir():
            return before
        try:
            with self._exclusive():
                for part in ("ranges", "records", "objects", "tmp"):
                    _remove_tree(self._base / part)
        except filelock.Timeout as error:
            raise SourceError(str(self.root), say("problem.store-busy")) from error
        except OSError as error:
            raise SourceError(str(self.root), say("problem.store-not-cleared", why=said_by(error))) from error
        with self._lock:
            self._until_count = 0
        after = self.info()
        if after.n_objects and after.n_objects >= before.n_objects:
            raise SourceError(str(self.root), say("problem.store-not-writable"))
        return before

    def evict(self, *, room: int = 0) -> None:
        """Drop what was used least recently until the store is well below its limit and has `room`."""
        goal = min(self.limit * _KEEP_AFTER_EVICTION, self.limit - room)
        with self._exclusive():
            # Counted under the lock: if several processes find the store full, only the first evicts.
            self._remove_abandoned()
            held = sorted([*self._files("objects"), *self._files("records")], key=lambda entry: entry[2])
            size = sum(entry[1] for entry in [*held, *self._drafts()])
            if size > goal:
                for path, n_bytes, _ in held:
                    if size <= goal:
                        break
                    with contextlib.suppress(OSError):
                        path.unlink()
                        size -= n_bytes
                self._sweep()
        self._counted(size)

    # -- inside ----------------------------------------------------------------------------------------

    def _attempt(self, write: Callable[[], None]) -> None:
        """Write, unless the disk is full or read-only; after such a failure, never again in this run."""
        for last in (False, False, True):
            if not self._writable:
                return
            try:
                write()
                return
            except filelock.Timeout:
                return  # another process is making room; this range is not kept
            except FileNotFoundError:
                continue  # another process removed the folder meanwhile
            except FileExistsError:
                # `mkdir` found the folder, which was removed before it looked again; a file would stay.
                self._writable = not last
            except (OSError, NotImplementedError):  # NotImplementedError: a file system without locks
                self._writable = False

    def _make_room(self, amount: int) -> None:
        """Count `amount` bytes that are about to be written, and evict when they do not fit."""
        with self._lock:
            stale = self._until_count < amount
        if stale:
            # Every process gets here at least once, so leftovers of killed ones do not wait for a full store.
            self._remove_abandoned()
            held = [entry for part in ("objects", "records") for entry in self._files(part)]
            self._counted(sum(size for _, size, _ in [*held, *self._drafts()]))
        with self._lock:
            self._size += amount
            self._until_count -= amount
            full = self._size > self.limit
        if full:
            self.evict(room=amount)
            with self._lock:
                self._size += amount

    def _counted(self, size: int) -> None:
        with self._lock:
            self._size = size
            self._until_count = int(self.limit * _COUNT_AGAIN)

    def _sweep(self) -> None:
        """Remove names whose object is gone."""
        for group in _folders(self._base / "ranges"):
            for folder in _folders(group):
                for entry in _entries(folder):
                    match = _MARKER.fullmatch(entry.name)
                    if match is None or not self._object(match[3]).exists():
                        _remove(Path(entry.path))
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def _remove_abandoned(self) -> None:
        """Remove drafts left untouched for so long that their process must be gone."""
        oldest = time.time() - _ABANDONED_AFTER
        for path, _, written in self._drafts():
            if written < oldest:
                _remove(path)

    def _drafts(self) -> Iterator[tuple[Path, int, float]]:
        """Yield path, size and time of half-written files."""
        for entry in _entries(self._base / "tmp"):
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                yield Path(entry.path), found.st_size, found.st_mtime

    def _files(self, part: str) -> Iterator[tuple[Path, int, float]]:
        """Yield path, size and time of last use."""
        for group in _folders(self._base / part):
            for entry in _entries(group):
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    yield Path(entry.path), found.st_size, found.st_mtime

    def _markers(self, key: StoreKey) -> Iterator[tuple[ByteRange, str]]:
        for entry in _entries(self._marker_folder(key)):
            match = _MARKER.fullmatch(entry.name)
            if match and int(match[1]) < int(match[2]):
                yield ByteRange(int(match[1]), int(match[2])), match[3]

    def _overlapping(self, key: StoreKey, wanted: list[ByteRange]) -> Iterator[tuple[ByteRange, str]]:
        """Yield ranges that overlap wanted ones, unordered: a file read in pieces has hundreds."""
        ends = [item.stop for item in wanted]
        for extent, digest in self._markers(key):
            # Wanted ranges are sorted and disjoint: only the first that ends after the start can overlap.
            at = bisect.bisect_right(ends, extent.start)
            if at < len(wanted) and wanted[at].start < extent.stop:
                yield extent, digest

    def _load_object(self, digest: str, length: int) -> bytes | None:
        path = self._object(digest)
        try:
            data = _read(path, limit=length)
        except FileNotFoundError:
            return None
        except OSError:
            data = b""
        if len(data) == length and hashlib.sha256(data).hexdigest() == digest:
            _mark_used(path)
            return data
        _remove(path)
        return None

    def _write(self, target: Path, data: bytes) -> None:
        self._prepare()
        draft = self._base / "tmp" / uuid.uuid4().hex
        try:
            draft.write_bytes(data)
            _in_folder(target, lambda: draft.replace(target))
        except OSError:
            _remove(draft)
            raise

    def _prepare(self) -> None:
        tmp = self._base / "tmp"
        if not tmp.is_dir():
            self.root.mkdir(parents=True, exist_ok=True)
            # Models may be private: only the owner of the store may read their bytes.
            self._base.mkdir(exist_ok=True, mode=0o700)
            tmp.mkdir(exist_ok=True)
            (self.root / "CACHEDIR.TAG").write_text(_TAG)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Let only one process evict at a time."""
        self._prepare()
        with filelock.FileLock(self._base / "lock", timeout=LOCK_PATIENCE):
            yield

    def _object(self, digest: str) -> Path:
        return self._base / "objects" / digest[:2] / digest

    def _marker_folder(self, key: StoreKey) -> Path:
        digest = key.digest()
        return self._base / "ranges" / digest[:2] / digest

    def _marker(self, key: StoreKey, extent: ByteRange, digest: str) -> Path:
        return self._marker_folder(key) / f"{extent.start}-{extent.stop}-{digest}"

    def _record(self, key: tuple[str | None, ...]) -> Path:
        digest = _digest_of(list(key))
        return self._base / "records" / digest[:2] / f"{digest}.json"


def _digest_of(parts: list[str | None]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(path: Path, *, limit: int) -> bytes:
    """Return a whole file, or b"" if it is longer than `limit`: a damaged file must not fill the memory."""
    with path.open("rb") as file:
        return file.read() if os.fstat(file.fileno()).st_size <= limit else b""


def _in_folder(path: Path, make: Callable[[], object]) -> None:
    """Make a file, and the folder for it if there is none yet: nearly always there is."""
    try:
        make()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        make()


def _mark_used(path: Path) -> None:
    # A read-only store still works.
    with contextlib.suppress(OSError):
        os.utime(path)


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the subfolders of a folder. Links are skipped: their targets are not ours to count or remove."""
    return (Path(entry.path) for entry in _entries(folder) if entry.is_dir(follow_symlinks=False))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _remove_tree(folder: Path) -> None:
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(Path(entry.path))
        else:
            _remove(Path(entry.path))
    with contextlib.suppress(OSError):
        folder.rmdir()
