"""Addresses as urllib3 reads them: which ones may be sent secrets, and which networks they lie in."""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from modelkin.errors import NetworkError
from modelkin.message import Refusal, say
from modelkin.untrusted import quoted, visible

_PORTS = {"http": 80, "https": 443}  # where none is given
# ASCII without spaces, controls and letters.
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in string.ascii_letters)
_HERE = ("localhost", ".localhost", ".local", ".internal")


@dataclass(frozen=True, slots=True)
class WebOrigin:
    """Scheme, host and port: all three decide whether a secret may be sent."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> WebOrigin:
        r"""Take an address apart as urllib3 does, which is what connects; `ValueError` without a web host.

        `urllib.parse` sees the host ``hub`` in ``http://evil\@hub``, urllib3 sees ``evil``.
        """
        from urllib3.util import parse_url

        parts = parse_url(url)
        scheme, host = parts.scheme or "", parts.host
        if scheme not in _PORTS or not host:
            raise ValueError(f"{quoted(scheme, 20)} is no scheme of the web, or there is no host")
        return cls(scheme, host.strip("[]").lower(), _PORTS[scheme] if parts.port is None else parts.port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return visible(f"{self.scheme}://{host}:{self.port}")


class Home:
    """The server that a model's files belong to: only it is sent the secrets.

    These are headers such as ``Authorization``. No request carries them until its connection is known.
    """

    def __init__(self, url: str, secrets: Mapping[str, str] | None = None) -> None:
        try:
            self.origin: WebOrigin | None = WebOrigin.of(url)
        except ValueError:  # reported when a request is made
            self.origin = None
        self._secrets = dict(secrets or {})
        self._inside = None if self.origin is None else is_inside(self.origin.host)

    def __repr__(self) -> str:
        return f"Home({str(self.origin)!r})"

    @property
    def has_secrets(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._secrets)

    def secrets_for(self, origin: WebOrigin) -> Mapping[str, str]:
        """Return the secrets that a connection may carry."""
        return self._secrets if origin == self.origin else {}

    def check(self, origin: WebOrigin, address: str) -> None:
        """Check the address that a host has, or seems to have, before anything is sent to it.

        A server of the public web must not be able to make this machine ask what only this machine reaches:
        its own services, its neighbours, the metadata of a cloud. Raises `NetworkError` for an address inside
        a network that the home is not part of.
        """
        inside = is_inside(address)
        if origin == self.origin:
            if self._inside is None:
                self._inside = inside
            return
        if inside and not self._inside:
            raise NetworkError(
                str(origin),
                say("problem.private-redirect", address=visible(address[:60])),
                hint=say("hint.inside"),
            )


def is_inside(host: str) -> bool | None:
    """Say whether an address belongs to this machine or its network, or is reserved; None for most names."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0].strip("[]"))
    except ValueError:
        name = host.lower().rstrip(".")
        return True if name == _HERE[0] or name.endswith(_HERE[1:]) else None
    if isinstance(address, ipaddress.IPv6Address):
        # An IPv6 address that stands for an IPv4 one is judged as that one.
        teredo = address.teredo
        meant = address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)
        if meant is None and any(address in network for network in _TRANSLATED):
            meant = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _TRANSLATED_INSIDE:
            return True
        if meant is not None:
            return not meant.is_global or meant.is_multicast
    return not address.is_global or address.is_multicast


_TRANSLATED = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
"""Networks whose addresses end in an IPv4 address."""
_TRANSLATED_INSIDE = ipaddress.IPv6Network("64:ff9b:1::/48")
"""For translation inside one network; older Pythons take it for public."""


def redirected(url: str, location: str) -> str:
    """Return where a redirect leads, or refuse an address that two programs might read differently."""
    if any(letter == "\\" or letter < " " or "\x7f" <= letter < "\xa0" for letter in location):
        raise Refusal(say("problem.odd-characters"))
    # Bytes beyond ASCII are not allowed either, but servers send them and all clients escape them alike.
    plain = quote(location, safe=_PRINTABLE, encoding="latin-1", errors="replace")
    from urllib3.util import parse_url

    try:
        target = urljoin(url, plain)
        parts = parse_url(target)
    except ValueError:
        raise Refusal(say("problem.no-address")) from None
    if parts.scheme not in _PORTS or not parts.host:
        raise Refusal(say("problem.address-kind", kind=quoted(parts.scheme or "", 20)))
    if parts.auth is not None or "@" in urlsplit(target).netloc:
        raise Refusal(say("problem.address-user"))
    return target
