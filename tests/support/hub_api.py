"""The paths of the Hub, and the JSON that its API returns about a repository."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import parse_qs, unquote, urlsplit

from .answers import Contents
from .hub_repo import HubOptions, RepoState

_DATE = "2026-01-01T00:00:00.000Z"


def is_lfs(path: str, file: Contents, options: HubOptions) -> bool:
    """Tell whether the Hub keeps a file in LFS, behind the CDN."""
    return path.endswith(options.lfs_suffixes) or file.size > options.lfs_threshold


def pointer(file: Contents) -> bytes:
    """Return the text that git holds in place of a file in LFS."""
    lines = (
        "version https://git-lfs.github.com/spec/v1",
        f"oid sha256:{file.sha256}",
        f"size {file.size}",
        "",
    )
    return "\n".join(lines).encode()


def blob_id(file: Contents, *, lfs: bool) -> str:
    """Return git's name of what it holds: the file, or its pointer."""
    if not lfs:
        return file.git_sha1
    text = pointer(file)
    return hashlib.sha1(f"blob {len(text)}\0".encode() + text, usedforsecurity=False).hexdigest()


def xet_hash(file: Contents) -> str:
    """Return 64 hexadecimal digits that stand for the hash of Xet. It is not that hash."""
    return hashlib.sha256(b"xet " + file.sha256.encode()).hexdigest()


def model_info(state: RepoState, commit: str, options: HubOptions, *, blobs: bool) -> dict[str, Any]:
    """Return what ``/api/models/{repo}`` says; with `blobs`, sizes and digests too."""
    repo = state.repo
    return {
        "_id": hashlib.sha1(state.name.encode(), usedforsecurity=False).hexdigest()[:24],
        "id": state.name,
        "modelId": state.name,
        "author": state.name.partition("/")[0],
        "sha": commit,
        "createdAt": _DATE,
        "lastModified": _DATE,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "library_name": "transformers",
        "tags": list(repo.tags),
        "cardData": dict(repo.card_data),
        "siblings": [_sibling(path, file, options, blobs=blobs) for path, file in state.tree(commit).items()],
    }


def tree_entries(
    state: RepoState, commit: str, options: HubOptions, *, under: str, recursive: bool, expand: bool
) -> list[dict[str, Any]]:
    """Return files and folders below a folder; empty when there is none of that name."""
    prefix = f"{under.strip('/')}/" if under.strip("/") else ""
    found: dict[str, dict[str, Any]] = {}
    for path, file in state.tree(commit).items():
        if not path.startswith(prefix):
            continue
        for folder in _folders(path):
            if folder.startswith(prefix) and (recursive or "/" not in folder[len(prefix) :]):
                found[folder] = _folder(folder, commit, expand=expand)
        if recursive or "/" not in path[len(prefix) :]:
            found[path] = _file(path, file, commit, options, expand=expand)
    return list(found.values())


def paths_info(
    state: RepoState, commit: str, options: HubOptions, *, paths: Iterable[str], expand: bool
) -> list[dict[str, Any]]:
    """Return the entries of the paths that exist, in the order asked for."""
    entries = tree_entries(state, commit, options, under="", recursive=True, expand=expand)
    known = {entry["path"]: entry for entry in entries}
    return [known[path] for path in paths if path in known]


def commits(state: RepoState, commit: str) -> list[dict[str, Any]]:
    """Return the commits up to one, newest first."""
    known, dates = state.known_commits(), state.repo.dates
    return [
        {
            "id": name,
            "title": f"Push {number}",
            "message": "",
            "date": f"{dates[number]}T12:00:00.000Z" if number < len(dates) else _DATE,
            "authors": [{"user": state.name.partition("/")[0]}],
        }
        for number, name in reversed(list(enumerate(known[: known.index(commit) + 1])))
    ]


def refs(state: RepoState) -> dict[str, Any]:
    """Return branches and pull requests. Tags are listed as branches: a test does not tell them apart."""

    def shown(names: Iterable[str]) -> list[dict[str, str]]:
        return [
            {"name": n, "ref": n if "/" in n else f"refs/heads/{n}", "targetCommit": state.refs[n]}
            for n in names
        ]

    pulls = [name for name in state.refs if name.startswith("refs/pr/")]
    return {
        "branches": shown(name for name in state.refs if name not in pulls),
        "tags": [],
        "converts": [],
        "pullRequests": shown(pulls),
    }


