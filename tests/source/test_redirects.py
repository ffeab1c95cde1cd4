"""Redirects: the token stays at home, and nobody outside leads this machine inside."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from tests.fuzz.redirects import HOMES, SEEDS, redirect_judge, some_location
from tests.support.answers import json_answer, send_answer, text_answer
from tests.support.loopback import Connection, Loopback, Request, RequestLog

from modelkin.errors import BadReference, NetworkError
from modelkin.source import ByteRange, ModelRef, address
from modelkin.source.address import Home, WebOrigin, is_inside, redirected
from modelkin.source.connections import Connections
from modelkin.source.hub import HubSource

from .support import TOKEN, everything_said, quick

COMMIT = "0123456789abcdef0123456789abcdef01234567"
N_TARGETS = 3_000


class Redirecting:
    """A Hub that lists one file and redirects its readers, and a second place that serves whoever comes."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.moved = ""
        self.log = RequestLog()
        self.other = Loopback(self._serve_other)
        self.hub = Loopback(self._serve_hub)

    def _serve_hub(self, connection: Connection, request: Request) -> bool:
        names = {"hub": self.hub.url[7:], "other": self.other.url[7:], "port": self.other.port}
        if request.target.startswith("/api/") and self.moved:
            answer = text_answer(307, "", {"Location": self.moved.format(**names)})
        elif request.target.startswith("/api/"):
            answer = json_answer({"sha": COMMIT, "siblings": [{"rfilename": "x.bin", "size": 4}]})
        else:
            answer = text_answer(302, "", {"Location": self.location.format(**names)})
        return send_answer(answer, connection, request, origin="hub", log=self.log)

    def _serve_other(self, connection: Connection, request: Request) -> bool:
        answer = text_answer(206, "abcd", {"Content-Range": "bytes 0-3/4"})
        return send_answer(answer, connection, request, origin="other", log=self.log)

    def read(self) -> bytes:
        source = HubSource("org/name", None, quick(endpoint=self.hub.url, token=TOKEN))
        try:
            return source.read_range(source.files()["x.bin"], ByteRange(0, 4))
        finally:
            source.close()

    @property
    def seen_elsewhere(self) -> list[str | None]:
        return [record.authorization for record in self.log.records() if record.origin == "other"]

    def close(self) -> None:
        self.hub.close()
        self.other.close()


@pytest.fixture
def redirecting() -> Iterator[object]:
    made: list[Redirecting] = []

    def make(location: str) -> Redirecting:
        made.append(Redirecting(location))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "location",
    ["http://{other}\\@{hub}/x", "http://{other}\\\\@{hub}/x", "//{other}\\@{hub}/x", "http:/{hub}\\{other}"],
)
def test_a_host_that_two_parsers_read_differently_gets_nothing(redirecting, location):
    server = redirecting(location)
    with pytest.raises(NetworkError, match="something that is not an address: it contains a backslash"):
        server.read()
    assert server.seen_elsewhere == []


@pytest.mark.parametrize("user", ["user:password@", "user@", "@", "{hub}@"])
def test_a_user_name_in_a_redirect_is_refused(redirecting, user):
    server = redirecting(f"http://{user}{{other}}/x")
    with pytest.raises(NetworkError, match=r"redirects to an address with a user name in it|not an address"):
        server.read()
    assert server.seen_elsewhere == []


@pytest.mark.parametrize("letter", ["\x00", "\x1b", "\x7f", "\x9b", "\x85"])
def test_control_characters_in_a_redirect_are_refused_and_not_shown(redirecting, letter):
    server = redirecting(f"http://{{other}}/{letter}[31m")
    with pytest.raises(NetworkError, match="something that is not an address") as caught:
        server.read()
    assert str(caught.value).isprintable()
    assert server.seen_elsewhere == []


def test_the_token_goes_to_no_other_port(redirecting):
    server = redirecting("http://{other}/x")
    assert server.read() == b"abcd"
    assert server.seen_elsewhere == [None]


@pytest.mark.parametrize(
    "location", ["http://{hub}\\@{other}/x", "http://{other}/x", "//{other}/x", "http://u@{hub}/x"]
)
def test_a_listing_that_moved_is_followed_inside_the_hub_alone(redirecting, location):
    server = redirecting("/nowhere")
    server.moved = location
    with pytest.raises(NetworkError, match="the Hub answered 307"):
        server.read()
    assert server.seen_elsewhere == []


def test_bytes_beyond_ascii_in_a_redirect_are_escaped(redirecting):
    server = redirecting("http://{other}/caf\xc3\xa9 b")
    assert server.read() == b"abcd"
    assert [record.path for record in server.log.records()][-1] == "/caf%C3%A9%20b"


