"""How a test Hub behaves: who may read what, how long things take, what goes wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ._request_log import Origin


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
    delays: Delays = field(default_factory=Delays)
    tls: bool = False
    """Speak https on both origins (needs trustme); clients need `client_tls` or `certificate_pem`."""
