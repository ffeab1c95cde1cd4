"""The scan: relatives are found among many, at any depth, and what is damaged or gone is said."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from tests.places import ZOO
from tests.registry.made import drawn

import modelkin as mk
from modelkin.document import render_markdown, scan_view, schema, to_json, write_scan
from modelkin.fingerprint import fingerprint_model
from modelkin.fingerprint.recipe import SLOTS
from modelkin.registry import ScanOptions, create_registry, open_registry, scan, sync, targets_of_list
from modelkin.registry.coarse import TILE_ROWS, CodeQuery, coarse_pass, tiled, tiles

NAMES = (
    "base",
    "finetune-light",
    "grandchild",
    "depth-up",
    "half-of-layers",
    "norms-only",
    "twin-1",
    "twin-2",
)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> str:
    place = str(tmp_path_factory.mktemp("scan") / "registry")
    listed = "\n".join(["# models", *(str(ZOO / name) for name in NAMES)])
    _, result = sync(create_registry(place), targets_of_list(listed))
    assert result.n_added == len(NAMES)
    return place


@pytest.fixture(scope="module")
def result(zoo):
    with mk.open_model(str(ZOO / "lora")) as model:
        return scan(
            fingerprint_model(model),
            open_registry(zoo),
            ScanOptions(verify=1, verify_depth="quick"),
            model=model,
        )


def names(found) -> set[str]:
    return {hit.ref.rpartition("/")[2] for hit in found.hits}


def test_all_relatives_are_found_and_no_stranger(result):
    assert names(result) == {
        "base",
        "finetune-light",
        "grandchild",
        "depth-up",
        "half-of-layers",
        "norms-only",
    }
    assert all(hit.found and hit.log10_p < -6 for hit in result.hits)
    assert result.n_models == len(NAMES)


def test_the_best_hits_are_verified_and_the_others_say_that_they_are_not(result):
    assert [hit.verified.conclusion is not None for hit in result.hits] == [True] + [False] * 5
    assert all(str(hit.verified.reason).startswith("not compared") for hit in result.hits[1:])


def test_the_price_of_the_size_is_that_of_a_hundred_million(result):
    free = [hit.best.log10_p for hit in result.hits]
    assert [hit.log10_p for hit in result.hits] == pytest.approx([p + 8 for p in free])


def test_its_json_follows_the_schema(result):
    jsonschema.validate(json.loads(to_json(result)), schema("modelkin.scan/1"))


def test_the_report_has_the_ranking_and_the_verdicts(result, tmp_path):
    files = {path.relative_to(tmp_path).as_posix() for path in write_scan(result, tmp_path)}
    assert {"scan.json", "report.html", "REPORT.md", "verified/01/report.html"} <= files
    page = (tmp_path / "report.html").read_text().replace("<wbr>", "")
    assert all(name in page for name in names(result))
    assert "verified/01/report.html" in page
    assert "show a common origin" in render_markdown(scan_view(result))


def test_a_model_that_has_vanished_is_a_hit_that_says_so(tmp_path):
    parent = drawn("org/gone", 1)
    registry, _ = create_registry(str(tmp_path / "r")).add([parent])
    with mk.open_model(str(ZOO / "base")) as model:
        options = ScanOptions(fetch=mk.FetchOptions(retries=0))
        found = scan(drawn("me", 2, parent=parent, share=0.9), registry, options, model=model)
    (hit,) = found.hits
    assert hit.found
    assert hit.verified.conclusion is None
    assert "not compared" in str(hit.verified.reason)


def test_a_damaged_segment_is_left_out_and_said(tmp_path):
    place = tmp_path / "r"
    registry, _ = create_registry(str(place)).add([drawn("org/a", 1)])
    registry, _ = registry.add([drawn("org/b", 2)])
    (place / "segments" / f"{registry.commits[0].segment}.parquet").write_bytes(b"no parquet")
    found = scan(drawn("me", 3, parent=drawn("org/b", 2), share=0.8), open_registry(str(place)))
    assert [hit.ref for hit in found.hits] == ["org/b"]
    assert "left out" in str(found.notes[0])


def test_mirrors_are_one_hit(tmp_path):
    parent = drawn("org/a", 1)
    rows = [parent, drawn("mirror/a", 1), drawn("org/b", 2)]
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    (hit,) = scan(drawn("me", 5, parent=parent, share=0.9), registry).hits
    assert (hit.ref, hit.copies) == ("org/a", ("mirror/a",))


def test_an_empty_registry_has_no_hits(tmp_path):
    found = scan(drawn("me", 1), create_registry(str(tmp_path / "r")))
    assert (found.n_models, found.hits) == (0, ())


@pytest.mark.parametrize("n_rows", [1, TILE_ROWS, TILE_ROWS + 3])
def test_tiles_hold_every_row_once(n_rows):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**63, (n_rows, 464), dtype=np.uint64)
    back = np.concatenate([tile.T for tile in tiles(np.frombuffer(tiled(rows.tobytes()), np.uint64))])
    assert np.array_equal(back, rows)


def test_the_first_pass_counts_the_bits_that_differ():
    query, others = drawn("me", 0), [drawn(str(seed), seed) for seed in range(1, 6)]
    table = np.frombuffer(tiled(b"".join(made.code() for made in others)), np.uint64)
    found = CodeQuery(query)
    from modelkin.registry.coarse import _Workspace

    tile = next(tiles(table))
    space = _Workspace(len(others))
    for number, slot in enumerate(SLOTS):
        words = slice(slot.start // 64, slot.stop // 64)
        mine = np.unpackbits(np.frombuffer(query.code(), np.uint8))
        counted = space.distance(tile[words], np.frombuffer(query.code(), np.uint64)[words][:, None], None)
        for at, other in enumerate(others):
            theirs = np.unpackbits(np.frombuffer(other.code(), np.uint8))
            assert counted[at] == np.count_nonzero((mine != theirs)[slot.start : slot.stop]), number
    assert found.scores(tile, space)[0].max() < 5.5


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**63, 464 * (3 * TILE_ROWS + 17), dtype=np.uint64)
    query = CodeQuery(drawn("me", 0))
    one, two = (coarse_pass(query, [table, table[: 464 * 5]], n_threads=n) for n in (1, 2))
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.scores, two.scores)


def test_a_child_is_found_among_many_whatever_its_place(tmp_path):
    parent = drawn("org/parent", 7)
    rows = [drawn(f"org/{seed}", seed) for seed in range(100, 250)]
    rows.insert(111, parent)
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    found = scan(drawn("me", 8, parent=parent, share=0.3), registry)
    assert [hit.ref for hit in found.hits] == ["org/parent"]


def test_nothing_is_found_among_strangers(tmp_path):
    registry, _ = create_registry(str(tmp_path / "r")).add([drawn(f"org/{n}", n) for n in range(150)])
    found = scan(drawn("me", 1_000), registry)
    assert (found.n_found, found.n_proposed) == (0, 0)
