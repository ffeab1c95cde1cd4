"""Registries: what is committed stays, what is not does not count, whatever happens in between."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.places import ROOT
from tests.registry.made import drawn

from modelkin.errors import FormatError, MissingExtra, NotFound, OutputError, SourceError, UsageError
from modelkin.registry import create_registry, export_registry, open_registry
from modelkin.registry.segments import failed_row
from modelkin.registry.store import Registry

LOG_ENTRY = (
    '{"segment": "00000001-0123456789ab", "n_rows": %s, "added": %s,'
    ' "digest": "", "time": "", "modelkin": ""}'
)


@pytest.fixture
def place(tmp_path) -> str:
    return str(tmp_path / "registry")


def filled(place: str, n: int = 3) -> Registry:
    registry, added = create_registry(place).add([drawn(f"org/{at}", at) for at in range(n)])
    assert added == n
    return registry


def test_rows_come_back_as_they_went_in(place):
    filled(place)
    registry, _ = open_registry(place).add([drawn("org/later", 9)])
    again = open_registry(place)
    assert again.n_rows == 4
    rows = again.rows([3, 0])
    assert [row.ref for row in rows] == ["org/later", "org/0"]
    assert rows[0].fingerprint() == drawn("org/later", 9)
    assert registry.known() == again.known()


def test_a_model_at_a_revision_is_added_once(place):
    registry = filled(place)
    registry, added = registry.add([drawn("org/0", 0), drawn("org/0", 50)])
    assert added == 1
    assert registry.n_rows == 4


def test_the_log_says_what_was_added_from_which_revision(place):
    registry = filled(place, n=2)
    (commit,) = registry.commits
    assert commit.added == (("org/0", f"{0:040x}"), ("org/1", f"{1:040x}"))
    assert commit.time.endswith("+00:00")
    assert sorted(path.name for path in Path(place, "log").iterdir()) == ["00000001.json"]


def test_a_model_without_a_fingerprint_is_a_row_with_a_reason(place):
    row = failed_row(
        "org/odd", "1" * 40, kind="hub", code="error-HeaderError", reason="bad header", added="now"
    )
    registry, _ = filled(place).add([row])
    assert registry.info().reasons == {"error-HeaderError": 1}
    assert registry.info().n_fingerprints == 3
    assert registry.rows([3])[0].reason == "bad header"


def test_there_is_no_registry_where_none_was_made(place):
    with pytest.raises(NotFound, match="no registry here"):
        open_registry(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": "modelkin.registry/2", "recipe": "1"}', "expected the schema modelkin.registry/1"),
        (
            '{"schema": "modelkin.registry/1", "recipe": "7"}',
            "expected fingerprints of recipe 1, got recipe '7'",
        ),
        ("[]", "expected a JSON object"),
        ("{", "expected a JSON object"),
        ("[" * 100_000, "expected a JSON object"),
    ],
)
def test_another_version_is_refused(place, text, message):
    filled(place)
    Path(place, "registry.json").write_text(text)
    with pytest.raises(FormatError, match=message):
        open_registry(place)


def test_a_damaged_segment_leaves_the_rest_intact(place):
    filled(place)
    registry, _ = open_registry(place).add([drawn("org/good", 9)])
    first = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    first.write_bytes(first.read_bytes()[:-100])
    found = open_registry(place).verify()
    assert [item.segment for item in found.damaged] == [registry.commits[0].segment]
    assert read_with_damage(place) == (["org/good"], [registry.commits[0].segment])
    with pytest.raises(FormatError, match="damaged"):
        open_registry(place).rows([0])


def read_with_damage(place: str) -> tuple[list[str], list[str]]:
    """Return models that can be read, and segments that cannot."""
    registry, damaged = open_registry(place), []
    rows = registry.each_row(
        range(registry.n_rows), damaged=lambda commit, error: damaged.append(commit.segment)
    )
    return [row.ref for row in rows], damaged


def test_a_changed_byte_is_found_by_a_check_and_by_whoever_reads_it(place):
    registry = filled(place)
    path = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    data = bytearray(path.read_bytes())
    at = data.index(drawn("org/1", 1).data)
    data[at + 100] ^= 1
    path.write_bytes(data)
    (damage,) = open_registry(place).verify().damaged
    assert "not those that were committed" in str(damage.problem)
    with pytest.raises(FormatError, match="damaged"):
        open_registry(place).rows([1])


def test_a_segment_that_is_a_folder_leaves_the_rest_intact(place):
    filled(place)
    registry, _ = open_registry(place).add([drawn("org/good", 9)])
    path = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    path.unlink()
    path.mkdir()
    assert read_with_damage(place) == (["org/good"], [registry.commits[0].segment])
    assert [item.segment for item in open_registry(place).verify().damaged] == [registry.commits[0].segment]


def test_rows_of_another_recipe_are_left_out_and_the_rest_is_read(place):
    from modelkin.registry.segments import row_of, write_segment

    filled(place)
    registry, _ = open_registry(place).add([drawn("org/good", 9)])
    rows = [replace(row_of(drawn(f"org/{at}", at), added="now"), recipe="2") for at in range(3)]
    path = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    path.write_bytes(write_segment(rows, [drawn("x", 1).code()] * 3))
    assert read_with_damage(place) == (["org/good"], [registry.commits[0].segment])
    with pytest.raises(FormatError, match="expected a fingerprint of recipe 1, got recipe '2'"):
        open_registry(place).rows([0])


def test_a_segment_that_unpacks_to_far_more_than_it_holds_is_refused(place, monkeypatch):
    import pyarrow.parquet as pq

    from modelkin.registry import segments

    monkeypatch.setattr(segments, "_MOST_GROUP_BYTES", 1_000_000)
    registry = filled(place)
    path = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    table = pq.read_table(path)
    column = table.schema.get_field_index("reason")
    bomb = table.set_column(column, table.schema.field(column), [["x" * 400_000] * 3])
    pq.write_table(bomb, path, compression="ZSTD", use_dictionary=False)
    assert path.stat().st_size < 200_000
    with pytest.raises(FormatError, match="a row group takes more than"):
        open_registry(place).rows([0])


def test_codes_that_are_lost_are_made_again(place):
    registry = filled(place)
    before = [table.tobytes() for _, table in registry.codes()]
    Path(place, "codes", f"{registry.commits[0].segment}.tiles").unlink()
    assert [table.tobytes() for _, table in open_registry(place).codes()] == before
    assert open_registry(place).verify().repaired == (f"codes/{registry.commits[0].segment}.tiles",)
    assert open_registry(place).verify().repaired == ()


def test_codes_that_cannot_be_written_again_are_no_damage(place):
    registry = filled(place)
    name = f"codes/{registry.commits[0].segment}.tiles"
    Path(place, name).unlink()
    Path(place, "codes").rmdir()
    Path(place, "codes").write_text("no folder")
    found = open_registry(place).verify()
    assert (found.damaged, found.repaired) == ((), ())
    assert str(found.not_repaired[0]).startswith(f"{name}: ")
    assert [table.size for _, table in open_registry(place).codes()] == [3 * 464]


@pytest.mark.parametrize(
    "text",
    [
        '{"segment": "../../etc/passwd"}',
        "[" * 100_000,
        LOG_ENTRY % ("1e308", "[]"),
        LOG_ENTRY % ("-1", "[[]]"),
    ],
)
def test_a_damaged_log_entry_is_named(place, text):
    filled(place)
    Path(place, "log", "00000001.json").write_text(text)
    with pytest.raises(FormatError, match=r"log/00000001\.json: this log entry is damaged"):
        open_registry(place)


def test_a_missing_log_entry_is_named_and_its_segment_is_kept(place):
    filled(place)
    registry, _ = open_registry(place).add([drawn("org/later", 9)])
    lost = Path(place, "log", "00000001.json").rename(Path(place, "kept.json"))
    with pytest.raises(FormatError, match=r"log/00000001\.json: this log entry is missing"):
        open_registry(place)
    with pytest.raises(FormatError, match="is missing"):
        registry.add([drawn("org/more", 10)])
    lost.rename(Path(place, "log", "00000001.json"))
    assert open_registry(place).verify().damaged == ()


def test_a_segment_of_other_columns_is_damaged(place):
    import pyarrow.parquet as pq

    registry = filled(place)
    path = Path(place, "segments", f"{registry.commits[0].segment}.parquet")
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["slots"]), path)
    with pytest.raises(FormatError, match="column 'slots' is missing"):
        open_registry(place).rows([0])


def test_there_may_be_more_segments_than_files_may_be_open(place):
    resource = pytest.importorskip("resource")
    registry = create_registry(place)
    for at in range(40):
        registry, _ = registry.add([drawn(f"org/{at}", at)])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")), default=64) if Path("/proc/self/fd").is_dir() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        again = open_registry(place)
        assert again.info().n_models == 40
        assert len(again.rows(range(40))) == 40
        assert sum(len(table) for _, table in again.codes()) == 40 * 464
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_full_disk_leaves_everything_as_it_was(place, monkeypatch):
    filled(place)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left"):
            open_registry(place).add([drawn("org/new", 7)])
    assert open_registry(place).n_rows == 3
    assert open_registry(place).verify().damaged == ()
    assert open_registry(place).add([drawn("org/new", 7)])[1] == 1


def test_what_a_stopped_writer_left_is_removed_by_the_next(place):
    registry = filled(place)
    Path(place, "segments", "00000002-0123456789ab.parquet").write_bytes(b"half")
    Path(place, "codes", "x.bits.0a0b0c0d.draft").write_bytes(b"half")
    assert open_registry(place).verify().left_over == ("segments/00000002-0123456789ab.parquet",)
    registry, _ = open_registry(place).add([drawn("org/new", 7)])
    assert registry.verify().left_over == ()
    assert list(Path(place).rglob("*.draft")) == []


def test_files_of_others_in_the_same_folder_are_left_alone(place):
    filled(place)
    theirs = [Path(place, name) for name in ("novel.draft", "mine/chapter.0a0b0c0d.draft", "log/notes.draft")]
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    open_registry(place).add([drawn("org/new", 7)])
    assert [path.read_text() for path in theirs] == ["mine"] * 3


def test_a_place_that_cannot_be_written_is_one_line(place, monkeypatch):
    Path(place).write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        create_registry(place)
    with pytest.raises(UsageError, match="cannot be read"):
        open_registry(place)
    Path(place).unlink()
    filled(place)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)  # what makes the file of the lock
    with pytest.raises(OutputError, match="No space left"):
        open_registry(place).add([drawn("org/new", 7)])


def test_one_writer_at_a_time_and_readers_do_not_wait(place):
    registry = filled(place)
    with registry.place.writing(timeout=1.0):
        assert open_registry(place).n_rows == 3
        with pytest.raises(UsageError, match="another process is writing"):
            open_registry(place).add([drawn("org/new", 7)], timeout=0.05)


def test_writers_at_once_lose_nothing(place):
    create_registry(place)

    def write(first: int) -> None:
        for at in range(5):
            open_registry(place).add([drawn(f"org/{first}-{at}", 100 * first + at)])

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    registry = open_registry(place)
    assert registry.n_rows == 20
    assert [commit.number for commit in registry.commits] == list(range(1, 21))
    assert registry.verify().damaged == ()


def killed_everywhere(place: str, step: int) -> list[tuple[int, str, int]]:
    filled(place)
    command = [sys.executable, "-m", "tests.registry.killed", place, str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    runs = [(int(at), how, int(n)) for at, how, n in map(str.split, done.stdout.splitlines())]
    registry = open_registry(place)
    assert registry.verify().damaged == ()
    assert registry.n_rows == 3 + sum(n for _, _, n in runs)
    return runs


@pytest.mark.more
def test_a_writer_that_is_killed_at_any_point_leaves_all_or_nothing(place):
    runs = killed_everywhere(place, step=131)
    assert len(runs) > 10
    assert {how for _, how, _ in runs[:-1]} == {"killed"}
    assert {n for _, _, n in runs} == {0, 2}
    assert runs[-1][1:] == ("finished", 2)


@pytest.mark.scale
@pytest.mark.timeout(1_200)
def test_a_writer_that_is_killed_at_many_more_points_leaves_all_or_nothing(place):
    assert {n for _, _, n in killed_everywhere(place, step=11)} == {0, 2}


def test_it_is_published_as_a_dataset(place, tmp_path):
    import pyarrow.parquet as pq

    registry = filled(place)
    files = export_registry(registry, tmp_path / "out")
    assert [path.name for path in files] == ["train-00000-of-00001.parquet", "README.md"]
    table = pq.read_table(files[0])
    assert table["ref"].to_pylist() == ["org/0", "org/1", "org/2"]
    assert table["data"][1].as_py() == drawn("org/1", 1).data
    assert "recipe 1" in files[1].read_text()
    with pytest.raises(UsageError, match="new or empty folder"):
        export_registry(registry, tmp_path / "out")


def test_it_works_on_an_object_store():
    place = "memory://bucket-1/registry"
    create_registry(place).add([drawn("org/a", 1), drawn("org/b", 2)])
    registry, added = open_registry(place).add([drawn("org/b", 2), drawn("org/c", 3)])
    assert added == 1
    assert [row.ref for row in open_registry(place).rows([0, 2])] == ["org/a", "org/c"]
    assert registry.verify().damaged == ()
    assert sum(len(table) for _, table in registry.codes()) == 3 * 464


def race(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a writer commit while another is about to: that one is refused, and can try again."""
    slow = open_registry(place)
    write = slow.place.write

    def overtaken(file: str, data: bytes, *, new: bool = False) -> None:
        if new:
            open_registry(place).add([drawn("org/quick", 21)])
        write(file, data, new=new)

    with monkeypatch.context() as patch:
        patch.setattr(slow.place, "write", overtaken)
        with pytest.raises(UsageError, match="two writers at once"):
            slow.add([drawn("org/slow", 22)])
    registry, added = slow.add([drawn("org/slow", 22)])
    assert added == 1
    assert {"org/quick", "org/slow"} <= {ref for ref, _ in registry.known()}
    assert registry.verify().damaged == ()
    assert registry.verify().left_over == ()


