"""Rows of shared tokens: matched by text, judged against the right orders."""

import csv
import json
from itertools import permutations

import jsonschema
import numpy as np
import pytest
from tests.places import DATA, ZOO
from tests.support import LlamaShape, llama_config, llama_files, llama_tensors

import modelkin as mk
from modelkin.describe import TOKEN_FILTERS, compare_embeddings
from modelkin.describe.embeddings import cosines, geometry, row_stats, row_view
from modelkin.document import to_json
from modelkin.document.results import schema
from modelkin.errors import UsageError
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource

PUBLISHED = DATA / "solar_glm_embedding_cosines.csv"
WIDTH = 32


def tokenizer(tokens):
    vocab = {token: n for n, token in enumerate(tokens)}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return json.dumps({"pre_tokenizer": {"type": "ByteLevel"}, "model": model}).encode()


def model(tokens, rows):
    """Return a model with this embedding and tokenizer."""
    shape = LlamaShape(vocab=len(rows), hidden=rows.shape[1])
    arrays = llama_tensors(shape) | {"model.embed_tokens.weight": np.asarray(rows, dtype=np.float32)}
    return MemorySource(
        {
            "config.json": json.dumps(llama_config(shape)).encode(),
            "tokenizer.json": tokenizer(tokens),
            "model.safetensors": safetensors_bytes(arrays),
        }
    )


def words(count):
    return [f"Ġword{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10]}" for n in range(count)]


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_the_published_rows_are_as_independent_rows_are():
    with PUBLISHED.open() as lines:
        found = row_stats(np.array([float(row["cosine"]) for row in csv.DictReader(lines)]), width=4096)
    assert found.n == 300
    assert found.mean == pytest.approx(-0.000984, abs=1e-6)
    assert found.std == pytest.approx(0.015330, abs=1e-6)
    assert found.std == pytest.approx(1 / 64, rel=0.05)
    assert found.low == pytest.approx(-0.0518, abs=1e-4)
    assert found.high == pytest.approx(0.0409, abs=1e-4)
    assert (found.beyond_3_sd, found.above_0_5) == (2, 0)


def test_rows_are_matched_by_text_not_by_id(rng):
    rows = rng.standard_normal((50, WIDTH))
    order = rng.permutation(50)
    tokens = words(50)
    found = compare_embeddings(model(tokens, rows), model([tokens[i] for i in order], rows[order]))
    assert found.status == "ok"
    assert found.raw is not None
    assert found.raw.all.low == pytest.approx(1.0)
    assert (found.shared, found.used, found.width) == (50, 50, WIDTH)
    n_same = int((order == np.arange(50)).sum())
    assert found.raw.other_id is not None
    assert found.raw.other_id.n == 50 - n_same


def test_independent_tables_are_told_as_such(rng):
    tokens = words(100)
    found = compare_embeddings(
        model(tokens, rng.standard_normal((100, WIDTH)) + 0.5),
        model(tokens, rng.standard_normal((100, WIDTH)) + 0.5),
    )
    assert found.raw is not None
    assert found.centred is not None
    assert found.raw.all.mean > 0.15  # the common direction of both, and no kinship
    assert found.raw.permuted_tokens.expected == pytest.approx(found.raw.all.mean, abs=0.03)
    assert abs(found.centred.all.mean) < 0.06
    assert found.raw.permuted_dimensions.z is not None
    assert abs(found.raw.permuted_dimensions.z) < 4
    assert found.raw.same_id is not None
    assert found.raw.other_id is None


def test_a_turned_copy_keeps_its_geometry_and_loses_its_cosines(rng):
    rows = rng.standard_normal((60, WIDTH))
    turn, _ = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))
    found = compare_embeddings(model(words(60), rows), model(words(60), rows @ turn))
    assert found.geometry == pytest.approx(1.0, abs=1e-5)
    assert found.raw is not None
    assert abs(found.raw.all.mean) < 0.3
    assert "share no coordinates" in " ".join(map(str, found.limits))


def every_mean(one, other, *, axis):
    orders = permutations(range(one.shape[axis]))
    return np.array([(one * np.take(other, order, axis=axis)).sum(axis=1).mean() for order in orders])


@pytest.mark.parametrize("axis", [0, 1])
def test_the_nulls_are_exact(rng, axis):
    one, other = (rng.standard_normal((6, 6)) + 0.3 for _ in range(2))
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other))
    view = row_view(one, other, same=np.zeros(6, dtype=bool), seed=0)
    null = view.permuted_tokens if axis == 0 else view.permuted_dimensions
    means = every_mean(one, other, axis=axis)
    assert null.expected == pytest.approx(means.mean(), abs=1e-12)
    assert null.sd == pytest.approx(means.std(), abs=1e-12)
    assert null.z == pytest.approx((view.all.mean - means.mean()) / means.std())


