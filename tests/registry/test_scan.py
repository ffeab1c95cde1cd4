"""The scan: relatives are found among many, at any depth, and what is damaged or gone is said."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from tests.places import ZOO
from tests.registry.made import drawn

import modelkin as mk
from modelkin.document import render_markdown, scan_view, to_json, write_scan
from modelkin.document.results import schema
from modelkin.fingerprint import fingerprint_model
from modelkin.fingerprint.recipe import (
    BLOCK_BYTES,
    DIMENSION_KINDS,
    GRAM_BYTES,
    SLOTS,
    UNIT_KINDS,
    slot_numbers,
)
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


@pytest.mark.parametrize("codes_too", [False, True])
def test_a_damaged_segment_is_left_out_and_said(tmp_path, codes_too):
    place = tmp_path / "r"
    registry, _ = create_registry(str(place)).add([drawn("org/a", 1)])
    registry, _ = registry.add([drawn("org/b", 2)])
    name = registry.commits[0].segment
    (place / "segments" / f"{name}.parquet").write_bytes(b"no parquet")
    if codes_too:
        (place / "codes" / f"{name}.tiles").write_bytes(b"short")
    found = scan(drawn("me", 3, parent=drawn("org/b", 2), share=0.8), open_registry(str(place)))
    assert [hit.ref for hit in found.hits] == ["org/b"]
    # Where the codes say that nobody in it is worth a look, nothing is missing.
    assert (found.n_models, len(found.notes)) == ((1, 1) if codes_too else (2, 0))
    lost = scan(drawn("me", 3, parent=drawn("org/a", 1), share=0.8), open_registry(str(place)))
    assert (lost.hits, lost.n_models) == ((), 1)
    assert "left out" in str(lost.notes[0])


def test_mirrors_are_one_hit(tmp_path):
    parent = drawn("org/a", 1)
    rows = [parent, drawn("mirror/a", 1), drawn("org/b", 2)]
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    (hit,) = scan(drawn("me", 5, parent=parent, share=0.9), registry).hits
    assert (hit.ref, hit.copies) == ("org/a", ("mirror/a",))


def rounded(made: mk.Fingerprint, name: str, share: float) -> mk.Fingerprint:
    """Return a fingerprint of which a share of the numbers is a step larger."""
    data = np.frombuffer(made.data, np.int8).astype(int)
    more = np.random.default_rng(0).random(len(data)) < share
    changed = np.clip(data + more, -127, 127).astype(np.int8).tobytes()
    return replace(made, model=replace(made.model, ref=name), data=changed)


def test_casts_are_one_hit_and_tuned_models_are_not(tmp_path):
    parent = drawn("org/a", 1)
    rows = [
        parent,
        rounded(parent, "org/a-bf16", 0.1),
        drawn("org/tuned", 2, parent=parent, share=0.999),
        *(drawn(f"org/other-{seed}", seed) for seed in range(3, 9)),
    ]
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    found = scan(drawn("me", 5_000, parent=parent, share=0.9), registry)
    assert sorted((hit.ref, *hit.copies) for hit in found.hits) in (
        [("org/a", "org/a-bf16"), ("org/tuned",)],
        [("org/a-bf16", "org/a"), ("org/tuned",)],
    )
    assert found.n_found == 3


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
    scores, grams = CodeQuery(query).scores(next(tiles(table)))

    def bits(made):
        return np.unpackbits(np.frombuffer(made.code(), np.uint8), bitorder="little").astype(int)

    mine = bits(query)
    for at, other in enumerate(others):
        theirs = bits(other)
        equal = {
            number: score(mine[slot.start : slot.stop], theirs[slot.start : slot.stop])
            for number, slot in enumerate(SLOTS)
        }
        crossed = [
            score(mine[SLOTS[one].start :][:512], theirs[SLOTS[two].start :][:512])
            for one in slot_numbers("mlp")
            for two in slot_numbers("mlp")
            if one != two
        ]
        sums = [
            sum(chosen) / np.sqrt(len(chosen))
            for kinds in (UNIT_KINDS, DIMENSION_KINDS, UNIT_KINDS + DIMENSION_KINDS)
            for chosen in [[equal[number] for number in equal if SLOTS[number].kind in kinds]]
        ]
        assert scores[at] == pytest.approx(max(map(abs, [*equal.values(), *crossed, *sums])), rel=1e-5)
        gram = slice(BLOCK_BYTES, BLOCK_BYTES + GRAM_BYTES)
        assert grams[at] == pytest.approx(1 - 2 * np.mean(mine[gram] != theirs[gram]), abs=1e-5)


def score(mine, theirs) -> float:
    return float((len(mine) - 2 * np.count_nonzero(mine != theirs)) / np.sqrt(len(mine)))


def test_a_query_without_some_units_and_layers_is_held_against_what_it_has():
    query = drawn("me", 0)
    data = np.frombuffer(query.data, np.int8).copy()
    data[SLOTS[0].start + 16 * 40 : SLOTS[0].stop] = 0
    for number in slot_numbers("val"):
        data[SLOTS[number].start : SLOTS[number].stop] = 0
    slots = tuple(replace(slot, n_units=0) if slot.kind == "val" else slot for slot in query.slots)
    part = replace(query, data=data.tobytes(), slots=slots, token_gram=False)
    table = np.frombuffer(tiled(query.code() + drawn("other", 1).code()), np.uint64)
    scores, grams = CodeQuery(part).scores(next(tiles(table)))
    assert scores[0] > 40
    assert scores[1] < 5
    assert list(grams) == [0, 0]


def test_tables_of_any_sizes_give_the_same_rows():
    parent = drawn("me", 0)
    rows = [drawn(str(seed), seed) for seed in range(1, 61)]
    rows[37] = drawn("child", 99, parent=parent, share=0.7)

    def tables(sizes):
        first = 0
        for size in sizes:
            codes = b"".join(made.code() for made in rows[first : first + size])
            yield first, np.frombuffer(tiled(codes), np.uint64)
            first += size

    found = [coarse_pass(CodeQuery(parent), tables(sizes)) for sizes in ([60], [1] * 60, [7, 50, 3])]
    assert found[0].rows[np.argmax(found[0].scores)] == 37
    assert all(np.array_equal(one.scores, found[0].scores) for one in found)
    assert all(np.array_equal(one.rows, found[0].rows) for one in found)


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**63, 464 * (2 * TILE_ROWS + 17), dtype=np.uint64)
    query = CodeQuery(drawn("me", 0))
    tables = [(0, table), (2 * TILE_ROWS + 17, table[: 464 * 5])]
    one, two = (coarse_pass(query, tables, n_threads=n) for n in (1, 2))
    assert len(one.rows) > 0
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.scores, two.scores)


def test_a_child_is_found_among_many_whatever_its_place(tmp_path):
    parent = drawn("org/parent", 7)
    rows = [drawn(f"org/{seed}", seed) for seed in range(100, 250)]
    rows.insert(111, parent)
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    found = scan(drawn("me", 8, parent=parent, share=0.3), registry)
    assert [hit.ref for hit in found.hits] == ["org/parent"]


def test_many_with_tokens_alike_leave_room_for_a_weak_relative_and_a_scan_says_what_it_left_out(
    tmp_path, monkeypatch
):
    from modelkin.registry import scanning

    monkeypatch.setattr(scanning, "_MOST_ROWS", 6)
    monkeypatch.setattr(scanning, "_MOST_ALIKE", 5)
    parent = drawn("org/parent", 7)
    alike = [drawn(f"org/alike-{seed}", seed) for seed in range(100, 120)]
    gram = parent.data[BLOCK_BYTES:]
    rows = [replace(made, data=made.data[:BLOCK_BYTES] + gram) for made in alike]
    rows.append(drawn("org/weak", 300, parent=parent, share=0.3))
    registry, _ = create_registry(str(tmp_path / "r")).add(rows)
    result = scan(parent, registry)
    assert "org/weak" in {hit.ref for hit in result.hits if hit.found}
    assert [note.code for note in result.notes] == ["scan-many"]
    assert dict(result.notes[0].values) == {"n": 21, "most": 6}


def test_nothing_is_found_among_strangers(tmp_path):
    registry, _ = create_registry(str(tmp_path / "r")).add([drawn(f"org/{n}", n) for n in range(150)])
    found = scan(drawn("me", 1_000), registry)
    assert (found.n_found, found.n_proposed) == (0, 0)
