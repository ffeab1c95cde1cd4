"""Asks an ASGI application without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One application."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, b"", headers)

    def post(self, path: str, document: object, **headers: str) -> Answer:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask("POST", path, body, {"content-type": "application/json", **headers})

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        return asyncio.run(self._asked(method, path, body, headers))

    async def _asked(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        place, _, query = path.partition("?")
        given = {
            "host": "127.0.0.1:8765",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": place,
            "raw_path": quote(place).encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "server": ("127.0.0.1", 8765),
            "client": ("127.0.0.1", 1),
        }
        sent: list[dict[str, Any]] = []
        pieces = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if pieces:
                return pieces.pop(0)
            await asyncio.sleep(60)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = sent[0]
        return Answer(
            status=start["status"],
            headers={name.decode(): value.decode() for name, value in start["headers"]},
            body=b"".join(message.get("body", b"") for message in sent[1:]),
        )