def test_drawn_orders_agree_with_the_exact_spread(rng):
    one, other = (rng.standard_normal((200, 16)) for _ in range(2))
    null = row_view(one, other, same=np.zeros(200, dtype=bool), seed=1).permuted_tokens
    assert null.low is not None
    assert null.high is not None
    assert (null.high - null.low) / (2 * 1.96 * null.sd) == pytest.approx(1.0, abs=0.12)


def test_equal_rows_have_no_spread_to_stand_out_from():
    rows = np.ones((9, 4))
    view = row_view(rows, rows, same=np.ones(9, dtype=bool), seed=0)
    assert view.permuted_tokens.z is None
    assert view.within_candidate == pytest.approx(1.0)
    assert geometry(rows, rows) is None
    assert cosines(rows, rows) == pytest.approx(np.ones(9))


def test_filters_take_what_they_say(rng):
    tokens = ["Ġthe", "cat", "ab", "ìķĪ", "123", "+=", *words(30)]
    rows = rng.standard_normal((len(tokens), WIDTH))
    pair = model(tokens, rows), model(tokens, rows)
    counts = {name: compare_embeddings(*pair, tokens=name) for name in ("all", "ASCII words", "English-like")}
    assert [found.matching for found in counts.values()] == [36, 32, 35]
    few = compare_embeddings(*pair, tokens="Hangul")
    assert (few.status, str(few.reason)) == ("skipped", "only 1 tokens of this kind are in both vocabularies")
    assert few.raw is None


def test_the_sample_is_chosen_by_seed_and_a_smaller_one_is_part_of_it(rng):
    tokens, rows = words(90), rng.standard_normal((90, WIDTH))
    pair = model(tokens, rows), model(tokens, rows + rng.standard_normal((90, WIDTH)))

    def sampled(**options):
        found = compare_embeddings(*pair, **options)
        return found, {item.token for item in (*found.nearest, *found.farthest)}

    assert sampled(n_tokens=20)[0] == sampled(n_tokens=20)[0]
    assert sampled(n_tokens=20, seed=1)[1] != sampled(n_tokens=20)[1]
    assert sampled(n_tokens=10)[1] <= sampled(n_tokens=20)[1]


def test_nearest_and_farthest_tokens_are_named(rng):
    rows = rng.standard_normal((40, WIDTH))
    other = rows.copy()
    other[7] = -other[7]
    found = compare_embeddings(model(words(40), rows), model(words(40), other))
    assert found.farthest[0].candidate_id == 7
    assert found.farthest[0].cosine == pytest.approx(-1.0)
    assert found.farthest[0].token == words(40)[7].replace("Ġ", " ")
    assert found.nearest[0].cosine == pytest.approx(1.0)


def test_rows_of_zeros_are_left_out_and_counted(rng):
    rows = rng.standard_normal((40, WIDTH))
    rows[:3] = 0.0
    found = compare_embeddings(model(words(40), rows), model(words(40), rows))
    assert (found.used, found.zero_rows) == (37, 3)


def test_other_widths_are_a_reason(rng):
    pair = (model(words(20), rng.standard_normal((20, width))) for width in (WIDTH, 16))
    found = compare_embeddings(*pair)
    assert (found.status, str(found.reason)) == ("skipped", "rows have 32 and 16 numbers")


def test_a_missing_tokenizer_is_a_reason():
    bare = MemorySource(llama_files())
    found = compare_embeddings(bare, bare)
    assert found.status == "skipped"
    assert "tokens cannot be matched by text" in str(found.reason)


@pytest.mark.parametrize("options", [{"role": "mlp"}, {"tokens": "Klingon"}, {"n_tokens": 3}])
def test_wrong_wishes_are_refused(options):
    with pytest.raises(UsageError, match="expected"):
        compare_embeddings("a", "b", **options)
    assert "Klingon" not in TOKEN_FILTERS


def test_trained_strangers_and_relatives_are_apart():
    stranger = mk.compare_embeddings(str(ZOO / "twin-1"), str(ZOO / "twin-2"))
    relative = mk.compare_embeddings(str(ZOO / "qwen2-tuned"), str(ZOO / "qwen2-base"))
    assert stranger.raw is not None
    assert relative.raw is not None
    assert abs(stranger.raw.all.mean) < 0.05
    assert relative.raw.all.mean > 0.8
    assert stranger.geometry is not None
    assert stranger.geometry > 0.1  # words mean the same to strangers: no evidence


def test_the_json_follows_its_schema():
    found = mk.compare_embeddings(str(ZOO / "twin-1"), str(ZOO / "twin-2"))
    jsonschema.Draft202012Validator(schema("modelkin.embeddings/1")).validate(json.loads(to_json(found)))
