"""Runs the application until it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from modelkin.atlas import Atlas
from modelkin.errors import MissingExtra
from modelkin.message import say
from modelkin.options import FetchOptions

from .access import ServeAccess
from .application import atlas_app

_MOST_AT_ONCE = 200
"""Connections; pages are small, and streams of events are few."""


def serve_atlas(
    atlas: Atlas,
    registry: str,
    *,
    access: ServeAccess,
    port: int,
    language: str = "en",
    fetch: FetchOptions | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve an atlas until the process is interrupted, without logs. Needs Starlette and uvicorn."""
    app = atlas_app(atlas, registry, access=access, language=language, fetch=fetch)
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        hint = say("hint.install", command="pip install 'modelkin[atlas]'")
        raise MissingExtra("atlas", say("problem.needs-server"), hint=hint) from error
    config = uvicorn.Config(
        app,
        host=access.host,
        port=port,
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=5,
        ws="none",
    )
    if ready is not None:
        ready()
    uvicorn.Server(config).run()
