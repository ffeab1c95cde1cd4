"""A model as a whole: opened lazily, read by name, role and plan."""

import doctest
import json

import numpy as np
import pytest
from tests.support import HubServer, LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin import model as _model
from modelkin.errors import BadSelection, BudgetExceeded, ConfigError
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=3)
FILES = llama_files(SHAPE, n_shards=2)
TENSORS = llama_tensors(SHAPE)
UP = "model.layers.1.mlp.up_proj.weight"


def opened(files=FILES, **options):
    source = MemorySource(files, budget=None)
    return mk.open_model(source, mk.FetchOptions(**options))


def test_opening_reads_nothing():
    with opened() as model:
        assert model.totals().bytes_fetched == 0
        repr(model)
        assert model.totals().bytes_fetched == 0


def test_every_tensor_comes_back_as_it_was_written():
    with opened() as model:
        for name, values in TENSORS.items():
            np.testing.assert_array_equal(model.tensor(name), values)


def test_rows_cost_just_their_bytes():
    with opened() as model:
        _ = model.index
        before = model.totals().bytes_fetched
        np.testing.assert_array_equal(model.tensor(UP, rows=slice(4, 8)), TENSORS[UP][4:8])
        assert model.totals().bytes_fetched - before == 4 * 32 * 4
        np.testing.assert_array_equal(model.tensor(UP, rows=[9, 1, 9]), TENSORS[UP][[9, 1, 9]])


def test_a_plan_says_what_reading_then_costs():
    with opened() as model:
        slices = [mk.TensorSlice.whole(name) for name in TENSORS if "norm" in name]
        plan = model.plan(slices)
        before, n_entries = model.totals(), len(model.fetcher.ledger.entries)
        arrays = model.read(slices)
        after = model.totals()
        assert plan.bytes_to_fetch == after.bytes_fetched - before.bytes_fetched
        assert plan.bytes_needed == sum(array.nbytes for array in arrays)
        assert plan.n_requests == len(model.fetcher.ledger.entries) - n_entries


def test_roles_lead_to_tensors_by_layer():
    with opened() as model:
        assert model.roles["mlp_up"] == {
            layer: (f"model.layers.{layer}.mlp.up_proj.weight",) for layer in range(3)
        }
        assert model.roles["embedding"] == {None: ("model.embed_tokens.weight",)}


def test_planning_a_component_takes_its_tensors_and_no_others():
    with opened() as model:
        plan = mk.plan_components(model, ["norms"])
        assert plan.bytes_needed == (2 * SHAPE.layers + 1) * SHAPE.hidden * 4


def test_a_pass_over_the_whole_model_sees_every_value_once():
    with opened() as model:
        parts: dict[str, list[np.ndarray]] = {}
        for chunk in model.chunks():
            parts.setdefault(chunk.name, []).append(chunk.values)
        for name, values in TENSORS.items():
            np.testing.assert_array_equal(np.concatenate(parts.pop(name)), values.ravel())
        assert parts == {}


def test_an_unknown_tensor_is_answered_with_a_near_name():
    with opened() as model, pytest.raises(BadSelection, match="none with this name") as caught:
        model.tensor("model.layers.1.mlp.up_proj.weigth")
    assert UP in (caught.value.hint or "")


def test_a_budget_stops_a_read_before_it_begins(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    with mk.open_model(str(tmp_path), mk.FetchOptions(byte_budget=10_000)) as model:
        _ = model.index
        spent = model.totals().bytes_fetched
        with pytest.raises(BudgetExceeded, match="budget of 10,000"):
            model.read([mk.TensorSlice.whole(name) for name in TENSORS])
        assert model.totals().bytes_fetched == spent


def test_a_model_without_config_is_known_by_its_names():
    files = {name: data for name, data in FILES.items() if name != "config.json"}
    with opened(files) as model:
        assert model.config is None
        assert model.architecture.family == "llama"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"nonsense", "it is not JSON"),
        (b"[1, 2]", "it is not a JSON object but a list"),
        (b"{" * 200_000, "not JSON|nested"),
        (b"", "it is not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "a whole number has 5000 digits"),
    ],
)
def test_a_broken_config_is_an_error_that_names_it(data, problem):
    with opened({**FILES, "config.json": data}) as model, pytest.raises(ConfigError, match=problem) as caught:
        _ = model.config
    assert "config.json" in str(caught.value)


def test_an_absurdly_long_config_is_not_read():
    files = {**FILES, "config.json": b" " * (_model.MAX_CONFIG_BYTES + 1)}
    with opened(files) as model:
        with pytest.raises(ConfigError, match="expected at most"):
            _ = model.config
        assert model.totals().bytes_fetched == 0


def test_the_tokenizer_is_summed_up():
    tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    with opened({**FILES, "tokenizer.json": json.dumps(tokenizer).encode(), "merges.txt": b""}) as model:
        assert (model.tokenizer.kind, model.tokenizer.vocab_size) == ("BPE", 1)
        assert model.tokenizer.files == ("tokenizer.json", "merges.txt")


def test_a_tokenizer_too_long_for_a_summary_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setattr(_model, "MAX_TOKENIZER_BYTES", 10)
    with opened({**FILES, "tokenizer.json": b"{}" * 10}) as model:
        assert model.tokenizer.vocab_size is None
        (why,) = map(str, model.tokenizer.skipped)
        assert why == "tokenizer.json: not read, it has 20 bytes (limit 10)"


def test_the_examples_in_the_docstrings_are_true():
    assert doctest.testmod(_model).failed == 0


def test_a_large_vocabulary_is_summed_up_from_a_hub(tmp_path):
    vocab = {f"token {number:06d}": number for number in range(262_144)}
    data = json.dumps({"model": {"type": "BPE", "vocab": vocab, "merges": []}}).encode()
    with HubServer({"org/model": {**FILES, "tokenizer.json": data}}) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        with mk.open_model("org/model", fetch) as model:
            assert model.tokenizer.vocab_size == 262_144
            assert model.tokenizer.skipped == ()
