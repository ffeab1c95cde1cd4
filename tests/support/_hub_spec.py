"""A test Hub as JSON, to start it in another process."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ._contents import Servable
from ._hub_options import Delays, HubOptions
from ._hub_repo import Files, HubRepo
from ._virtual_file import VirtualFile


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
    }


def _repo(value: Mapping[str, Any]) -> HubRepo:
    return HubRepo(
        files=_files(value["files"]),
        revisions={name: _files(files) for name, files in value.get("revisions", {}).items()},
        private=value.get("private", False),
        gated=value.get("gated", False),
        tags=tuple(value.get("tags", ())),
        card_data=value.get("card_data", {}),
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


def _file(value: Mapping[str, Any]) -> Servable:
    match value:
        case {"base64": str(text)}:
            return base64.b64decode(text)
        case {"path": str(path)}:
            return Path(path)
        case {"virtual": dict(fields)}:
            return VirtualFile(**{**fields, "head": base64.b64decode(fields.get("head", ""))})
        case _:
            raise ValueError(f"a file must be given as base64, path or virtual, got {sorted(value)}")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
