"""The application: pages, the JSON interface, and rules that hold for every answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, final

from modelkin.atlas import Atlas, model_key
from modelkin.demo import DEMO_MODELS
from modelkin.document import (
    AtlasSite,
    SitePart,
    fingerprint_from_document,
    page_policy,
    plain,
    plain_object,
    report_html,
    scan_html,
    to_json,
)
from modelkin.document.codec import dumps
from modelkin.errors import MissingExtra, ModelkinError
from modelkin.fingerprint import Fingerprint
from modelkin.lineage.cards import is_hub_id
from modelkin.message import say, told
from modelkin.options import FetchOptions
from modelkin.registry import open_registry
from modelkin.untrusted import JsonRefused, strict_object

from .access import ServeAccess
from .answers import LANGUAGE, Problem, asked_language, json_answer
from .interface import ROUTES, openapi
from .jobs import QueueFull, ScanJob, ScanJobs

MOST_BYTES = 256 * 1024
"""Of a body: a fingerprint is 45 kB as JSON."""
_MOST_PAGES = 256
"""Rendered pages that are cached."""
_MOST_LISTED = 100
"""Models in one answer to a search."""
_LIMITS = frozenset(map(str, range(1, _MOST_LISTED + 1)))
_PATIENCE = 900.0
"""Seconds that one stream of events lasts; a browser then reconnects."""
_LONGEST_PROBLEM = 500
"""Characters of why a scan failed: it may quote names of unknown authors."""
_TICK = 0.2
"""Seconds between two polls of a scan: nobody notices the difference."""
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "X-Frame-Options": "DENY",
}
"""Of every answer."""
_NOTHING = "default-src 'none'"


def atlas_app(
    atlas: Atlas,
    registry: str,
    *,
    access: ServeAccess | None = None,
    language: str = "en",
    fetch: FetchOptions | None = None,
) -> Any:  # noqa: ANN401  an ASGI application
    """Return an atlas as an ASGI application; needs Starlette.

    Scans look in the registry, and fingerprints are added to it by token. `access` says who may scan and
    write; by default only this machine may scan, and nobody writes.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ModuleNotFoundError as error:
        hint = say("hint.install", command="pip install 'modelkin[atlas]'")
        raise MissingExtra("atlas", say("problem.needs-server"), hint=hint) from error
    served = _Served(atlas, registry, access or ServeAccess(), language, fetch or FetchOptions())

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        yield
        served.jobs.close()

    routes = [
        Route(route.path, getattr(served, route.name), methods=[route.method.upper()]) for route in ROUTES
    ]
    routes += [
        Route("/openapi.json", served.openapi),
        Route("/scan.html", served.scan_page),
        Route("/api.html", served.api_page),
        Route("/scans/{id}/report.html", served.scan_report),
        Route("/scans/{id}/verified/{number}/report.html", served.verified_report),
        Route("/{path:path}", served.page),
    ]
    return _GuardedApp(Starlette(routes=routes, lifespan=lifespan), served.access, language)


Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _GuardedApp:
    """Adds the policy headers to every answer, refuses requests for other hosts, and notes the language."""

    def __init__(self, app: Any, access: ServeAccess, language: str) -> None:  # noqa: ANN401
        self._app, self._access, self._language = app, access, language

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                for name, value in {**HEADERS, "Content-Security-Policy": _NOTHING}.items():
                    if name.lower().encode() not in given:
                        message["headers"].append((name.lower().encode(), value.encode()))
            await send(message)

        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        scope[LANGUAGE] = asked_language(headers.get("accept-language", ""), self._language)
        if not self._access.is_own_host(headers):
            await Problem(421, say("problem.serve-host"))(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


class _RefusedRequest(Exception):
    """A refused request."""

    def __init__(self, answer: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.answer = answer


@final
class _Served:
    """What the routes answer."""

    def __init__(
        self, atlas: Atlas, registry: str, access: ServeAccess, language: str, fetch: FetchOptions
    ) -> None:
        self.access = access
        self.site = AtlasSite(atlas, language=language, served=True)
        self.index = self.site.index
        self._registry = registry
        # The server's credentials must not show readers what they could not see themselves.
        self.jobs = ScanJobs(registry, replace(fetch, token=False), self.site.language.tell)
        self._pages: OrderedDict[str, SitePart] = OrderedDict()
        self._record: str | None = None

    # -- pages -----------------------------------------------------------------------------------------

    async def page(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with a page of the atlas."""
        path = request.path_params["path"] or "index.html"
        part = self._pages.get(path)
        if part is None:
            part = await asyncio.to_thread(self.site.part, path)
            if part is None:
                return Problem(404, say("problem.serve-no-page"))
            self._pages[path] = part
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)
        return self._sent(part)

    async def scan_page(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the page on which a scan begins."""
        return self._sent(self.site.scan_page(open_for=self.access.scans))

    async def api_page(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the page about the interface."""
        rows = [(route.method, route.path, route.name, self._needs_token(route.who)) for route in ROUTES]
        return self._sent(self.site.api_page(rows))

    async def scan_report(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the result of a scan as a page."""
        job = self._job(request)
        if job is None or job.result is None:
            return Problem(404, say("problem.serve-no-result"))
        text = await asyncio.to_thread(scan_html, job.result, self.site.language)
        return self._sent(SitePart(kind="html", text=text, policy=page_policy()))

    async def verified_report(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the report on a hit that was compared."""
        job, number = self._job(request), request.path_params["number"]
        hits = () if job is None or job.result is None else job.result.hits
        known = {f"{at:02d}": hit.verified.comparison for at, hit in enumerate(hits, start=1)}
        found = known.get(number)
        if found is None:
            return Problem(404, say("problem.serve-no-report"))
        text = await asyncio.to_thread(report_html, found, self.site.language)
        return self._sent(SitePart(kind="html", text=text, policy=page_policy()))

    def _sent(self, part: SitePart) -> Any:  # noqa: ANN401
        from starlette.responses import Response

        headers = {
            "Content-Security-Policy": f"{part.policy}; frame-ancestors 'none'",
            "Cache-Control": "no-cache",
            "Content-Type": _KINDS[part.kind],
        }
        return Response(part.text.encode("utf-8", "backslashreplace"), headers=headers)

    # -- reading ---------------------------------------------------------------------------------------

    async def openapi(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the description for programs."""
        return json_answer(openapi(scans=self.access.scans))

    async def atlas(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the whole record."""
        if self._record is None:
            self._record = await asyncio.to_thread(to_json, self.index.atlas)
        return json_answer(self._record)

    async def models(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with models by a part of their name."""
        limit = request.query_params.get("limit", "20")
        if limit not in _LIMITS:
            return Problem(400, say("problem.serve-limit", most=_MOST_LISTED))
        found, total = self.index.found(request.query_params.get("q", ""), limit=int(limit))
        listed = [{"key": model_key(model.ref), **plain_object(model)} for model in found]
        return json_answer({"total": total, "models": listed})

    async def model(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with everything about one model."""
        model = self.index.models.get(request.path_params["key"])
        if model is None:
            return Problem(404, say("problem.serve-no-model"))
        return json_answer(
            {
                **plain_object(model),
                "claims": plain(tuple(self.index.claims(model.ref))),
                "unnamed": plain(self.index.unnamed(model.ref)),
                "licences": plain(tuple(self.index.licences(model.ref))),
                "merges": plain(tuple(self.index.merges(model.ref))),
                "edges": plain(tuple(self.index.edges(model.ref))),
                "relatives": plain(tuple(self.index.relatives(model.ref))),
            }
        )

    async def families(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with all families."""
        return json_answer({"families": plain(self.index.atlas.families)})

    async def pair(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with what is known of a pair."""
        pair = self.index.pairs.get(request.path_params["key"])
        return Problem(404, say("problem.serve-no-pair")) if pair is None else json_answer(plain(pair))

    # -- scans -----------------------------------------------------------------------------------------

    async def begin_scan(self, request: Any) -> Any:  # noqa: ANN401
        """Begin a scan."""
        try:
            self._allowed(request, "scan")
            document = await self._document(request)
            match document:
                case {"model": str(name), **rest} if not rest:
                    job = self.jobs.scan_model(self._nameable(name.strip()))
                case {"fingerprint": dict() as given, **rest} if not rest:
                    job = self.jobs.scan_fingerprint(_fingerprint(given))
                case _:
                    return Problem(400, say("problem.serve-body"))
        except _RefusedRequest as refused:
            return refused.answer
        except QueueFull:
            return Problem(503, say("problem.serve-queue"), {"Retry-After": "30"})
        return json_answer({"id": job.id, **_told(job)}, 202)

    async def scan(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the state of a scan."""
        job = self._job(request)
        if job is None:
            return Problem(404, say("problem.serve-no-scan"))
        return json_answer({"id": job.id, **_told(job), "steps": job.steps})

    async def scan_result(self, request: Any) -> Any:  # noqa: ANN401
        """Answer with the result of a scan."""
        job = self._job(request)
        if job is None or job.result is None:
            return Problem(404, say("problem.serve-no-result"))
        return json_answer(to_json(job.result))

    async def scan_events(self, request: Any) -> Any:  # noqa: ANN401
        """Stream every step of a scan until it is over."""
        from starlette.responses import StreamingResponse

        job = self._job(request)
        if job is None:
            return Problem(404, say("problem.serve-no-scan"))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(job), headers=headers, media_type="text/event-stream")

    def _job(self, request: Any) -> ScanJob | None:  # noqa: ANN401
        return self.jobs.get(request.path_params["id"])

    # -- writing ---------------------------------------------------------------------------------------

    async def add_fingerprint(self, request: Any) -> Any:  # noqa: ANN401
        """Add a fingerprint to the registry: only with the token."""
        try:
            self._allowed(request, "token")
            made = _fingerprint(await self._document(request))
            if made.model.kind != "hub" or not is_hub_id(made.model.ref):
                # Whatever is in the registry is opened when the next atlas is made.
                return Problem(400, say("problem.serve-hub-fingerprint"))
            added = await asyncio.to_thread(self._add, made)
        except _RefusedRequest as refused:
            return refused.answer
        except ModelkinError as error:
            return Problem(409, told(error))
        return json_answer({"added": added})

    def _add(self, made: Fingerprint) -> int:
        return open_registry(self._registry).add([made], timeout=10.0)[1]

    # -- rules -----------------------------------------------------------------------------------------

    def _needs_token(self, who: str) -> bool:
        return who == "token" or (who == "scan" and self.access.scans != "all")

    def _allowed(self, request: Any, who: str) -> None:  # noqa: ANN401
        """Refuse whoever may not do this."""
        headers = request.headers
        if not self.access.is_own_page(headers):
            raise _RefusedRequest(Problem(403, say("problem.serve-page")))
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise _RefusedRequest(Problem(415, say("problem.serve-json")))
        if not self._needs_token(who):
            return
        if self.access.token is None:
            raise _RefusedRequest(Problem(403, say("problem.serve-no-token")))
        if not self.access.has_token(headers):
            raise _RefusedRequest(Problem(401, say("problem.serve-token"), {"WWW-Authenticate": "Bearer"}))

    async def _document(self, request: Any) -> dict[str, object]:  # noqa: ANN401
        """Read a body that is a JSON object, within a limit."""
        data = b""
        async for piece in request.stream():
            data += piece
            if len(data) > MOST_BYTES:
                raise _RefusedRequest(Problem(413, say("problem.most-bytes", most=MOST_BYTES)))
        try:
            return dict(strict_object(data))
        except JsonRefused as error:
            raise _RefusedRequest(Problem(400, say("problem.serve-object"))) from error

    def _nameable(self, name: str) -> str:
        """Return a reference that readers may have opened: a model of the Hub, the demo or the registry."""
        if name in self.index.atlas.models:
            return name
        if name.startswith("demo:") and name.removeprefix("demo:") in DEMO_MODELS:
            return name
        if is_hub_id(name):
            return f"hf:{name}"
        raise _RefusedRequest(Problem(400, say("problem.serve-hub-model")))


def _fingerprint(document: Mapping[str, object]) -> Fingerprint:
    try:
        return fingerprint_from_document(document)
    except ModelkinError as error:
        raise _RefusedRequest(Problem(400, told(error))) from error


def _told(job: ScanJob) -> dict[str, object]:
    found = plain_object({"subject": job.subject, "state": job.state, "problem": job.problem})
    return found | {"problem": None if job.problem is None else job.tell(job.problem)[:_LONGEST_PROBLEM]}


async def _events(job: ScanJob) -> AsyncIterator[str]:
    """Yield the steps of a scan as they come, and each change of its state."""
    told, state, waited = 0, "", 0.0
    while waited < _PATIENCE:
        over = job.is_over
        for number, text in enumerate(job.steps[told:], start=told):
            yield _event("step", {"number": number, "text": text})
            told = number + 1
        if job.state != state:
            state = job.state
            yield _event("state", _told(job))
        if over:
            return
        await asyncio.sleep(_TICK)
        waited += _TICK


def _event(kind: str, document: object) -> str:
    # This JSON has no line breaks, so no name can end an event.
    return f"event: {kind}\ndata: {dumps(plain(document), indent=None)}\n\n"
