"""The paths of the Hub. What is behind them is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import parse_qs, unquote, urlsplit

RouteKind = Literal[
    "info", "paths-info", "refs", "resolve", "resolve-cache", "revision", "safetensors-metadata", "tree"
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
