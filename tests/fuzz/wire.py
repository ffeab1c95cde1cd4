"""What servers do: redirects, answers of any bytes, faults over real sockets; and damage to the store."""

from __future__ import annotations

import contextlib
import hashlib
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from tests.support import BadServer, Fault
from tests.support.wiretap import Dialled, wiretap

from modelkin.errors import SourceError
from modelkin.options import FetchOptions
from modelkin.source import ByteRange, RangeStore
from modelkin.source import retry as retry_module
from modelkin.source.address import Home
from modelkin.source.http_client import RangeClient
from modelkin.source.interface import ByteBudget
from modelkin.source.remote import RemoteFile
from modelkin.source.store import StoreKey

from .engine import Target
from .files import checked
from .redirects import HOMES, PARTS, SEEDS, RedirectJudge, redirect_judge

DATA = random.Random(5).randbytes(5_000)
WANTED = ByteRange(100, 140)


# -- redirects -------------------------------------------------------------------------------------------

_judges: list[RedirectJudge] = []


@contextlib.contextmanager
def _judging() -> Iterator[None]:
    with redirect_judge() as judge:
        _judges.append(judge)
        yield
        _judges.remove(judge)


def _redirect(data: bytes) -> bool:
    """The first byte chooses the home."""
    home = HOMES[data[0] % len(HOMES)] if data else HOMES[0]
    return not _judges[-1].follow(home, data[1:600].decode("latin-1"))


# -- answers ---------------------------------------------------------------------------------------------

_answers: dict[str, bytes] = {}
_GOOD = (
    b"HTTP/1.1 206 Partial Content\r\nContent-Length: 40\r\nContent-Range: bytes 100-139/5000\r\n"
    b'ETag: "abc"\r\n\r\n' + DATA[100:140]
)
_CHUNKED = (
    b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Range: bytes 100-139/5000\r\n\r\n10\r\n"
    + DATA[100:116]
    + b"\r\n18;x=y\r\n"
    + DATA[116:140]
    + b"\r\n0\r\nX-T: 1\r\n\r\n"
)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    def answer(_: Dialled) -> bytes:
        return _answers["now"]

    with wiretap(answer), mock.patch.object(retry_module, "FIRST_WAIT", 0.0):
        yield


def _answer(data: bytes) -> bool:
    _answers["now"] = data
    options = FetchOptions(token=False, retries=1, max_wait=0.001)
    client = RangeClient(options, ByteBudget(), home=Home("http://hub.example"))
    try:
        reply = RemoteFile("http://hub.example/x", client, headers={}).read(WANTED)
    except SourceError as error:
        checked(error)
        return False
    finally:
        client.close()
    assert len(reply.body) == WANTED.length
    assert client.traffic.bytes_received <= 2 * (1 << 20) + 2 * WANTED.length
    return True


def _answer_seeds() -> Sequence[bytes]:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + DATA
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://cdn.example/y\r\nContent-Length: 0\r\n\r\n"
    return [
        _GOOD,
        _CHUNKED,
        whole,
        hint + _GOOD,
        moved,
        b"HTTP/1.0 404 No\r\n\r\n",
        b"HTTP/1.1 429 x\r\n\r\n",
    ]


_HTTP = (
    *(b"HTTP/1.1 ", b"HTTP/1.0 ", b"206 ", b"200 ", b"416 ", b"304 ", b"103 x\r\n\r\n", b"\r\n", b"\r\n\r\n"),
    *(
        b"Content-Length: ",
        b"Content-Range: bytes ",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
    ),
    *(
        b"Content-Encoding: gzip\r\n",
        b"Retry-After: 1e9\r\n",
        b"ETag: W/",
        b"-1\r\n",
        b"ffffffffffffffff\r\n",
    ),
    *(b"0\r\n", b"*/", b"100-139/5000", b"\0", b"\x1b[31m", b"Location: http://127.0.0.1/\r\n", b"9" * 30),
)

# -- faults over sockets ---------------------------------------------------------------------------------

