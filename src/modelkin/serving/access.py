"""Who may do what on a server: everybody reads, a token writes."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from modelkin.errors import UsageError
from modelkin.message import say

SHORTEST_TOKEN = 16
"""Characters: what can be guessed in a weekend is not a token."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeAccess:
    """What a server allows. The token is in no repr, page, answer or log."""

    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and not (
            len(self.token) >= SHORTEST_TOKEN and self.token.isascii() and self.token.isprintable()
        ):
            raise UsageError("token", say("problem.token-short", least=SHORTEST_TOKEN))

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        return self.host in _LOOPBACK

    @property
    def scans(self) -> Literal["all", "token", "none"]:
        """Who may scan: it reads models on the server's behalf, so outsiders need the token."""
        if self.token is not None:
            return "token"
        return "all" if self.is_local else "none"

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request carries the token."""
        if self.token is None:
            return False
        kind, _, given = headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        return kind.lower() == "bearer" and same

    def is_own_host(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request names this server: others can point their own host name at this machine."""
        if not self.is_local:
            return True
        name = headers.get("host", "")
        host = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        return host.lower() in _LOOPBACK

    def is_own_page(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request comes from a page of this server, or from no page at all."""
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin is None or origin.partition("://")[2] == headers.get("host")
