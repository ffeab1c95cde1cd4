"""The store of ranges: what it gives back is what was put in, whatever happens to its files and processes."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import filelock
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from modelkin.errors import SourceError
from modelkin.source import ByteRange, RangeStore
from modelkin.source import store as store_module
from modelkin.source.store import StoreKey

from .support import bytes_below

KEY = StoreKey(origin="https://hub/org/model", revision="a" * 40, file="model.safetensors", etag="e1")
DATA = random.Random(1).randbytes(10_000)


def save(store: RangeStore, start: int, stop: int, key: StoreKey = KEY, data: bytes = DATA) -> None:
    store.save(key, ByteRange(start, stop), data[start:stop])


def held(store: RangeStore, key: StoreKey = KEY) -> dict[tuple[int, int], bytes]:
    everything = [ByteRange(0, 1 << 62)]
    return {(extent.start, extent.stop): data for extent, _, data in store.load(key, everything)}


def objects(store: RangeStore) -> list[Path]:
    return sorted(path for path in (store.root / "v1" / "objects").rglob("*") if path.is_file())


# -- what is put in comes out ---------------------------------------------------------------------------


def test_a_range_comes_back_with_its_digest(store):
    save(store, 100, 300)
    assert list(store.load(KEY, [ByteRange(150, 160)])) == [
        (ByteRange(100, 300), hashlib.sha256(DATA[100:300]).hexdigest(), DATA[100:300])
    ]
    assert store.extents(KEY) == [ByteRange(100, 300)]


def test_only_ranges_that_overlap_are_loaded(store):
    save(store, 0, 100)
    save(store, 500, 600)
    assert [extent for extent, _, _ in store.load(KEY, [ByteRange(100, 501)])] == [ByteRange(500, 600)]


@pytest.mark.parametrize("part", ["origin", "revision", "file", "etag"])
def test_every_part_of_the_key_counts(store, part):
    save(store, 0, 100)
    fields = {name: getattr(KEY, name) for name in ("origin", "revision", "file", "etag")}
    assert held(store, StoreKey(**{**fields, part: "other"})) == {}
    assert held(store, StoreKey(**{**fields, part: None})) == {} if part in ("revision", "etag") else True


def test_keys_cannot_be_confused_by_moving_a_border(store):
    one = StoreKey(origin="a", revision="b", file="c", etag="d")
    other = StoreKey(origin='a", "b', revision=None, file="c", etag="d")
    assert one.digest() != other.digest()


def test_another_repository_that_claims_the_same_etag_gets_and_gives_nothing(store):
    """A poisoned claim: the bytes differ, the digest that is claimed for them does not."""
    poison = StoreKey(origin="https://hub/evil/model", revision="a" * 40, file=KEY.file, etag=KEY.etag)
    store.save(poison, ByteRange(0, 100), b"x" * 100)
    assert held(store) == {}
    save(store, 0, 100)
    assert held(store) == {(0, 100): DATA[:100]}
    assert held(store, poison) == {(0, 100): b"x" * 100}


def test_equal_bytes_are_kept_once(store):
    save(store, 0, 100)
    save(store, 0, 100, StoreKey(origin="elsewhere", revision=None, file="f", etag="e"))
    assert len(objects(store)) == 1
    assert (store.info().n_objects, store.info().n_files) == (1, 2)


def test_what_does_not_fit_its_range_is_not_kept(store):
    store.save(KEY, ByteRange(0, 100), b"short")
    store.save(KEY, ByteRange(5, 5), b"")
    assert held(store) == {}
    assert not (store.root / "v1").exists()


def test_records_come_back_under_their_key_only(store):
    store.write_record("listing", "hub", None, value={"a": 1})
    assert store.read_record("listing", "hub", None) == {"a": 1}
    assert store.read_record("listing", "hub", "x") is None
    store.write_record("listing", "hub", None, value={"a": 2})
    assert store.read_record("listing", "hub", None) == {"a": 2}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"key": ["other"], "value": {}}', '{"key": ["k"], "value": 3}', "[" * 9999]
)
def test_a_damaged_record_is_none(store, text):
    store.write_record("k", value={"a": 1})
    (path,) = (store.root / "v1" / "records").rglob("*.json")
    path.write_text(text)
    assert store.read_record("k") is None


# -- damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flip", "truncate", "grow", "empty", "delete", "directory"])
def test_damage_is_a_miss_and_is_mended_by_the_next_save(store, damage):
    save(store, 0, 100)
    (path,) = objects(store)
    if damage == "flip":
        path.write_bytes(b"\x00" + path.read_bytes()[1:])
    elif damage == "truncate":
        path.write_bytes(path.read_bytes()[:50])
    elif damage == "grow":
        path.write_bytes(path.read_bytes() + b"more")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "delete":
        path.unlink()
    else:
        path.unlink()
        path.mkdir()
    assert held(store) == {}
    if damage == "directory":
        path.rmdir()
    assert store.extents(KEY) == []
    save(store, 0, 100)
    assert held(store) == {(0, 100): DATA[:100]}


def test_an_object_that_grew_to_gigabytes_is_not_read(store, monkeypatch):
    save(store, 0, 100)
    (path,) = objects(store)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # sparse: costs no disk
    assert held(store) == {}


def test_strange_files_among_the_ranges_are_passed_over(store):
    save(store, 0, 100)
    folder = next(path.parent for path in (store.root / "v1" / "ranges").rglob("0-100-*"))
    for name in ("junk", "5-3-" + "a" * 64, "0-50-" + "A" * 64, f"{10**30}-{10**31}-{'a' * 64}"):
        (folder / name).touch()
    assert held(store) == {(0, 100): DATA[:100]}


def test_half_written_things_are_ignored_and_swept_away_when_they_are_old(store):
    save(store, 0, 100)
    fresh, old = (store.root / "v1" / "tmp" / name for name in ("fresh", "old"))
    fresh.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    assert held(store) == {(0, 100): DATA[:100]}
    store.limit = 1
    store.evict()
    assert fresh.exists()
    assert not old.exists()


def test_what_killed_processes_left_is_counted_and_removed_by_the_next_one(store):
    save(store, 0, 100)
    left = store.root / "v1" / "tmp" / "left"
    left.write_bytes(bytes(1_000))
    found = store.info()
    assert (found.n_drafts, found.draft_bytes, found.n_bytes) == (1, 1_000, 1_100)
    os.utime(left, (time.time() - 7200,) * 2)
    next_one = RangeStore(store.root, limit=store.limit)
    save(next_one, 100, 200)
    assert not left.exists(), "long before the store is full"
    assert next_one.info().n_drafts == 0


def test_half_written_things_take_room(tmp_path):
    store = RangeStore(tmp_path / "s", limit=1_000)
    save(store, 0, 400)
    (store.root / "v1" / "tmp" / "fresh").write_bytes(bytes(500))
    other = RangeStore(tmp_path / "s", limit=1_000)
    save(other, 400, 800)
    assert other.info().n_bytes <= 1_000


def test_a_file_that_is_not_what_it_was_taken_for_is_forgotten(store):
    save(store, 0, 100)
    key = StoreKey(origin="https://hub/org/name", revision="c1", file="other", etag="e1")
    store.save(key, ByteRange(0, 10), DATA[:10])
    assert store.agrees(key, ByteRange(5, 50), DATA[5:50])
    assert not store.agrees(key, ByteRange(5, 50), DATA[6:51])
    assert store.agrees(key, ByteRange(10, 50), bytes(40)), "what is not held cannot disagree"
    store.drop(key)
    assert store.extents(key) == []
    assert held(store) == {(0, 100): DATA[:100]}, "nobody else's"


def test_the_query_is_part_of_the_key():
    one, other, none = (
        StoreKey(origin="http://host", revision=None, file="f", etag="e", query=query)
        for query in ("1", "2", None)
    )
    assert len({one.digest(), other.digest(), none.digest()}) == 3


# -- disks that do not want -----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO])
def test_a_disk_that_cannot_be_written_does_not_fail_the_analysis(store, monkeypatch, number):
    save(store, 0, 100)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    save(store, 100, 200)
    store.write_record("k", value={"a": 1})
    assert held(store) == {(0, 100): DATA[:100]}
    assert list((store.root / "v1" / "tmp").iterdir()) == []


def test_a_store_that_may_only_be_read_still_serves(store, monkeypatch):
    save(store, 0, 100)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "utime", refuse)
    assert held(store) == {(0, 100): DATA[:100]}


def test_a_store_whose_place_is_taken_by_a_file_keeps_nothing(tmp_path):
    (tmp_path / "taken").write_text("mine")
    store = RangeStore(tmp_path / "taken", limit=1000)
    save(store, 0, 100)
    assert held(store) == {}
    assert store.info().n_bytes == 0
    assert store.clear().n_objects == 0
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_folder_that_somebody_removes_meanwhile_is_made_again(store, monkeypatch):
    save(store, 0, 100)
    touch = Path.touch
    calls: list[Path] = []

    def remove_once(path: Path, *args: object) -> None:
        if not calls:
            calls.append(path)
            path.parent.rmdir()
        touch(path)

    monkeypatch.setattr(Path, "touch", remove_once)
    other = StoreKey(origin="o", revision=None, file="f", etag="e")
    save(store, 0, 50, other)
    assert held(store, other) == {(0, 50): DATA[:50]}


def test_a_lock_that_is_held_too_long_costs_only_the_range(store, monkeypatch):
    monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.05)
    save(store, 0, 100)
    store.limit = 120
    with filelock.FileLock(store.root / "v1" / "lock"):
        save(store, 100, 200)
        with pytest.raises(SourceError, match="another process"):
            store.clear()
    assert held(store) == {(0, 100): DATA[:100]}
    save(store, 100, 200)
    assert (100, 200) in held(store)


# -- size -----------------------------------------------------------------------------------------------


def test_the_limit_holds_and_what_was_used_last_stays(tmp_path):
    store = RangeStore(tmp_path / "s", limit=1_000)
    for number in range(9):
        save(store, number * 100, number * 100 + 100)
        (path,) = [
            path for path in objects(store) if path.read_bytes() == DATA[number * 100 : number * 100 + 100]
        ]
        os.utime(path, (1_000 + number,) * 2)
    list(store.load(KEY, [ByteRange(0, 1)]))  # used now: the oldest becomes the newest
    save(store, 900, 1_000)
    save(store, 1_000, 1_100)
    assert store.info().n_bytes <= 1_000
    starts = {start for start, _ in held(store)}
    assert {0, 900, 1_000} <= starts
    assert 100 not in starts
    assert sorted(starts - {0}) == list(range(min(starts - {0}), 1_100, 100)), "the oldest go first"


def test_eviction_takes_the_names_of_what_it_drops(tmp_path):
    store = RangeStore(tmp_path / "s", limit=500)
    for number in range(20):
        save(store, number * 100, number * 100 + 100)
    assert store.info().n_bytes <= 500
    markers = [path for path in (store.root / "v1" / "ranges").rglob("*-*-*")]
    assert len(markers) == len(objects(store)) == len(held(store))


def test_records_count_and_are_evicted_too(tmp_path):
    store = RangeStore(tmp_path / "s", limit=10_000)
    for number in range(100):
        store.write_record("listing", str(number), value={"text": "x" * 500})
    assert store.info().n_bytes <= 10_000
    assert store.read_record("listing", "99") is not None
    assert store.read_record("listing", "0") is None


def test_what_is_larger_than_the_limit_is_not_kept(tmp_path):
    store = RangeStore(tmp_path / "s", limit=50)
    save(store, 0, 100)
    store.write_record("k", value={"text": "x" * 500})
    assert store.info().n_bytes == 0


def test_a_large_range_makes_enough_room(tmp_path):
    store = RangeStore(tmp_path / "s", limit=1_000)
    for number in range(10):
        save(store, number * 100, number * 100 + 100)
    save(store, 2_000, 2_900)
    assert store.info().n_bytes <= 1_000
    assert (2_000, 2_900) in held(store)


def test_what_other_processes_wrote_is_counted(tmp_path):
    one, other = (RangeStore(tmp_path / "s", limit=16_000) for _ in range(2))
    for number in range(40):
        save(one, number * 100, number * 100 + 100, data=DATA)
        store_module.RangeStore.save(other, KEY, ByteRange(0, 500), random.Random(number).randbytes(500))
        assert one.info().n_bytes <= 16_000 * 1.2
    assert one.info().n_bytes <= 16_000 * 1.1


# -- the whole ------------------------------------------------------------------------------------------


def test_clearing_removes_everything_of_its_own_and_nothing_else(store):
    save(store, 0, 100)
    store.write_record("k", value={"a": 1})
    foreign = store.root / "notes.txt"
    foreign.write_text("mine")
    outside = store.root.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (store.root / "v1" / "objects" / "link").symlink_to(outside)
    store.limit = 1
    store.evict()
    assert (outside / "precious").read_text() == "mine", "a link is not followed out of the store"
    store.limit = 1 << 30
    save(store, 0, 100)
    before = store.clear()
    assert (before.n_objects, before.n_files) == (1, 1)
    assert held(store) == {}
    assert store.read_record("k") is None
    assert store.info().n_bytes == 0
    assert foreign.read_text() == "mine"
    assert (outside / "precious").read_text() == "mine"
    save(store, 0, 100)
    assert held(store) == {(0, 100): DATA[:100]}


def test_an_empty_store_can_be_looked_at_and_cleared_without_being_made(tmp_path):
    store = RangeStore(tmp_path / "nothing", limit=10)
    assert store.info().n_objects == 0
    assert store.clear().n_bytes == 0
    assert held(store) == {}
    assert not (tmp_path / "nothing").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_only_the_owner_may_look_inside(store):
    store.root.mkdir(mode=0o755)
    save(store, 0, 100)
    assert stat.S_IMODE((store.root / "v1").stat().st_mode) == 0o700
    assert (store.root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_names_from_outside_never_become_paths(store, tmp_path):
    evil = StoreKey(origin="../../x", revision="/etc", file="../../../../tmp/evil", etag="..")
    save(store, 0, 100, evil)
    store.write_record("../../../evil", "/abs", value={"a": 1})
    assert held(store, evil) == {(0, 100): DATA[:100]}
    assert {path.name for path in tmp_path.iterdir()} == {"store"}
    assert b"evil" not in b"".join(str(path).encode() for path in store.root.rglob("*"))


class StoreMachine(RuleBasedStateMachine):
    """Any sequence of saves, damages, clears and evictions: what is loaded is right."""

    keys = st.integers(0, 2)
    starts = st.integers(0, 200)
    lengths = st.integers(1, 200)

    @initialize()
    def open(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.stores = [RangeStore(Path(self.folder.name) / "s", limit=1_500) for _ in range(2)]
        self.truth = [random.Random(number).randbytes(400) for number in range(3)]

    def key(self, number: int) -> StoreKey:
        return StoreKey(origin=f"o{number}", revision=None, file="f", etag="e")

    @rule(which=st.integers(0, 1), number=keys, start=starts, length=lengths)
    def save(self, which: int, number: int, start: int, length: int) -> None:
        extent = ByteRange(start, start + length)
        self.stores[which].save(self.key(number), extent, self.truth[number][extent.start : extent.stop])

    @rule(which=st.integers(0, 1), choice=st.randoms(use_true_random=False), how=st.sampled_from("fdt"))
    def damage(self, which: int, choice: random.Random, how: str) -> None:
        if paths := objects(self.stores[which]):
            path = choice.choice(paths)
            if how == "d":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[1:] + (b"!" if how == "f" else b""))

    @rule(which=st.integers(0, 1))
    def evict(self, which: int) -> None:
        self.stores[which].evict()

    @rule(which=st.integers(0, 1))
    def clear(self, which: int) -> None:
        self.stores[which].clear()

    @rule(which=st.integers(0, 1), number=keys, start=starts, length=lengths)
    def load(self, which: int, number: int, start: int, length: int) -> None:
        wanted = [ByteRange(start, start + length)]
        for extent, digest, data in self.stores[which].load(self.key(number), wanted):
            assert data == self.truth[number][extent.start : extent.stop]
            assert digest == hashlib.sha256(data).hexdigest()

    @invariant()
    def is_bounded(self) -> None:
        if hasattr(self, "stores"):
            assert self.stores[0].info().n_bytes <= 1_500 * 1.5

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


# -- several processes ----------------------------------------------------------------------------------

WRITER = textwrap.dedent("""
    import random, sys
    from pathlib import Path
    from modelkin.source import ByteRange, RangeStore
    from modelkin.source.store import StoreKey

    root, seed, rounds, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    store = RangeStore(root, limit=limit)
    rng = random.Random(seed)
    print("ready", flush=True)
    for _ in range(rounds):
        number = rng.randrange(40)
        key = StoreKey(origin="o", revision=None, file=str(number), etag="e")
        data = random.Random(number).randbytes(60_000)
        start = rng.randrange(50_000)
        extent = ByteRange(start, start + rng.randrange(1, 10_000))
        store.save(key, extent, data[extent.start:extent.stop])
        store.write_record("r", str(number), value={"number": number})
        for found, _, piece in store.load(key, [ByteRange(0, 60_000)]):
            assert piece == data[found.start:found.stop], "a process read wrong bytes"
        record = store.read_record("r", str(rng.randrange(40)))
        assert record is None or list(record) == ["number"]
        if rng.random() < 0.02:
            store.evict()
    assert store._writable, "the store gave up"
