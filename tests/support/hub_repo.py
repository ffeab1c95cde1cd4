"""What a test Hub serves and how it behaves; as JSON too, to start it in another process."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from .answers import Contents, Servable, contents
from .drawn import DrawnFile
from .loopback import Origin
from .models import VirtualFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Time the server takes on purpose. All times in seconds, all made by sleeping."""

    hub: float = 0.0
    """Before each answer of the Hub."""
    cdn: float = 0.0
    """Before each answer of the CDN."""
    connection: float = 0.0
    """More before the first answer on a new connection: the handshakes of TCP and TLS."""
    bandwidth: float | None = None
    """Bytes per second of each connection; None sends as fast as it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An answer that matching requests get instead of the right one."""

    status: int
    times: int | None = 1
    """How many requests; None for every one until `HubServer.clear_failures`."""
    origin: Origin | None = None
    """`hub` or `cdn`; None for both."""
    path_contains: str = ""
    method: str | None = None
    retry_after: str | None = None
    """Value of ``Retry-After``: seconds or an HTTP date."""
    rate_limit_reset: int | None = None
    """Seconds in ``RateLimit: "resolvers";r=0;t=...``, as the Hub sends with 429."""

    def headers(self) -> dict[str, str]:
        """Return the headers of the failing answer."""
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["Retry-After"] = self.retry_after
        if self.rate_limit_reset is not None:
            headers["RateLimit"] = f'"resolvers";r=0;t={self.rate_limit_reset}'
            headers["RateLimit-Policy"] = '"fixed window";"resolvers";q=3000;w=300'
        return headers

    def matches(self, origin: Origin, method: str, target: str) -> bool:
        """Tell whether a request is one of those that fail."""
        return (
            self.origin in (None, origin) and self.method in (None, method) and self.path_contains in target
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """Everything about a `HubServer` that is not a repository."""

    tokens: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Accepted tokens, each with the private and gated repositories it opens. Others are invalid."""
    small_files: Literal["resolve-cache", "direct"] = "resolve-cache"
    """Files outside LFS: a relative 307 to ``/api/resolve-cache``, as the Hub does, or 200, as mirrors do."""
    large_files: Literal["cdn", "direct"] = "cdn"
    """Files in LFS: 302 to the CDN, as the Hub does, or 200 and 206 from the Hub's origin, as mirrors do."""
    lfs_suffixes: tuple[str, ...] = (".bin", ".gguf", ".pt", ".pth", ".safetensors")
    lfs_threshold: int = 10 * 2**20
    """Files larger than this are in LFS whatever their name."""
    xet_hash: bool = False
    """Send ``X-Xet-Hash``. There is no Xet server behind it."""
    url_seconds: float | None = None
    """How long a CDN URL works; None for ever. Its ``Expires`` says one hour then."""
    url_uses: int | None = None
    """How many requests a CDN URL answers; None for any number."""
    fault_rate: float = 0.0
    """Share of requests, chosen by chance, that get 500, 503, half a body, no answer or a reset."""
    fault_seed: int = 0
    delays: Delays = field(default_factory=Delays)
    tls: bool = False
    """Speak https on both origins (needs trustme); clients need `client_tls` or `certificate_pem`."""


Files = Mapping[str, Servable]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubRepo:
    """A repository as a test describes it."""

    files: Files
    """The branch `main`, by path."""
    revisions: Mapping[str, Files] = field(default_factory=dict)
    """Other branches, tags and pull requests (``refs/pr/1``), by name."""
    private: bool = False
    gated: Literal[False, "auto", "manual"] = False
    tags: tuple[str, ...] = ()
    card_data: Mapping[str, Any] = field(default_factory=dict)
    """Front matter of the model card, as the API returns it: `base_model`, `license` and so on."""
    dates: tuple[str, ...] = ()
    """Of the commits, oldest first, as ``2024-01-31``; the others have one and the same."""


class RepoState:
    """A repository while it is served. Commits stay readable after a branch has moved on."""

    def __init__(self, name: str, repo: HubRepo) -> None:
        self.name = name
        self.repo = repo
        self.refs: dict[str, str] = {}
        self._commits: dict[str, dict[str, Contents]] = {}
        for revision, files in {"main": repo.files, **repo.revisions}.items():
            self.push(revision, files)

    def push(self, revision: str, files: Files) -> str:
        """Make `files` the whole of a revision; return the commit."""
        tree = {path: contents(source) for path, source in sorted(files.items())}
        digest = hashlib.sha1(f"{self.name} {revision} {len(self._commits)}".encode(), usedforsecurity=False)
        for path, file in tree.items():
            digest.update(f"{path} {file.git_sha1}\n".encode())
        commit = digest.hexdigest()
        self._commits[commit] = tree
        self.refs[revision] = commit
        return commit

    def known_commits(self) -> list[str]:
        """Return all commits, oldest first."""
        return list(self._commits)

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch, a tag or a full commit, or None."""
        return self.refs.get(revision, revision if revision in self._commits else None)

    def tree(self, commit: str) -> dict[str, Contents]:
        """Return the files of a commit, in order of their names."""
        return self._commits[commit]


def write_spec(repos: Mapping[str, HubRepo | Files], options: HubOptions) -> dict[str, Any]:
    """Return repositories and options as JSON values."""
    return {
        "repos": {name: _repo_json(repo) for name, repo in repos.items()},
        "options": {
            **asdict(options),
            "tokens": {token: list(open_) for token, open_ in options.tokens.items()},
        },
    }


def read_spec(spec: Mapping[str, Any]) -> tuple[dict[str, HubRepo], HubOptions]:
    """Return what `write_spec` was given. Options may be left out."""
    options = dict(spec.get("options", {}))
    options["delays"] = Delays(**options.get("delays", {}))
    if "lfs_suffixes" in options:
        options["lfs_suffixes"] = tuple(options["lfs_suffixes"])
    return {name: _repo(repo) for name, repo in spec["repos"].items()}, HubOptions(**options)


def _repo_json(repo: HubRepo | Files) -> dict[str, Any]:
    if not isinstance(repo, HubRepo):
        repo = HubRepo(files=repo)
    return {
        "files": _files_json(repo.files),
        "revisions": {name: _files_json(files) for name, files in repo.revisions.items()},
        "private": repo.private,
        "gated": repo.gated,
        "tags": list(repo.tags),
        "card_data": dict(repo.card_data),
        "dates": list(repo.dates),
    }


def _repo(value: Mapping[str, Any]) -> HubRepo:
    return HubRepo(
        files=_files(value["files"]),
        revisions={name: _files(files) for name, files in value.get("revisions", {}).items()},
        private=value.get("private", False),
        gated=value.get("gated", False),
        tags=tuple(value.get("tags", ())),
        card_data=value.get("card_data", {}),
        dates=tuple(value.get("dates", ())),
    )


def _files_json(files: Files) -> dict[str, Any]:
    return {path: _file_json(source) for path, source in files.items()}


def _files(value: Mapping[str, Any]) -> dict[str, Servable]:
    return {path: _file(source) for path, source in value.items()}


def _file_json(source: Servable) -> dict[str, Any]:
    match source:
        case bytes():
            return {"base64": _base64(source)}
        case Path():
            return {"path": str(source.resolve())}
        case VirtualFile():
            return {"virtual": {**asdict(source), "head": _base64(source.head)}}
        case DrawnFile():
            return {"drawn": {**asdict(source), "head": _base64(source.head)}}


def _file(value: Mapping[str, Any]) -> Servable:
    match value:
        case {"base64": str(text)}:
            return base64.b64decode(text)
        case {"path": str(path)}:
            return Path(path)
        case {"virtual": dict(fields)}:
            return VirtualFile(**{**fields, "head": base64.b64decode(fields.get("head", ""))})
        case {"drawn": dict(fields)}:
            return DrawnFile(**{**fields, "head": base64.b64decode(fields["head"])})
        case _:
            raise ValueError(f"a file must be given as base64, path, virtual or drawn, got {sorted(value)}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
