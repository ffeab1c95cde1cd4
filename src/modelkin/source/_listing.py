"""The Hub's listing of a repository: it comes from outside, and its names become URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.errors import ListingError
from modelkin.untrusted import JsonRefused, path_problem, quoted, strict_json

from ._interface import FileInfo

MAX_FILES = 200_000
_MAX_VALUES = 30 * MAX_FILES
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Listing:
    """A commit and its files."""

    commit: str
    files: dict[str, FileInfo]

    def to_record(self) -> dict[str, object]:
        """Return what `parse_listing` reads back equal, in the Hub's own words."""
        return {"sha": self.commit, "siblings": [_sibling(file) for file in self.files.values()]}


def is_commit(revision: str) -> bool:
    """Say whether a revision is a full commit, which names the same files for ever."""
    return _COMMIT.fullmatch(revision) is not None


def load_listing(body: bytes, *, revision: str, where: str) -> Listing:
    """Read a listing as it was sent."""
    # Counted before it is parsed: a value takes up to 30 times its text in memory.
    if body.count(b"{") + body.count(b"[") > 2 * MAX_FILES + 1000 or body.count(b",") > _MAX_VALUES:
        raise ListingError(where, f"the Hub's listing has more than {MAX_FILES:,} files")
    try:
        document = strict_json(body)
    except JsonRefused as error:
        raise ListingError(where, f"the Hub's listing cannot be read: {error}") from error
    return parse_listing(document, revision=revision, where=where)


def parse_listing(document: object, *, revision: str, where: str) -> Listing:
    """Check a listing and keep what is needed of it.

    Raises
    ------
    ListingError
        It is not a listing, not one of the commit that was asked for, or names what is no safe file name.
    """
    if not isinstance(document, dict):
        raise ListingError(where, "the Hub's listing is not an object")
    commit, siblings = document.get("sha"), document.get("siblings")
    if not isinstance(commit, str) or not is_commit(commit):
        raise ListingError(where, f"expected a commit of 40 hexadecimal digits, got {quoted(str(commit))}")
    if is_commit(revision) and commit != revision:
        raise ListingError(where, f"commit {revision} was asked for, the Hub answers {commit}")
    if not isinstance(siblings, list):
        raise ListingError(where, "the Hub's listing names no files")
    files = sorted((_file(entry, where) for entry in siblings), key=lambda file: file.name)
    by_name = {file.name: file for file in files}
    if len(by_name) != len(files):
        raise ListingError(where, "the Hub's listing names a file twice")
    return Listing(commit, by_name)


def _file(entry: object, where: str) -> FileInfo:
    name = entry.get("rfilename") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str):
        raise ListingError(where, "the Hub's listing has a file without a name")
    if problem := path_problem(name):
        raise ListingError(where, f"the file name {quoted(name)} {problem}")
    lfs = entry.get("lfs")
    lfs = lfs if isinstance(lfs, dict) else {}
    size = lfs.get("size", entry.get("size"))
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**60:
        raise ListingError(where, f"the file {quoted(name)} has no size (got {quoted(str(size)[:80])})")
    sha256 = _matching(_SHA256, lfs.get("sha256"))
    return FileInfo(
        name=name, size=size, etag=sha256 or _matching(_COMMIT, entry.get("blobId")), sha256=sha256
    )


def _matching(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _sibling(file: FileInfo) -> Mapping[str, object]:
    shared: dict[str, object] = {"rfilename": file.name, "size": file.size}
    if file.sha256 is not None:
        return {**shared, "lfs": {"sha256": file.sha256, "size": file.size}}
    return {**shared, "blobId": file.etag}