def safetensors_metadata(state: RepoState, index: str) -> dict[str, Any] | None:
    """Return all shard headers named by an index file of `main`, or None when there is no such file."""
    tree = state.tree(state.refs["main"])
    if index not in tree:
        return None
    contents = json.loads(_read(tree[index], 0, tree[index].size))
    shards = sorted(set(contents["weight_map"].values()))
    headers = {}
    for shard in shards:
        length = int.from_bytes(_read(tree[shard], 0, 8), "little")
        headers[shard] = json.loads(_read(tree[shard], 8, 8 + length))
    return {"index": {"metadata": contents.get("metadata", {})}, "headers": headers}


def _sibling(path: str, file: Contents, options: HubOptions, *, blobs: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"rfilename": path}
    if blobs:
        lfs = is_lfs(path, file, options)
        shown |= {"size": file.size, "blobId": blob_id(file, lfs=lfs)}
        if lfs:
            shown["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": len(pointer(file))}
    return shown


def _file(path: str, file: Contents, commit: str, options: HubOptions, *, expand: bool) -> dict[str, Any]:
    lfs = is_lfs(path, file, options)
    shown: dict[str, Any] = {"type": "file", "path": path, "size": file.size, "oid": blob_id(file, lfs=lfs)}
    if lfs:
        shown["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": len(pointer(file))}
        if options.xet_hash:
            shown["xetHash"] = xet_hash(file)
    if expand:
        shown |= _expanded(commit)
        shown["securityFileStatus"] = {"status": "safe", "avScan": None, "pickleImportScan": None}
    return shown


def _folder(path: str, commit: str, *, expand: bool) -> dict[str, Any]:
    oid = hashlib.sha1(f"{commit} {path}".encode(), usedforsecurity=False).hexdigest()
    return {"type": "directory", "path": path, "size": 0, "oid": oid, **(_expanded(commit) if expand else {})}


def _expanded(commit: str) -> dict[str, Any]:
    return {"lastCommit": {"id": commit, "title": "Upload", "date": _DATE}}


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _read(file: Contents, start: int, stop: int) -> bytes:
    return b"".join(file.pieces(start, stop))


RouteKind = Literal[
    "commits",
    "info",
    "paths-info",
    "refs",
    "resolve",
    "resolve-cache",
    "revision",
    "safetensors-metadata",
    "tree",
]
_API_KINDS = tuple(kind for kind in get_args(RouteKind) if kind not in ("info", "resolve", "resolve-cache"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A request target, understood."""

    kind: RouteKind
    repo: str
    revision: str = "main"
    path: str = ""
    query: dict[str, list[str]]

    def flag(self, name: str) -> bool:
        """Tell whether a parameter of the query is set."""
        return self.query.get(name, [""])[0].lower() in ("1", "true")


def parse_target(target: str) -> Route | None:
    """Return the route of a request target, or None when the Hub has nothing there."""
    split = urlsplit(target)
    parts = [unquote(part) for part in split.path.split("/")[1:]]
    query = parse_qs(split.query)
    if parts[:3] == ["api", "resolve-cache", "models"]:
        return _file_route("resolve-cache", parts[3:], query, marker=None)
    if parts[:2] == ["api", "models"]:
        return _api_route(parts[2:], query)
    return _file_route("resolve", parts, query, marker="resolve")


def _file_route(
    kind: RouteKind, parts: list[str], query: dict[str, list[str]], *, marker: str | None
) -> Route | None:
    """Read ``{repo}/resolve/{revision}/{path}``, or ``{repo}/{commit}/{path}`` without a marker."""
    for n_repo in (2, 1):
        rest = parts[n_repo:]
        if marker is not None:
            if rest[:1] != [marker]:
                continue
            rest = rest[1:]
        elif not (rest and len(rest[0]) == 40):
            continue
        revision, path = _split_revision(rest)
        if path:
            return Route(kind=kind, repo="/".join(parts[:n_repo]), revision=revision, path=path, query=query)
    return None


def _api_route(parts: list[str], query: dict[str, list[str]]) -> Route | None:
    """Read ``{repo}``, or ``{repo}/{kind}/...``."""
    for n_repo in (1, 2):
        repo, rest = "/".join(parts[:n_repo]), parts[n_repo:]
        if not rest:
            if n_repo == len(parts):
                return Route(kind="info", repo=repo, query=query)
            continue
        for kind in _API_KINDS:
            if rest[0] != kind:
                continue
            if kind in ("refs", "safetensors-metadata"):
                return Route(kind=kind, repo=repo, path="/".join(rest[1:]), query=query)
            revision, path = _split_revision(rest[1:])
            return Route(kind=kind, repo=repo, revision=revision, path=path, query=query)
    return None


def _split_revision(parts: list[str]) -> tuple[str, str]:
    # ``refs/pr/1`` is usually one encoded segment, but the Hub takes it as three as well.
    n = 3 if parts[:1] == ["refs"] and len(parts) >= 3 else 1
    return "/".join(parts[:n]), "/".join(parts[n:])
