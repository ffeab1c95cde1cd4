"""Factors that one matrix takes up and another gives back, as far as arithmetic can tell."""

import numpy as np
import pytest
from tests.places import ZOO as ZOO_FOLDER

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import part_of

ZOO = load_zoo(ZOO_FOLDER)
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
LAYER = "model.layers.1."


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def base():
    return ZOO["base"].load()


def changed_names(before, after):
    return {
        name.replace("model.layers.", "")[2:] if ".layers." in name else name
        for name, array in before.tensors.items()
        if not np.array_equal(array, after.tensors[name])
    }


def test_only_what_writes_to_the_residual_stream_is_scaled(base):
    scaled = derive.scale_residual(base, factor=4.0)
    assert changed_names(base, scaled) == {EMBEDDING, "self_attn.o_proj.weight", "mlp.down_proj.weight"}
    np.testing.assert_array_equal(scaled.tensors[EMBEDDING], 4 * base.tensors[EMBEDDING])
    assert scaled.config["rms_norm_eps"] == pytest.approx(16 * base.config["rms_norm_eps"])


def test_a_scaled_model_has_an_output_matrix_of_its_own():
    tied = ZOO["tied-1"].load()
    scaled = derive.scale_residual(tied, factor=4.0)
    np.testing.assert_array_equal(scaled.tensors[HEAD], tied.tensors[EMBEDDING])
    assert scaled.config["tie_word_embeddings"] is False


def test_a_residual_stream_of_no_size_or_of_layer_norms_is_refused(base):
    for factor in (0.0, -1.0):
        with pytest.raises(ValueError, match="factor must be above zero"):
            derive.scale_residual(base, factor=factor)
    with pytest.raises(ValueError, match="gpt2 has layer norms"):
        derive.scale_residual(ZOO["gpt2-base"].load(), factor=2.0)


@pytest.mark.parametrize("family", ["base", "qwen2-base", "gemma-base", "moe-base"])
def test_inserted_gains_are_new_and_fold_back_to_the_same_model(family, rng):
    model = ZOO[family].load()
    changed = derive.insert_gains(model, rng=rng, spread=0.3)
    one, other = derive.fold_gains(model), derive.fold_gains(changed)
    for name, array in one.tensors.items():
        np.testing.assert_allclose(other.tensors[name], array, rtol=1e-4, atol=1e-6)
    norms = [name for name in model.tensors if part_of(name) == "norms"]
    plus = 1 if family == "gemma-base" else 0
    ratios = [(changed.tensors[name] + plus) / (model.tensors[name] + plus) for name in norms]
    assert np.log(np.concatenate(ratios)).std() == pytest.approx(0.3, rel=0.15)


def test_gains_after_a_rotation_have_nothing_to_do_with_the_old_ones(base, rng):
    changed = derive.insert_gains(derive.rotate_residual(base, rng=rng), rng=rng)
    norms = [name for name in base.tensors if part_of(name) == "norms"]
    pairs = [np.concatenate([model.tensors[name] for name in norms]) for model in (base, changed)]
    assert changed.tensors[norms[0]].std() > 0.1
    assert abs(np.corrcoef(pairs[0], pairs[1])[0, 1]) < 0.15


def test_signs_of_up_and_down_turn_together(base):
    turned = derive.flip_mlp_signs(base)
    assert changed_names(base, turned) == {"mlp.up_proj.weight", "mlp.down_proj.weight"}
    for part in ("up", "down"):
        name = f"{LAYER}mlp.{part}_proj.weight"
        np.testing.assert_array_equal(turned.tensors[name], -base.tensors[name])
    experts = derive.flip_mlp_signs(ZOO["moe-base"].load())
    assert changed_names(ZOO["moe-base"].load(), experts) == {
        f"block_sparse_moe.experts.{expert}.{part}.weight" for expert in range(4) for part in ("w2", "w3")
    }


def test_scaled_heads_keep_the_product_of_values_and_outputs(base, rng):
    scaled = derive.scale_heads(base, rng=rng)
    assert changed_names(base, scaled) == {"self_attn.v_proj.weight", "self_attn.o_proj.weight"}
    products = []
    for model in (base, scaled):
        values = model.tensors[f"{LAYER}self_attn.v_proj.weight"].reshape(2, 16, 96)
        outputs = model.tensors[f"{LAYER}self_attn.o_proj.weight"].reshape(96, 6, 16)
        products.append(np.einsum("ahd,hdb->hab", outputs, np.repeat(values, 3, axis=0)))
    np.testing.assert_allclose(products[1], products[0], atol=1e-5)


def test_scaled_heads_of_gpt2_leave_queries_and_keys_alone(rng):
    model = ZOO["gpt2-base"].load()
    scaled = derive.scale_heads(model, rng=rng)
    for name in ("transformer.h.1.attn.c_attn.weight", "transformer.h.1.attn.c_attn.bias"):
        old, new = model.tensors[name], scaled.tensors[name]
        np.testing.assert_array_equal(new[..., :192], old[..., :192])
        factors = new[..., 192:] / old[..., 192:]
        heads = factors.reshape(-1, 6, 16)
        np.testing.assert_allclose(heads, np.broadcast_to(heads[:1, :, :1], heads.shape), rtol=1e-4)
