"""Ways in which strangers were once accused, or a comparison crashed: each stays fixed."""

import json

import numpy as np
import pytest
from tests.places import ZOO
from tests.support import LlamaShape, llama_config, llama_tensors
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.comparison.methods.tied import is_tied
from modelkin.comparison.verdict import Conclusion
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource
from modelkin.tokenizer import read_vocabulary

RNG = np.random.default_rng(0)


def unknown(seed, shared, *, width=64):
    rng = np.random.default_rng(seed)
    tensors = {"body.weight": rng.normal(size=(width, 64)).astype(np.float32), **shared}
    return MemorySource(
        {"model.safetensors": safetensors_bytes(tensors), "config.json": b'{"model_type": "zzz"}'},
        name=f"unknown-{seed}",
    )


def sinusoid(rows, columns):
    places = np.arange(rows)[:, None] / 10000 ** (np.arange(0, columns, 2) / columns)
    return np.concatenate([np.sin(places), np.cos(places)], axis=1).astype(np.float32)


TABLES = {
    "sinusoid": sinusoid(512, 128),
    "large sinusoid": sinusoid(2048, 256),
    "window": np.hanning(1024).astype(np.float32),
    "mask": np.tril(np.ones((64, 64), np.float32)),
    "identity": np.eye(64, dtype=np.float32),
    "ramp": (np.arange(1024) / 1024).astype(np.float32),
    "indices": np.arange(4096, dtype=np.int64).reshape(64, 64),
    "bool mask": np.tril(np.ones((64, 64), bool)),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_two_unknown_models_share_is_no_kinship(table):
    result = mk.compare(
        candidate=unknown(1, {"pe.table": TABLES[table]}),
        base=unknown(2, {"pe.table": TABLES[table]}, width=80),
    )
    assert not result.verdict.related
    assert result.relation.kind == "unknown"


def test_an_unknown_model_and_its_copy_are_identical():
    result = mk.compare(candidate=unknown(1, {}), base=unknown(1, {}))
    assert result.verdict.conclusion is Conclusion.IDENTICAL
    assert result.relation.kind == "copy"


@pytest.fixture(scope="module")
def zoo():
    return load_zoo(ZOO)


def changed(checkpoint, change):
    return checkpoint.with_tensors(
        {name: change(name, value.copy()) for name, value in checkpoint.tensors.items()}
    )


def compared(candidate, base, **options):
    return mk.compare(
        candidate=MemorySource(candidate.files(), name="candidate"),
        base=MemorySource(base.files(), name="base"),
        options=mk.CompareOptions(**options),
    )


def test_equal_trivial_gains_do_not_overrule_a_test_that_found_nothing(zoo):
    def trivial(_, value):
        if value.ndim == 1:
            value[:] = 1
            value[0] = 0.5
        return value

    models = [changed(zoo[name].load(), trivial) for name in ("base", "twin-1")]
    assert not compared(*models, depth="quick").verdict.related


def random_llama(seed, *, layers, repeated=False, hidden=64):
    shape = LlamaShape(layers=layers, hidden=hidden, mlp=64, heads=4, kv_heads=2)
    tensors = llama_tensors(shape, seed=seed)
    if repeated:
        tensors = {
            name: tensors[f"model.layers.0.{name.split('.', 3)[3]}"]
            if name.startswith("model.layers.")
            else value
            for name, value in tensors.items()
        }
    return MemorySource(
        {
            "config.json": json.dumps(llama_config(shape)).encode(),
            "model.safetensors": safetensors_bytes(tensors),
        },
        name=f"random-{seed}",
    )


@pytest.mark.more
@pytest.mark.parametrize("seed", every(3, range(6)))
def test_layers_that_both_models_repeat_are_not_counted_as_many(seed):
    once = mk.compare(
        candidate=random_llama(2 * seed, layers=1), base=random_llama(2 * seed + 1, layers=1)
    ).verdict
    often = mk.compare(
        candidate=random_llama(2 * seed, layers=12, repeated=True),
        base=random_llama(2 * seed + 1, layers=12, repeated=True),
        options=mk.CompareOptions(depth="deep"),
    ).verdict
    assert not often.related
    best_once, best_often = (verdict.components["mlp"].log10_p for verdict in (once, often))
    assert best_once is not None
    assert best_often is not None
    assert best_often >= best_once - 2.5  # the same accident, once or twelve times


def test_models_that_begin_near_the_identity_are_not_testable_there(zoo):
    def near_identity(name, value):
        if "v_proj" in name:
            return (np.eye(*value.shape) + 0.1 * RNG.normal(size=value.shape)).astype(np.float32)
        return value

    result = compared(*(changed(zoo[name].load(), near_identity) for name in ("base", "twin-1")))
    assert not result.verdict.related
    values = [test for test in result.evidence if test.role == "attention_value" and test.axis == "v_dim"]
    assert len(values) == 4
    assert all("tied to coordinate" in str(test.reason) for test in values)


def test_trained_models_are_not_taken_for_tied(zoo):
    for name in ("base", "gpt2-base", "bert-base", "moe16-1"):
        for tensor, value in zoo[name].load().tensors.items():
            if value.ndim == 2:
                units = value.T if "embed" in tensor or "wte" in tensor or "wpe" in tensor else value
                assert not is_tied(units), (name, tensor)


@pytest.mark.parametrize("padded", [4, 12, 24])
def test_padded_dimensions_do_not_count(zoo, padded):
    def pad(_, value):
        if value.ndim == 1:
            value[-padded:] = 0
        return value

    models = [changed(zoo[name].load(), pad) for name in ("base", "twin-1")]
    result = compared(*models, depth="quick")
    assert not result.verdict.related
    assert result.evidence[0].details["dimensions_left_out"] == padded


def test_models_stored_input_first_and_output_first_can_be_compared():
    """GPT-2 keeps its matrices transposed; at real sizes the samples of both layouts must still agree."""
    from tests.architecture.handwritten_cases import recorded

    config, shapes = recorded("gpt2")
    assert config is not None
    rng = np.random.default_rng(3)
    width, mlp = 256, 1024
    scale = {config["n_embd"]: width, 4 * config["n_embd"]: mlp, 3 * config["n_embd"]: 3 * width}
    config = {**config, "n_embd": width, "n_inner": mlp, "n_head": 4}
    gpt2 = {
        name: rng.normal(size=[scale.get(n, n) for n in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_bytes(gpt2)}
    shape = LlamaShape(layers=2, hidden=width, mlp=mlp, heads=4, kv_heads=4)
    other = {
        "config.json": json.dumps(llama_config(shape)).encode(),
        "model.safetensors": safetensors_bytes(llama_tensors(shape)),
    }
    for one, two in ((files, other), (other, files)):
        result = mk.compare(candidate=MemorySource(one), base=MemorySource(two))
        assert not result.verdict.related


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_values_that_are_no_numbers_do_not_stop_a_comparison(poison):
    bad = RNG.normal(size=(64, 64)).astype(np.float32)
    bad[0, 0] = poison
    result = mk.compare(candidate=unknown(1, {"x": bad}), base=unknown(2, {"x": bad}))
    assert not result.verdict.related
    assert mk.Comparison.from_json(result.to_json()) == result


def test_a_tokenizer_made_to_hang_does_not():
    assert read_vocabulary(b'{"vocab":{' + b'\\"' * 500_000) is None


def test_changed_attention_is_no_copy(zoo):
    base = zoo["base"].load()
    child = changed(base, lambda name, value: 1.5 * value + 0.1 if "q_proj" in name else value)
    result = compared(child, base)
    assert result.verdict.related
    assert result.relation.kind == "unknown"


@pytest.mark.parametrize("dtypes", [("BF16", "F32"), ("F16", "F32"), ("F16", "BF16")])
def test_a_cast_is_a_precision_copy_in_either_direction(zoo, dtypes):
    base = derive.cast(zoo["base"].load(), "F32")
    result = mk.compare(
        candidate=MemorySource(base.files(dtypes[0])), base=MemorySource(base.files(dtypes[1]))
    )
    assert result.relation.kind == "precision-copy"


def test_identical_models_with_a_hole_in_them_are_identical(zoo):
    def hole(_, value):
        value.flat[0] = np.nan
        return value

    model = changed(zoo["base"].load(), hole)
    assert compared(model, model).verdict.conclusion is Conclusion.IDENTICAL
