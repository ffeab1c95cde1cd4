"""The bytes of the deep stage: exact by plan at 7B, 70B, 110B and 13B shapes, by ledger on small models."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmarks.alignment_subject import (
    SUBJECTS,
    Gpt2Shape,
    Subject,
    Synthetic,
    hadamard,
    pair_of,
    stored_bytes,
)
from benchmarks.peers_subject import MixtureShape
from tests.support import LlamaShape
from tests.support.amount import marked

import modelkin as mk
from benchmarks import alignment
from modelkin import options as _config
from modelkin.comparison import price_comparison
from modelkin.comparison.deep import DeepStage
from modelkin.comparison.methods import Tested, frame_rows, load_method
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import Rehearsal
from modelkin.comparison.tokens import UNREAD, pair_tokens
from modelkin.model import open_model
from modelkin.source import ByteRange

DEEP = mk.CompareOptions(depth="deep")
BF16 = 2

SMALL = {
    "llama": Subject.llama(LlamaShape(layers=4, hidden=128, mlp=512, heads=8, kv_heads=4, vocab=2000)),
    "gpt2": Subject.gpt2(Gpt2Shape(layers=4, hidden=128, heads=4, vocab=2000, positions=64)),
    "mixture": Subject.mixture(
        MixtureShape(
            layers=4,
            hidden=128,
            mlp=512,
            expert_mlp=64,
            experts=16,
            heads=8,
            kv_heads=4,
            head_dim=16,
            vocab=2000,
        )
    ),
}


def stage_of(candidate, base, tokens=UNREAD, rehearsal=None):
    return DeepStage(ModelPair(candidate=candidate, base=base, options=DEEP), tokens, rehearsal=rehearsal)


@pytest.fixture(scope="module")
def opened():
    """Open a large pair and pair its tokens, once."""

    @cache
    def pair(name):
        models = tuple(open_model(source) for source in pair_of(name, "strangers"))
        return *models, pair_tokens(*models)

    return pair


LARGE = marked(SUBJECTS, lambda name: name == "13B GPT-2")


@pytest.fixture(params=LARGE)
def large(request, opened):
    return request.param, stage_of(*opened(request.param))


def bytes_of(stage, name):
    plan = load_method(name).plan(replace(stage.pair, layer_pairs=stage._pairs_to_match()))
    return tuple(
        model.plan(
            [item for probe in plan.probes for part in parts(probe) for item in part.slices]
        ).bytes_needed
        for model, parts in (
            (stage.models.candidate, lambda probe: probe.candidate),
            (stage.models.base, lambda probe: probe.base),
        )
    )


MAP_BYTES = {
    # layers x (units x width + gain)
    "7B": 32 * (128 * 4096 + 4096) * BF16,
    "70B": 80 * (36 * 8192 + 8192) * BF16,
    "110B mixture": 46 * (127 * 4096 + 4096) * BF16,
    # layers x (the first 39 features of all units, and a gain of all features)
    "13B GPT-2": 40 * (39 * 20_480 + 5120) * BF16,
}
MATCHING_BYTES = {
    "7B": (3 * (512 * 4096 + 4096) * BF16, 3 * (11_008 * 4096 + 4096) * BF16),
    "70B": (3 * (512 * 8192 + 8192) * BF16, 3 * (12_262 * 8192 + 8192) * BF16),
    "110B mixture": (0, 0),
    "13B GPT-2": (0, 0),
}


def test_a_step_reads_what_its_shapes_say(large):
    name, stage = large
    assert bytes_of(stage, "mlp-map") == (MAP_BYTES[name],) * 2
    assert bytes_of(stage, "mlp-matching") == MATCHING_BYTES[name]


def test_the_plan_of_all_steps_stays_within_a_gigabyte(large):
    pair = large[1].models
    plans = price_comparison(candidate=pair.candidate, base=pair.base, options=DEEP).plans
    for model, plan in zip(pair.models, plans, strict=True):
        beside = pair.overhead(model) + 2 * model.fetcher.source.find("tokenizer.json").size
        assert plan.bytes_needed > 400_000_000
        assert plan.bytes_to_fetch + beside <= alignment.CEILING


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_each_way_of_the_stage_stays_within_its_allowance(opened, name, reordered):
    rehearsal = Rehearsal(reordered=reordered)
    candidate, base, tokens = opened(name)
    stage = stage_of(candidate, base, tokens, rehearsal)
    stage.run()
    spent = stage.reading.spent
    assert 0 < max(spent) <= stage.pair.byte_allowance
    for model, slices, paid in zip(stage.reading.models, rehearsal.asked, spent, strict=True):
        assert 0 < model.plan(slices).bytes_needed <= paid


def test_rows_for_a_map_are_enough_for_a_rotation_where_they_can_be_had(large):
    name, stage = large
    pair = stage.pair
    rows = frame_rows(pair)
    if name == "13B GPT-2":  # one matrix of a layer, stored input-first, is more than may be read
        assert rows is None
        return
    assert rows is not None
    width = pair.base.architecture.sizes["residual"]
    n_bytes = stage.models.base.plan([item for part in rows.base for item in part.slices]).bytes_needed
    assert n_bytes <= 0.2 * pair.byte_allowance
    # Of 70B one in two hundred dimensions is left out of the map.
    assert n_bytes // (BF16 * width) >= 0.99 * width / 0.875


@pytest.fixture
def ceiling(monkeypatch):
    def lower(n_bytes):
        monkeypatch.setitem(_config.READING, "deep", (n_bytes, 10_000))
        monkeypatch.setattr("modelkin.comparison.pair.MAX_TOKENIZER_BYTES", 0)
        monkeypatch.setattr("modelkin.comparison.pair.VOCABULARY_BYTES", 0)

    return lower


@pytest.mark.parametrize("family", SMALL)
@pytest.mark.parametrize("n_bytes", [800_000, 3_000_000, 1_000_000_000])
def test_what_a_run_reads_is_within_its_bytes_and_its_plan(family, n_bytes, ceiling):
    ceiling(n_bytes)
    sources = [Synthetic(SMALL[family], seed=seed, vocabulary=1, name=f"model-{seed}") for seed in (1, 2)]
    models = open_model(sources[0]), open_model(sources[1])
    assert all(model.architecture.is_known for model in models)
    before = [model.totals().bytes_fetched for model in models]
    stage = stage_of(*models)
    result = stage.run()
    read = [model.totals().bytes_fetched - start for model, start in zip(models, before, strict=True)]
    assert result.frame == "none"
    assert max(stage.reading.spent) <= stage.pair.byte_allowance
    assert all(now <= 1.05 * paid + 65_536 for now, paid in zip(read, stage.reading.spent, strict=True))


@pytest.mark.parametrize("kind", ["permutation", "rotation"])
def test_a_disguised_copy_is_found_in_its_coordinates(kind):
    shape = LlamaShape(layers=4, hidden=128, mlp=512, heads=8, kv_heads=4, vocab=2000)
    base = Synthetic(Subject.llama(shape), seed=1, vocabulary=1, name="base")
    copy = Synthetic(Subject.llama(shape), seed=1, vocabulary=1, disguise=kind, name="copy")
    found = mk.compare(candidate=open_model(copy), base=open_model(base), options=DEEP)
    assert found.verdict.related
    assert found.alignment.residual == kind


def test_first_features_are_enough_where_units_are_stored_input_first(ceiling):
    ceiling(3_000_000)
    subject = Subject.gpt2(Gpt2Shape(layers=6, hidden=128, heads=4, vocab=500, positions=64))
    mine, theirs = (
        open_model(Synthetic(subject, seed=1, vocabulary=1, name=name)) for name in ("copy", "base")
    )
    stage = stage_of(mine, theirs)
    stage._probe(stage.pair, ("mlp-map",))
    plan = load_method("mlp-map").plan(stage.pair)
    n_bytes = mine.plan([item for part in plan.probes[0].candidate for item in part.slices]).bytes_needed
    assert n_bytes <= 0.08 * stage.pair.byte_allowance + 6 * 128 * BF16
    assert {item.n_features for item in stage.evidence if isinstance(item, Tested)} < set(range(24, 128))
    assert stage.maps[0].path == tuple((layer, layer) for layer in range(6))


def test_a_second_reading_of_kept_sketches_costs_nothing():
    mine, theirs = (
        open_model(Synthetic(SMALL["llama"], seed=seed, vocabulary=1, name=f"model-{seed}"))
        for seed in (1, 2)
    )
    models = mine, theirs
    stage = stage_of(mine, theirs)
    stage._probe(stage.pair, ("mlp-map",))
    spent, read = list(stage.reading.spent), [model.totals().bytes_fetched for model in models]
    stage._probe(stage.pair, ("mlp-map",))
    assert stage.reading.spent == spent
    assert [model.totals().bytes_fetched for model in models] == read
    assert stage.maps[0] == stage.maps[1]


def test_a_turned_copy_reads_what_its_base_reads_and_writes_something_else():
    base = open_model(Synthetic(SMALL["llama"], seed=1, vocabulary=1))
    copy = open_model(Synthetic(SMALL["llama"], seed=1, vocabulary=1, disguise="rotation"))
    for name, _ in SMALL["llama"].tensors:
        mine, theirs = copy.tensor(name), base.tensor(name)
        if mine.ndim == 1:
            np.testing.assert_array_equal(mine, 1)
            np.testing.assert_array_equal(theirs, 1)
            continue
        assert abs(np.corrcoef(mine.ravel(), theirs.ravel())[0, 1]) < 0.05
        written = name.endswith(("o_proj.weight", "down_proj.weight"))
        assert (abs(mine @ mine.T - theirs @ theirs.T).max() < 1e-3) == (not written), name


def test_rows_are_the_same_whichever_range_is_read():
    source = Synthetic(SMALL["llama"], seed=1, vocabulary=1, disguise="rotation")
    file = source.files()["model.safetensors"]
    whole = source.read_range(file, ByteRange(0, file.size))
    assert len(whole) == file.size > stored_bytes(SMALL["llama"].tensors)
    for start, stop in ((0, 9), (5000, 90_001), (file.size - 777, file.size)):
        assert source.read_range(file, ByteRange(start, stop)) == whole[start:stop]


def test_the_hadamard_matrix_is_orthogonal():
    matrix = hadamard(np.eye(64, dtype=np.float32))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(64), atol=1e-6)
    assert np.unique(np.abs(matrix)).size == 1
    with pytest.raises(ValueError, match="power of two"):
        hadamard(np.eye(6, dtype=np.float32))


def test_the_table_shows_every_case_and_the_promise():
    cases = list(alignment.cases("7B"))
    one = {
        "planned": [1_000_000, 2_000_000],
        "read": [1_000_000, 2_000_000],
        "all_read": [5, 1_000_000_001],
        "cpu_seconds": 1.0,
        "peak_bytes": 1e9,
        "result": "done",
    }
    found = dict.fromkeys(cases, one)
    assert len(alignment.table(found).rows) == len(cases) == len(alignment.METHODS) + 12
    assert "ABOVE" in alignment._most(found)


def test_what_was_not_measured_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(alignment, "measure", lambda case: pytest.fail("nothing is measured"))
    one = {
        "planned": [1, 2],
        "read": [1, 2],
        "all_read": [5, 6],
        "cpu_seconds": 1.0,
        "peak_bytes": 1e9,
        "result": "done",
    }
    keep = tmp_path / "kept.json"
    keep.write_text(json.dumps({case.key: one for case in list(alignment.cases("7B"))[:-1]}))
    text = alignment.run(quick=True, keep=keep, as_is=True)
    assert text.endswith("Not measured at 7B: compare, deep: hidden copy.")
    assert "| router-matching " in text
    assert alignment.run(keep=keep, as_is=True).count("###") == 1