@pytest.mark.more
def test_no_redirect_of_thousands_gets_the_token_or_leads_inside():
    rng = random.Random(7)
    with redirect_judge() as judge:
        for seed in SEEDS:
            for home in HOMES:
                judge.follow(home, seed)
        refused = sum(bool(judge.follow(rng.choice(HOMES), some_location(rng))) for _ in range(N_TARGETS))
        assert N_TARGETS / 4 < refused < N_TARGETS * 3 / 4, "some are followed, some are not"
        assert judge.n_followed > N_TARGETS / 20
        assert judge.n_with_token > N_TARGETS / 100, "at home the token is still sent"


def test_secrets_cannot_be_passed_by_as_headers():
    connections = Connections(quick(), Home("http://hub.example"))
    with pytest.raises(ValueError, match="secrets belong to the home"):
        connections.get("http://hub.example/x", {"Authorization": "Bearer x"})


def test_a_home_shows_no_secret():
    assert repr(Home("https://hub.example", {"Authorization": TOKEN})) == "Home('https://hub.example:443')"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://evil\\@hub/x", ("http", "evil", 80)),
        ("HTTPS://Hub.Example:8443/x", ("https", "hub.example", 8443)),
        ("https://[::1]/x", ("https", "::1", 443)),
        ("http://hub:0/", ("http", "hub", 0)),
    ],
)
def test_an_origin_is_what_the_connection_will_be(url, origin):
    found = WebOrigin.of(url)
    assert (found.scheme, found.host, found.port) == origin


@pytest.mark.parametrize("url", ["gopher://x/", "http://", "/x", "http://[", "http://host:99999/"])
def test_what_has_no_origin_is_refused(url):
    with pytest.raises(ValueError, match=r"no scheme of the web|arse|Failed"):
        WebOrigin.of(url)


def test_a_relative_redirect_stays_at_its_host():
    assert redirected("https://hub.example/a/b?c", "d") == "https://hub.example/a/d"
    assert redirected("https://hub.example/a/b?c", "?d") == "https://hub.example/a/b?d"


def test_a_reference_with_a_backslash_is_refused():
    with pytest.raises(BadReference, match="a URL must not contain a backslash"):
        ModelRef.parse("http://evil\\@hub/model.safetensors")


# -- private networks -----------------------------------------------------------------------------------

INSIDE = [
    *("127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1"),
    *("fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::"),
    *("64:ff9b::a00:1", "64:ff9b:1::808:808", "::127.0.0.1", "::ffff:0:10.0.0.1"),
    *("localhost", "LOCALHOST.", "db.internal", "printer.local", "a.localhost"),
]


@pytest.mark.parametrize("host", INSIDE)
def test_addresses_inside_are_known(host):
    assert is_inside(host) is True


@pytest.mark.parametrize("host", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_addresses_outside_are_known(host):
    assert is_inside(host) is False


@pytest.mark.parametrize("host", ["hub.example", "localhost.example", "2130706433", "internal"])
def test_a_name_is_judged_by_what_it_means(host):
    assert is_inside(host) is None


@pytest.fixture
def public_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 127.0.0.1 count as a public address; 127.0.0.2 stays inside."""
    judged = address.is_inside
    monkeypatch.setattr(address, "is_inside", lambda host: False if host == "127.0.0.1" else judged(host))


@pytest.mark.usefixtures("public_loopback")
@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", "[::1]", "10.0.0.1", "169.254.169.254"])
def test_a_public_hub_does_not_lead_into_a_private_network(redirecting, host):
    server = redirecting(f"http://{host}:{{port}}/x")
    with pytest.raises(NetworkError, match="redirects into a private network") as caught:
        server.read()
    assert "name the internal server" in (caught.value.hint or "")
    assert TOKEN not in everything_said(caught.value)
    assert server.seen_elsewhere == []


def test_a_hub_inside_may_redirect_inside(redirecting):
    server = redirecting("http://127.0.0.2:{port}/x")
    server.other.close()
    with pytest.raises(NetworkError, match="no connection"):
        server.read()


def test_a_name_that_means_an_address_inside_is_refused_before_it_is_dialled():
    with redirect_judge() as judge:
        said = judge.follow("https://hub.example", "https://inside.example/x")
        assert "redirects into a private network (10.11.12.13)" in said
        assert len(judge._dialled) == 1


def test_a_name_that_means_something_else_by_the_time_of_dialling_is_sent_nothing(monkeypatch):
    from tests.support import wiretap

    with redirect_judge() as judge:
        monkeypatch.setattr(wiretap, "meaning", _Turning())
        said = judge.follow("https://hub.example", "https://rebound.example/x")
        assert "redirects into a private network (10.0.0.7)" in said
        assert [bool(made.sent) for made in judge._dialled] == [True, False]


class _Turning:
    """A name that is public when it is asked for and private when it is dialled."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self, host: str) -> str:
        self._asked += host.startswith("rebound")
        return "10.0.0.7" if host.startswith("rebound") and self._asked > 1 else "93.184.216.34"
