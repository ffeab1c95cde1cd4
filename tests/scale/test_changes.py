"""Models that are derived row by row are what they say: seen on a small one, against whole arrays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scale import changes
from tests.scale.lazy import stored, written
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import ByteRange
from modelkin.tensors import decode, encode

SHAPE = LlamaShape(layers=3, hidden=64, mlp=192, heads=8, kv_heads=4, vocab=96)
LAYER = "model.layers.1."


@pytest.fixture(scope="module")
def checkpoint():
    tensors = {
        name: np.random.default_rng(len(name)).lognormal(size=array.shape).astype(np.float32)
        if array.ndim == 1
        else array
        for name, array in llama_tensors(SHAPE, seed=3).items()
    }
    # What bfloat16 holds: then nothing is rounded on the way in.
    tensors = {
        name: decode(encode(array, "BF16"), "BF16", array.size).reshape(array.shape).astype(np.float32)
        for name, array in tensors.items()
    }
    return Checkpoint(config=llama_config(SHAPE), tensors=tensors)


@pytest.fixture(scope="module")
def base(checkpoint, tmp_path_factory):
    return stored(checkpoint.write(tmp_path_factory.mktemp("base")))


def part(model, name):
    return model.tensors[LAYER + name].whole()


def through_mlp(model):
    return part(model, "mlp.down_proj.weight") @ part(model, "mlp.up_proj.weight")


def through_values(model, heads=8, groups=4):
    values = part(model, "self_attn.v_proj.weight").reshape(groups, -1, SHAPE.hidden)
    output = part(model, "self_attn.o_proj.weight").reshape(SHAPE.hidden, heads, -1)
    return sum(output[:, head] @ values[head // (heads // groups)] for head in range(heads))


def test_a_model_is_read_as_it_lies(base, checkpoint):
    for name, array in checkpoint.tensors.items():
        np.testing.assert_array_equal(base.tensors[name].whole().reshape(array.shape), array)


def test_bytes_are_those_of_the_rows_wherever_a_range_begins(base, checkpoint):
    source = base.source("a")
    with mk.open_model(base.source("a")) as model:
        for name, array in checkpoint.tensors.items():
            np.testing.assert_array_equal(model.tensor(name), array)
        info = model.index[LAYER + "mlp.up_proj.weight"]
    file = source.files()["model.safetensors"]
    whole = source._read(file, ByteRange(0, file.size))
    for start, stop in (
        (0, 5),
        (info.start - 3, info.start + 7),
        (info.start + 129, info.stop + 1),
        (3, 9999),
    ):
        assert source._read(file, ByteRange(start, stop)) == whole[start:stop]


@pytest.mark.parametrize(
    ("lazy", "eager"), [(changes.int8, derive.round_to_int8), (changes.int4, derive.round_to_int4)]
)
def test_rounding_is_that_of_the_lab(base, checkpoint, lazy, eager):
    made, expected = lazy(base), eager(checkpoint)
    for name, array in expected.tensors.items():
        found = made.tensors[name].whole().reshape(array.shape)
        np.testing.assert_allclose(found, array, atol=1e-6)


def test_reordered_units_and_heads_compute_the_same(base):
    made = changes.heads(changes.units(base))
    assert not np.array_equal(part(made, "mlp.up_proj.weight"), part(base, "mlp.up_proj.weight"))
    np.testing.assert_allclose(through_mlp(made), through_mlp(base), atol=1e-5)
    np.testing.assert_allclose(through_values(made), through_values(base), atol=1e-5)


def test_a_reordered_stream_computes_the_same(base):
    made = changes.residual_order(base)
    for one in (made, base):
        assert one.tensors["model.norm.weight"].shape == (SHAPE.hidden,)
    mine, theirs = (
        part(one, "mlp.up_proj.weight") @ part(one, "self_attn.o_proj.weight") for one in (made, base)
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_a_turned_stream_computes_the_same(base):
    made = changes.rotation(base)
    gain = part(base, "post_attention_layernorm.weight")
    expected = (part(base, "mlp.up_proj.weight") * gain) @ part(base, "self_attn.o_proj.weight")
    found = part(made, "mlp.up_proj.weight") @ part(made, "self_attn.o_proj.weight")
    # What writes to the stream is held in bfloat16.
    np.testing.assert_allclose(found, expected, atol=2**-7 * np.abs(expected).max())
    assert (part(made, "post_attention_layernorm.weight") == 1).all()
    # No dimension stays where it was.
    both = [item / np.linalg.norm(item, axis=1, keepdims=True) for item in (
        made.tensors["model.embed_tokens.weight"].whole(), base.tensors["model.embed_tokens.weight"].whole()
    )]  # fmt: skip
    assert np.abs((both[0] * both[1]).sum(axis=1)).mean() < 0.3


@pytest.mark.parametrize("size", [0.05, 0.5])
def test_noise_has_its_size_and_is_the_same_for_every_order_of_reading(base, size):
    made = changes.noise(size)(base).tensors[LAYER + "mlp.up_proj.weight"]
    plain = base.tensors[LAYER + "mlp.up_proj.weight"].whole()
    difference = made.whole() - plain
    assert difference.std() / plain.std() == pytest.approx(size, rel=0.1)
    np.testing.assert_array_equal(made.get(np.array([9, 3])), made.whole()[[9, 3]])


def test_what_is_added_has_its_rank_and_size(base):
    made = changes.low_rank(4, 0.1)(base)
    plain = part(base, "mlp.down_proj.weight")
    difference = part(made, "mlp.down_proj.weight") - plain
    assert np.linalg.matrix_rank(difference, tol=1e-4) == 4
    assert np.linalg.norm(difference) / np.linalg.norm(plain) == pytest.approx(0.1, rel=0.2)


def test_the_given_share_is_set_to_zero(base):
    made = changes.pruned(0.5)(base)
    assert (part(made, "mlp.down_proj.weight") == 0).mean() == pytest.approx(0.5, abs=0.03)
    assert (part(made, "input_layernorm.weight") != 0).all()


def test_fewer_units_are_a_selection(base):
    made = changes.fewer_units(0.67)(base)
    assert made.config["intermediate_size"] == 128
    kept = {row.tobytes() for row in part(made, "mlp.gate_proj.weight")}
    assert len(kept) == 128
    assert kept < {row.tobytes() for row in part(base, "mlp.gate_proj.weight")}


def test_layers_are_chosen_repeated_and_merged(base):
    made = changes.in_layers([[0], [0, 2], [2]])(base)
    assert made.config["num_hidden_layers"] == 3
    name = "model.layers.{}.mlp.up_proj.weight"
    old = [base.tensors[name.format(layer)].whole() for layer in range(3)]
    np.testing.assert_array_equal(made.tensors[name.format(2)].whole(), old[2])
    np.testing.assert_allclose(made.tensors[name.format(1)].whole(), (old[0] + old[2]) / 2, atol=1e-6)


def test_a_shuffled_model_keeps_numbers_and_no_place(base):
    made = changes.shuffled(base)
    for name in ("mlp.up_proj.weight", "input_layernorm.weight"):
        mine, theirs = part(made, name), part(base, name)
        np.testing.assert_array_equal(np.sort(mine, axis=None), np.sort(theirs, axis=None))
        assert (mine == theirs).mean() < 0.2
    mixed = changes.merged_with(changes.shuffled, 0.25)(base)
    expected = 0.75 * part(base, "mlp.up_proj.weight") + 0.25 * part(made, "mlp.up_proj.weight")
    np.testing.assert_allclose(part(mixed, "mlp.up_proj.weight"), expected, atol=1e-6)


def test_new_norms_and_embeddings_have_nothing_of_the_old(base):
    made = changes.new_norms_and_embeddings(base)
    np.testing.assert_array_equal(part(made, "mlp.up_proj.weight"), part(base, "mlp.up_proj.weight"))
    mine, theirs = (one.tensors["model.embed_tokens.weight"].whole() for one in (made, base))
    assert abs(np.corrcoef(mine.ravel(), theirs.ravel())[0, 1]) < 0.1


def test_a_cut_has_the_sizes_of_another_model(base):
    sizes = {"vocab": 80, "residual": 32, "mlp": 96, "query": 32, "key": 16, "value": 16}
    made = changes.cut({**sizes, "heads": 4, "kv_heads": 2, "head_dim": 8}, first=1.0)(base)
    assert part(made, "mlp.down_proj.weight").shape == (32, 96)
    np.testing.assert_array_equal(
        part(made, "mlp.up_proj.weight"), part(base, "mlp.up_proj.weight")[-96:, -32:]
    )
    with mk.open_model(made.source("cut")) as model:
        assert model.architecture.sizes["heads"] == 4
        assert not model.architecture.unknown


def test_the_first_layers_of_a_model_are_written_once(checkpoint, tmp_path):
    folder = checkpoint.write(tmp_path / "whole")
    first = written(str(folder), tmp_path / "first", layers=2)
    made = stored(first)
    assert made.config["num_hidden_layers"] == 2
    np.testing.assert_array_equal(
        part(made, "mlp.up_proj.weight"), checkpoint.tensors[LAYER + "mlp.up_proj.weight"]
    )
    before = (first / "model.safetensors").stat().st_mtime_ns
    assert written(str(folder), first, layers=2) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == before
