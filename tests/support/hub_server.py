"""A Hugging Face Hub on 127.0.0.1: its API, its files and its CDN, without its website."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Self, final
from urllib.parse import parse_qs, quote

from . import hub_api as api
from .answers import Answer, Contents, file_answer, json_answer, send_answer, text_answer
from .hub_api import Route, parse_target
from .hub_repo import Failure, Files, HubOptions, HubRepo, RepoState
from .loopback import (
    Connection,
    LogEntry,
    Loopback,
    Origin,
    Request,
    RequestLog,
    RequestRecord,
    bytes_sent,
    head,
    n_requests,
)

_INVALID_TOKEN = "Invalid credentials in Authorization header"


@final
class HubServer:
    """Two listeners on different ports: the Hub, and the CDN it sends readers of large files to.

    Use it as a context manager; `url` is what clients call the endpoint.

    Parameters
    ----------
    repos
        Repositories by id; a bare mapping of files is a public repository with one branch.
    options
        Tokens, delays, and which of the Hub's ways to follow.
    """

    def __init__(self, repos: Mapping[str, HubRepo | Files], options: HubOptions | None = None) -> None:
        self.options = options or HubOptions()
        self._repos = {
            name: RepoState(name, repo if isinstance(repo, HubRepo) else HubRepo(files=repo))
            for name, repo in repos.items()
        }
        self._log = RequestLog()
        self._signed = SignedUrls(self.options)
        self._lock = threading.Lock()
        self._failures: list[tuple[Failure, int | None]] = []
        self._chance = random.Random(self.options.fault_seed)
        self.n_faults = 0
        self._hub = Loopback(self._serve_hub, tls=self.options.tls)
        self._cdn = Loopback(self._serve_cdn, tls=self.options.tls)

    @property
    def url(self) -> str:
        """Address of the Hub, without a slash at its end."""
        return self._hub.url

    @property
    def cdn_url(self) -> str:
        """Address of the CDN, without a slash at its end."""
        return self._cdn.url

    @property
    def log(self) -> list[RequestRecord]:
        """A copy of the requests since the start or the last `reset`."""
        return self._log.records()

    def n_requests(self, origin: Origin | None = None) -> int:
        """Return how many requests came to one origin, or to both."""
        return n_requests(self.log, origin)

    def bytes_sent(self, origin: Origin | None = None) -> int:
        """Return how many bytes of bodies one origin sent, or both."""
        return bytes_sent(self.log, origin)

    def reset(self) -> None:
        """Empty the log. Failures that are still to come stay."""
        self._log.reset()

    def fail(self, failure: Failure) -> None:
        """Answer the next matching requests wrongly. Failures are tried in the order they were given."""
        with self._lock:
            self._failures.append((failure, failure.times))

    def clear_failures(self) -> None:
        """Answer rightly again."""
        with self._lock:
            self._failures.clear()

    def commit(self, repo_id: str, revision: str = "main") -> str:
        """Return the commit that a revision names now."""
        commit = self._repos[repo_id].commit(revision)
        if commit is None:
            raise ValueError(f"revision must be one of {sorted(self._repos[repo_id].refs)}, got {revision!r}")
        return commit

    def push(self, repo_id: str, files: Files, revision: str = "main") -> str:
        """Move a revision to new files, all of them; return the commit. The old commit stays readable."""
        return self._repos[repo_id].push(revision, files)

    def expire_urls(self) -> None:
        """Make every CDN URL given out so far answer 403."""
        self._signed.expire_all()

    def close(self) -> None:
        """Cut all connections and end all threads. Safe to call twice."""
        self._hub.close()
        self._cdn.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve_hub(self, connection: Connection, request: Request) -> bool:
        if request.target.startswith("/_control/"):
            return send_answer(self._control(request), connection, request, origin="hub", log=None)
        self._delay(connection, self.options.delays.hub)
        if (fault := self._chosen_fault()) is not None:
            return self._misbehave(fault, connection, request, "hub")
        answer = self._failing("hub", request) or self._hub_answer(request)
        return self._send(answer, connection, request, "hub")

    def _serve_cdn(self, connection: Connection, request: Request) -> bool:
        self._delay(connection, self.options.delays.cdn)
        if (fault := self._chosen_fault()) is not None:
            return self._misbehave(fault, connection, request, "cdn")
        answer = self._failing("cdn", request) or self._cdn_answer(request)
        return self._send(answer, connection, request, "cdn")

    def _send(self, answer: Answer, connection: Connection, request: Request, origin: Origin) -> bool:
        bandwidth = self.options.delays.bandwidth
        return send_answer(answer, connection, request, origin=origin, log=self._log, bandwidth=bandwidth)

    def _chosen_fault(self) -> str | None:
        with self._lock:
            if self._chance.random() >= self.options.fault_rate:
                return None
            self.n_faults += 1
            return self._chance.choice(("500", "503", "half", "close", "reset"))

    def _misbehave(self, fault: str, connection: Connection, request: Request, origin: Origin) -> bool:
        if fault in ("500", "503"):
            return self._send(text_answer(int(fault), "by chance"), connection, request, origin)
        entry = LogEntry(
            origin=origin,
            method=request.method,
            path=request.target,
            headers=request.headers,
            connection=connection.number,
        )
        self._log.add(entry)
        if fault == "half":
            answer = self._hub_answer(request) if origin == "hub" else self._cdn_answer(request)
            body = b"".join(answer.body)
            entry.status = answer.status
            connection.send_raw(head(answer.status, {**answer.headers, "Content-Length": str(answer.length)}))
            connection.send_body([body[: len(body) // 2]], entry)
        elif fault == "reset":
            connection.reset()
        return False

    def _delay(self, connection: Connection, seconds: float) -> None:
        if connection.n_requests == 0:
            seconds += self.options.delays.connection
        if seconds > 0:
            connection.wait(seconds)

    def _failing(self, origin: Origin, request: Request) -> Answer | None:
        with self._lock:
            for place, (failure, left) in enumerate(self._failures):
                if not failure.matches(origin, request.method, request.target):
                    continue
                if left is not None:
                    self._failures[place : place + 1] = [(failure, left - 1)] if left > 1 else []
                return text_answer(failure.status, "told to fail", failure.headers())
        return None

    def _control(self, request: Request) -> Answer:
        match request.target.removeprefix("/_control/"):
            case "log":
                return json_answer([asdict(record) for record in self.log])
            case "stats":
                origins: tuple[Origin, ...] = ("hub", "cdn")
                stats = {
                    o: {"n_requests": self.n_requests(o), "bytes_sent": self.bytes_sent(o)} for o in origins
                }
                return json_answer(stats)
            case "faults":
                return json_answer(self.n_faults)
            case "reset":
                self.reset()
            case "fail":
                self.fail(Failure(**json.loads(request.body)))
            case "expire-urls":
                self.expire_urls()
            case _:
                return text_answer(404, "no such control")
        return json_answer({})

    def _hub_answer(self, request: Request) -> Answer:
        if request.target.partition("?")[0] == "/api/models":
            return self._list_answer(request)
        route = parse_target(request.target)
        if route is None:
            return _error(404, None, "Sorry, we can't find the page you are looking for.")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme and (scheme.lower() != "bearer" or token not in self.options.tokens):
            return _error(401, None, _INVALID_TOKEN)
        state = self._repos.get(route.repo)
        opened = route.repo in self.options.tokens.get(token, ())
        if state is None or (state.repo.private and not opened):
            return _error(404 if token else 401, "RepoNotFound", "Repository not found")
        commit = state.commit(route.revision)
        if commit is None:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {route.revision}")
        if route.kind not in ("resolve", "resolve-cache"):
            return self._api_answer(state, commit, route, request)
        if state.repo.gated and not opened:
            message = f"Access to model {state.name} is restricted and you are not in the authorized list."
            return _error(403 if token else 401, "GatedRepo", message)
        return self._resolve(state, commit, route, request)

    def _list_answer(self, request: Request) -> Answer:
        """Return a page of public models, newest first, with the address of the next page."""
        query = parse_qs(request.target.partition("?")[2])
        author = query.get("author", [None])[0]
        start, limit = int(query.get("cursor", ["0"])[0]), int(query.get("limit", ["1000"])[0])
        states = [
            state
            for name, state in reversed(self._repos.items())
            if not state.repo.private and author in (None, name.partition("/")[0])
        ]
        shown = [
            {"id": state.name, "sha": state.commit("main"), "private": False}
            for state in states[start : start + limit]
        ]
        headers = {}
        if start + limit < len(states):
            others = f"&author={quote(author)}" if author else ""
            place = f"{self.url}/api/models?limit={limit}&full=true{others}&cursor={start + limit}"
            headers["Link"] = f'<{place}>; rel="next"'
        return json_answer(shown, headers=headers)

    def _resolve(self, state: RepoState, commit: str, route: Route, request: Request) -> Answer:
        bucket = "api" if route.kind == "resolve-cache" else "resolvers"
        headers = {"X-Repo-Commit": commit, "RateLimit": f'"{bucket}";r=2999;t=300'}
        file = state.tree(commit).get(route.path)
        if file is None:
            return _error(404, "EntryNotFound", "Entry not found", headers)
        lfs = api.is_lfs(route.path, file, self.options)
        etag = f'"{api.blob_id(file, lfs=lfs)}"'
        if lfs and self.options.large_files == "cdn":
            return self._to_cdn(file, {**headers, "ETag": etag})
        if not lfs and route.kind == "resolve" and self.options.small_files == "resolve-cache":
            place = f"/api/resolve-cache/models/{state.name}/{commit}/{quote(route.path)}?etag={quote(etag)}"
            return text_answer(
                307, f"Temporary Redirect. Redirecting to {place}", {**headers, "Location": place}
            )
        return file_answer(file, request, etag=etag, headers=headers)

    def _to_cdn(self, file: Contents, headers: Mapping[str, str]) -> Answer:
        location = self.cdn_url + self._signed.sign(file)
        linked = {"Location": location, "X-Linked-Size": str(file.size), "X-Linked-Etag": f'"{file.sha256}"'}
        if self.options.xet_hash:
            linked["X-Xet-Hash"] = api.xet_hash(file)
        return text_answer(302, f"Found. Redirecting to {location}", {**headers, **linked})

    def _api_answer(self, state: RepoState, commit: str, route: Route, request: Request) -> Answer:
        expand = route.flag("expand")
        match route.kind:
            case "info" | "revision":
                return json_answer(api.model_info(state, commit, self.options, blobs=route.flag("blobs")))
            case "commits":
                return json_answer(api.commits(state, commit))
            case "refs":
                return json_answer(api.refs(state))
            case "paths-info":
                paths, expand = _form(request)
                return json_answer(api.paths_info(state, commit, self.options, paths=paths, expand=expand))
            case "tree":
                entries = api.tree_entries(
                    state,
                    commit,
                    self.options,
                    under=route.path,
                    recursive=route.flag("recursive"),
                    expand=expand,
                )
                if not entries and route.path:
                    return _error(404, "EntryNotFound", f"{route.path} does not exist on {route.revision!r}")
                return json_answer(entries)
            case _:
                found = api.safetensors_metadata(state, route.path)
                return (
                    _error(404, "EntryNotFound", "Entry not found") if found is None else json_answer(found)
                )

    def _cdn_answer(self, request: Request) -> Answer:
        file = self._signed.use(request.target)
        if file is None:
            return text_answer(
                403, "<Error><Code>AccessDenied</Code></Error>", {"Content-Type": "application/xml"}
            )
        return file_answer(file, request, etag=f'"{file.sha256}"')


def _error(status: int, code: str | None, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    shown = {"X-Error-Message": message, **(headers or {})}
    if code is not None:
        shown["X-Error-Code"] = code
    return json_answer({"error": message}, status=status, headers=shown)


def _form(request: Request) -> tuple[list[str], bool]:
    """Return `paths` and `expand` of a body in JSON or as a form."""
    if "json" in request.headers.get("content-type", ""):
        sent = json.loads(request.body)
        return list(sent["paths"]), bool(sent.get("expand", False))
    fields = parse_qs(request.body.decode())
    return fields.get("paths", []), fields.get("expand", [""])[0].lower() == "true"


class SignedUrls:
    """Every address given out so far. Thread-safe."""

    def __init__(self, options: HubOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._issued: dict[str, tuple[Contents, float]] = {}
        self._uses: dict[str, int] = {}

    def sign(self, file: Contents) -> str:
        """Return a path and query that give access to a file."""
        lifetime = self._options.url_seconds
        expires = int(time.time() + (3600 if lifetime is None else lifetime))
        with self._lock:
            place = f"/repos/{file.sha256[:2]}/{file.sha256}?Expires={expires}&sig={next(self._numbers):016x}"
            self._issued[place] = (file, time.monotonic())
            self._uses[place] = 0
        return place

    def use(self, place: str) -> Contents | None:
        """Return the file behind a URL, or None when it was never given out or no longer works."""
        with self._lock:
            if place not in self._issued:
                return None
            file, issued = self._issued[place]
            self._uses[place] += 1
            seconds, uses = self._options.url_seconds, self._options.url_uses
            if seconds is not None and time.monotonic() - issued > seconds:
                return None
            return None if uses is not None and self._uses[place] > uses else file

    def expire_all(self) -> None:
        """Forget every URL."""
        with self._lock:
            self._issued.clear()
