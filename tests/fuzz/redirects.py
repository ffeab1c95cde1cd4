"""Redirect targets that try to get a token or to get inside, and a judge that watches the connections."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.wiretap import Dialled, wiretap

from modelkin.errors import ModelkinError
from modelkin.options import FetchOptions
from modelkin.source import ByteRange
from modelkin.source.address import Home
from modelkin.source.http_client import RangeClient
from modelkin.source.interface import ByteBudget
from modelkin.source.remote import RemoteFile

TOKEN = "hf_the-token-of-these-tests"
HOMES = ("https://hub.example", "http://hub.example", "https://hub.example:8443", "http://hub.example:8080/x")
SEEDS = (
    "https://evil.example/x",
    "//evil.example/x",
    "/elsewhere",
    "?again",
    "http://evil.example\\@hub.example/x",
    "https://evil.example\\@hub.example/x",
    "https://hub.example\\@evil.example/x",
    "https://hub.example@evil.example/x",
    "https://evil.example#@hub.example/x",
    "https://evil.example?@hub.example/x",
    "https://evil.example;@hub.example/x",
    "https://hub.example.evil.example/x",
    "https://hub.example:80@evil.example/",
    "https://evil.example%2f@hub.example/",
    "https://evil.example%5c@hub.example/",
    "https://[::ffff:127.0.0.1]/x",
    "https://127.0.0.1:8443/x",
    "http://169.254.169.254/latest/meta-data",
    "http://[fe80::1%25eth0]/",
    "https://inside.example/x",
    "https://localhost/x",
    "https://2130706433/x",
    "https:hub.example",
    "https:///hub.example",
    "/\\evil.example/x",
    "\\\\evil.example/x",
    "HTTPS://HUB.EXAMPLE/x",
    "https://hub.example./x",
    "https://hub.example:0443/x",
    "https://xn--hub-example/x",
)
PARTS = (
    *("\\", "/", "//", "@", ":", "#", "?", ";", "%", "%2f", "%5c", "%40", "%00", "%0d%0a", " ", "\t", "."),
    *("..", "[", "]", "[::1]", "0", "443", "80", ":8443", "evil.example", "hub.example", "user:pw@", "&"),
    *("http:", "https:", "HTTPS:", "file:", "\x00", "\x1b[31m", "\x7f", "\x85", "\xa0", "\xe9", "\xff"),
    *("\u2044".encode().decode("latin-1"), "\u3002".encode().decode("latin-1"), "127.0.0.1", "inside"),
)


def some_location(rng: random.Random, seeds: tuple[str, ...] = SEEDS) -> str:
    """Return a target with a few parts put in, taken out, doubled or exchanged."""
    text = rng.choice(seeds)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        here, there = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        match rng.randrange(5):
            case 0 | 1:
                text = text[:here] + rng.choice(PARTS) + text[here:]
            case 2:
                text = text[:here] + rng.choice(PARTS) + text[here + rng.randrange(1, 4) :]
            case 3:
                text = text[:here] + text[here:there] * 2 + text[there:]
            case _:
                text = text[:here] + text[min(there, here + rng.randrange(1, 9)) :]
    return text[:400]


class RedirectJudge:
    """Follows redirects over a tapped wire and says what was given away."""

    def __init__(self, dialled: list[Dialled], answers: dict[str, bytes]) -> None:
        self._dialled = dialled
        self._answers = answers
        self._clients: dict[str, RangeClient] = {}
        self.n_followed = 0
        self.n_with_token = 0

    def follow(self, home: str, location: str) -> str:
        """Let the server at home redirect; return the refusal, or ""."""
        self._dialled.clear()
        self._answers["location"] = location.encode("latin-1", "replace")
        if home not in self._clients:
            owner = Home(home, {"Authorization": f"Bearer {TOKEN}"})
            self._clients[home] = RangeClient(FetchOptions(retries=0, token=False), ByteBudget(), home=owner)
        said = ""
        try:
            RemoteFile(f"{home}/file", self._clients[home], headers={}).read(ByteRange(0, 4))
        except ModelkinError as error:
            said = str(error)
            assert said.isprintable(), said
            assert TOKEN not in said
        self._watch(home)
        return said

    def _watch(self, home: str) -> None:
        first = self._dialled[0].place
        for number, made in enumerate(self._dialled):
            if TOKEN.encode() in made.sent:
                assert made.place == first, f"the token of {home} went to {made.place}"
                self.n_with_token += number > 0
            if made.sent and number and made.place != first:
                self.n_followed += 1
                address = ipaddress.ip_address(made.address)
                assert address.is_global, f"{home} led to {made.address}"
            lines = bytes(made.sent).split(b"\r\n\r\n")[0].split(b"\r\n")
            names = [line.partition(b":")[0].lower() for line in lines[1:]]
            assert len(names) == len(set(names)), "a header was smuggled in"


@contextmanager
def redirect_judge() -> Iterator[RedirectJudge]:
    """Tap the wire; the first connection of each follow-up is redirected, the others deliver."""
    answers: dict[str, bytes] = {}

    def answer(made: Dialled) -> bytes:
        if made is dialled[0]:
            head = b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: "
            return head + answers["location"] + b"\r\n\r\n"
        return (
            b"HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Length: 4\r\n"
            b"Content-Range: bytes 0-3/9\r\n\r\nabcd"
        )

    with wiretap(answer) as found:
        dialled: Any = found
        yield RedirectJudge(found, answers)