""")


def start_writer(root: Path, seed: int, rounds: int, limit: int) -> subprocess.Popen[str]:
    arguments = [str(root), str(seed), str(rounds), str(limit)]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def check_all(root: Path) -> int:
    store = RangeStore(root, limit=1 << 30)
    n_found = 0
    for number in range(40):
        data = random.Random(number).randbytes(60_000)
        key = StoreKey(origin="o", revision=None, file=str(number), etag="e")
        extents = store.extents(key)
        found = list(store.load(key, [ByteRange(0, 60_000)]))
        assert [extent for extent, _, _ in found] == extents, "what is named is whole"
        assert all(piece == data[extent.start : extent.stop] for extent, _, piece in found)
        n_found += len(found)
    for path in objects(store):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, "no object is half-written"
    return n_found


@pytest.mark.more
def test_several_processes_write_read_and_evict_at_once(tmp_path):
    limit = 1_000_000
    writers = [start_writer(tmp_path / "s", seed, 300, limit) for seed in range(4)]
    said = [writer.communicate(timeout=100)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], said
    assert check_all(tmp_path / "s") > 0
    store = RangeStore(tmp_path / "s", limit=limit)
    assert store.info().n_bytes <= limit * 1.3
    assert list((store.root / "v1" / "tmp").iterdir()) == []


def test_a_folder_that_vanishes_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    """`mkdir` meets it, and another process removes it before `mkdir` looks whether it is a folder."""
    store = RangeStore(tmp_path / "s", limit=1_000_000)
    key = StoreKey(origin="o", revision=None, file="f", etag="e")
    prepare, left = store._prepare, [FileExistsError("gone again"), FileExistsError("gone again")]

    def failing() -> None:
        if left:
            raise left.pop()
        prepare()

    monkeypatch.setattr(store, "_prepare", failing)
    store.save(key, ByteRange(0, 3), b"abc")
    assert [data for _, _, data in store.load(key, [ByteRange(0, 3)])] == [b"abc"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_process_may_be_killed_at_any_moment(tmp_path):
    rng = random.Random(7)
    for seed in range(6):
        writer = start_writer(tmp_path / "s", seed, 1_000_000, 600_000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.01, 0.25))
        writer.send_signal(signal.SIGKILL)
        _, errors = writer.communicate()
        assert writer.returncode == -signal.SIGKILL, errors
        check_all(tmp_path / "s")
    assert check_all(tmp_path / "s") > 0
    survivor = RangeStore(tmp_path / "s", limit=600_000)
    survivor.evict()  # no lock outlives its process
    save(survivor, 0, 100)
    assert held(survivor) == {(0, 100): DATA[:100]}
    assert b"Traceback" not in bytes_below(tmp_path)