_ENDING = [fault for fault in Fault if "stall" not in fault.value and "drip" not in fault.value]


def _fault(data: bytes) -> bool:
    """Four bytes: which fault, after how many good answers, how often, and where to read."""
    fault, after, times, place = data.ljust(4, b"\0")[:4]
    which = _ENDING[fault % len(_ENDING)]
    wanted = ByteRange(place * 15, place * 15 + 700)
    options = FetchOptions(token=False, retries=3, stall_timeout=0.5, max_wait=0.5, connections=2)
    with (
        mock.patch.object(retry_module, "FIRST_WAIT", 0.001),
        BadServer(DATA, which, after=after % 3, times=1 + times % 4, retry_after=0) as server,
    ):
        client = RangeClient(options, ByteBudget(), home=Home(server.url()))
        file = RemoteFile(server.url(), client, headers={})
        delivered = True
        try:
            for _ in range(3):
                try:
                    body = file.read(wanted).body
                except SourceError as error:
                    checked(error)
                    delivered = False
                    continue
                honest = which not in (Fault.OTHER_BYTES, Fault.ENORMOUS_BODY, Fault.ENDLESS_BODY)
                assert not honest or body == DATA[wanted.start : wanted.stop]
        finally:
            client.close()
    return delivered


# -- the store -------------------------------------------------------------------------------------------

_KEY = StoreKey(origin="https://hub", revision="c", file="f", etag="e")
_EXTENTS = (ByteRange(0, 300), ByteRange(300, 900), ByteRange(200, 500), ByteRange(4_000, 5_000))


def _store(data: bytes) -> bool:
    """Each four bytes damage one file of the store; whatever it gives back then must be right."""
    with tempfile.TemporaryDirectory() as folder:
        store = RangeStore(Path(folder), limit=1 << 20)
        for extent in _EXTENTS:
            store.save(_KEY, extent, DATA[extent.start : extent.stop])
        store.write_record("k", value={"a": 1})
        for start in range(0, len(data) - 3, 4):
            files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
            _damage(files[data[start] % len(files)], *data[start + 1 : start + 4])
        for extent, digest, held in store.load(_KEY, [ByteRange(0, 5_000)]):
            assert held == DATA[extent.start : extent.stop] or _is_named(held, digest)
        assert store.read_record("k") in (None, {"a": 1})
        store.save(_KEY, _EXTENTS[0], DATA[:300])
        store.evict()
        return bool(store.extents(_KEY))


def _is_named(held: bytes, digest: str) -> bool:
    """A name of a range that was changed by hand leads to other bytes; they are what their name says."""
    return hashlib.sha256(held).hexdigest() == digest


def _damage(path: Path, how: int, place: int, value: int) -> None:
    kept = bytearray(path.read_bytes())
    match how % 5:
        case 0:
            path.unlink()
        case 1 if kept:
            kept[place % len(kept)] ^= value or 1
            path.write_bytes(kept)
        case 2:
            path.write_bytes(kept[: place % (len(kept) + 1)])
        case 3:
            path.write_bytes(kept + bytes(value))
        case _:
            path.replace(path.with_name(f"{path.name[:-1]}{value % 10}"))


TARGETS = (
    Target(
        name="redirect",
        run=_redirect,
        seeds=lambda: [bytes([home]) + seed.encode("latin-1") for home in range(4) for seed in SEEDS],
        words=tuple(part.encode("latin-1") for part in PARTS),
        watched=("source",),
        around=_judging,
    ),
    Target(
        name="answer",
        run=_answer,
        seeds=_answer_seeds,
        words=_HTTP,
        watched=("source",),
        around=_answering,
    ),
    Target(
        name="fault",
        run=_fault,
        seeds=lambda: [bytes([number, 0, 1, 3]) for number in range(len(_ENDING))],
        watched=("source",),
        patience=60.0,
        share=1.0,
    ),
    Target(
        name="store",
        run=_store,
        seeds=lambda: [bytes([number, kind, 7, 9]) for number in range(8) for kind in range(5)],
        watched=("source/store",),
        share=0.5,
    ),
)
