"""A repository of a test Hub: files under commits, commits under names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._contents import Contents, Servable, contents

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

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch, a tag or a full commit, or None."""
        return self.refs.get(revision, revision if revision in self._commits else None)

    def tree(self, commit: str) -> dict[str, Contents]:
        """Return the files of a commit, in order of their names."""
        return self._commits[commit]
