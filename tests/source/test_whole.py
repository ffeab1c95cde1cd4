"""Published digests: checked whenever every byte of a file was read, and only then called verified."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterator

import pytest
from tests.support import HubServer
from tests.support.hub_repo import RepoState

from modelkin.errors import WrongBytes
from modelkin.source import ByteRange, Fetcher, FileInfo, RangeStore
from modelkin.source._whole import WholeFiles
from modelkin.source.hub import HubSource

from .support import quick

CONFIG = b'{"model_type": "llama"}'
SMALL = random.Random(1).randbytes(300_000)
LARGE = random.Random(2).randbytes(5 << 20)  # more than is kept of what comes out of order
FILES = {"config.json": CONFIG, "small.bin": SMALL, "large.bin": LARGE}


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer({"org/name": FILES}) as server:
        yield server


def reading(hub: HubServer, store: RangeStore | None = None, **options: object) -> Fetcher:
    settings = quick(endpoint=hub.url, **options)
    return Fetcher(HubSource("org/name", None, settings, store=store), settings, store=store)


def states(fetcher: Fetcher) -> dict[str, str]:
    return {item.file: item.state for item in fetcher.ledger.files()}


def replace_served(hub: HubServer, name: str, data: bytes) -> None:
    """Let the server deliver other bytes of the same length under the digests of the old ones."""
    state: RepoState = hub._repos["org/name"]
    tree = state.tree(hub.commit("org/name"))
    object.__setattr__(tree[name], "source", data)


@pytest.mark.parametrize("name", ["config.json", "small.bin"])
def test_a_file_read_whole_is_verified(hub, name):
    with reading(hub) as fetcher:
        assert fetcher.read_file(name, limit=1 << 20) == FILES[name]
        assert states(fetcher) == {name: "verified"}


@pytest.mark.parametrize("name", ["config.json", "small.bin", "large.bin"])
def test_one_byte_changed_on_the_way_is_noticed(hub, name):
    changed = bytearray(FILES[name])
    changed[-3] ^= 1
    replace_served(hub, name, bytes(changed))
    kind = "git blob id" if name == "config.json" else "SHA-256"
    with reading(hub) as fetcher:
        with pytest.raises(WrongBytes, match=f"bytes were read, and their {kind} is [0-9a-f]+, not the pub"):
            fetcher.read_file(name, limit=1 << 30)
        assert states(fetcher) == {name: "whole"}, "not verified"


def test_what_does_not_have_its_digest_is_not_kept(hub, store):
    replace_served(hub, "small.bin", SMALL[::-1])
    with reading(hub, store) as fetcher, pytest.raises(WrongBytes, match="not the published"):
        fetcher.read_file("small.bin", limit=1 << 30)
    replace_served(hub, "small.bin", SMALL)
    with reading(hub, store) as fetcher:
        assert fetcher.read_file("small.bin", limit=1 << 30) == SMALL
        assert fetcher.totals().cache_hits == 0


def test_what_is_read_in_parts_is_sampled_until_the_last_part(hub):
    parts = [ByteRange(0, 100_000), ByteRange(200_000, 300_000), ByteRange(100_000, 200_000)]
    with reading(hub, max_gap=0) as fetcher:
        for number, part in enumerate(parts):
            fetcher.fetch({"small.bin": [part]})
            assert states(fetcher) == {"small.bin": "verified" if number == 2 else "sampled"}


def test_a_large_file_is_verified_when_it_is_walked_through(hub):
    step = 1 << 20
    walk = [("large.bin", ByteRange(at, min(at + step, len(LARGE)))) for at in range(0, len(LARGE), step)]
    with reading(hub, piece_bytes=step) as fetcher:
        fetcher.fetch({"large.bin": [ByteRange(0, 1000), ByteRange(3 << 20, 3 << 20 | 5)]})
        assert b"".join(bytes(piece) for piece in fetcher.stream(walk)) == LARGE
        assert states(fetcher) == {"large.bin": "verified"}


def test_a_large_file_read_out_of_order_is_whole_and_not_called_verified(hub):
    half = len(LARGE) // 2
    with reading(hub) as fetcher:
        fetcher.fetch({"large.bin": [ByteRange(half, len(LARGE))]})
        fetcher.fetch({"large.bin": [ByteRange(0, half)]})
        assert states(fetcher) == {"large.bin": "whole"}


def test_what_the_store_gives_back_is_verified_too(hub, store):
    for _ in range(2):
        with reading(hub, store) as fetcher:
            fetcher.read_file("small.bin", limit=1 << 30)
            assert states(fetcher) == {"small.bin": "verified"}
    assert fetcher.totals().bytes_fetched == 0


def pieces(data: bytes, *extents: tuple[int, int]) -> list[tuple[ByteRange, memoryview]]:
    return [(ByteRange(*extent), memoryview(data)[slice(*extent)]) for extent in extents]


def test_pieces_in_any_order_and_overlapping_make_the_digest():
    rng = random.Random(3)
    for _ in range(200):
        data = rng.randbytes(rng.randrange(1, 200))
        file = FileInfo(name="x", size=len(data), sha256=hashlib.sha256(data).hexdigest())
        cuts = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(5))})
        extents = [
            (max(0, a - rng.randrange(3)), min(len(data), b + rng.randrange(3)))
            for a, b in itertools.pairwise(cuts)
        ]
        rng.shuffle(extents)
        whole = WholeFiles()
        said = [whole.add(file, pieces(data, extent)) for extent in extents]
        assert said[-1]


def test_memory_for_what_comes_out_of_order_is_bounded():
    data = bytes(1 << 20)
    whole = WholeFiles()
    for number in range(64):
        file = FileInfo(name=str(number), size=len(data), sha256="0" * 64)
        whole.add(file, pieces(data, (1, len(data))))
    assert whole._held <= 16 << 20


def test_a_blob_id_of_a_pointer_is_not_taken_for_the_file(hub):
    files = reading(hub).source.files()
    assert files["small.bin"].git_sha1 is None
    assert files["small.bin"].sha256 is not None
    assert files["config.json"].git_sha1 is not None