def test_two_writers_on_an_object_store_are_found_out(monkeypatch):
    place = "memory://bucket-2/registry"
    create_registry(place).add([drawn("org/a", 1)])
    race(place, monkeypatch)


def test_what_another_writer_on_an_object_store_has_not_finished_is_left_alone():
    place = "memory://bucket-3/registry"
    registry, _ = create_registry(place).add([drawn("org/a", 1)])
    name = "segments/00000002-0123456789ab.parquet"
    registry.place.write(name, b"another writer's")
    registry.add([drawn("org/b", 2)])
    assert registry.place.read(name) == b"another writer's"


def test_what_a_writer_that_came_second_left_on_an_object_store_is_removed():
    place = "memory://bucket-5/registry"
    registry, _ = create_registry(place).add([drawn("org/a", 1)])
    name = "segments/00000001-0123456789ab.parquet"
    registry.place.write(name, b"of the second")
    assert registry.verify().left_over == (name,)
    registry, _ = registry.add([drawn("org/b", 2)])
    assert registry.verify().left_over == ()


def test_an_object_store_that_fails_is_one_line(monkeypatch):
    place = "memory://bucket-4/registry"
    create_registry(place).add([drawn("org/a", 1)])

    def denied(*_: object, **__: object) -> None:
        raise RuntimeError("access\n denied")

    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setattr(MemoryFileSystem, "cat_file", denied)
    with pytest.raises(SourceError, match="cannot be used: access denied"):
        open_registry(place)


def test_without_pyarrow_it_says_what_to_install(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="need pyarrow"):
        create_registry(place).add([drawn("org/a", 1)])


@pytest.mark.scale
def test_it_works_on_s3(monkeypatch):
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", "AKIATESTKEY"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ):
            monkeypatch.setenv(name, value)
        boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="kin")
        place = "s3://kin/registry"
        create_registry(place).add([drawn("org/a", 1), drawn("org/b", 2)])
        registry, added = open_registry(place).add([drawn("org/c", 3)])
        assert added == 1
        assert open_registry(place).verify().damaged == ()
        assert [row.ref for row in open_registry(place).rows([2, 0])] == ["org/c", "org/a"]
        assert registry.n_rows == 3
        race(place, monkeypatch)
    finally:
        server.stop()
