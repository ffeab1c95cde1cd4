"""Other numbers of units, heads, experts and tokens, as far as arithmetic can tell."""

import json

import numpy as np
import pytest
from tests.places import ZOO as ZOO_FOLDER

from modelkin.casework.lab import derive, load_zoo

ZOO = load_zoo(ZOO_FOLDER)
FAMILIES = ["base", "tied-1", "qwen2-base", "gpt2-base", "moe-base", "gemma-base", "bert-base"]
EMBEDDING = "model.embed_tokens.weight"
GATE = "model.layers.{}.mlp.gate_proj.weight"


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def base():
    return ZOO["base"].load()


def rows(array):
    return [row.tobytes() for row in np.ascontiguousarray(array)]


# Units, dimensions and heads --------------------------------------------------------------------------------


def test_scrambled_units_are_the_ordered_ones_in_another_order(base, rng):
    ordered = derive.prune_mlp_units(base, n_kept=100)
    scrambled = derive.prune_mlp_units(base, n_kept=100, rng=rng)
    for layer in range(4):
        one, other = (rows(model.tensors[GATE.format(layer)]) for model in (ordered, scrambled))
        assert one != other
        assert sorted(one) == sorted(other)
        order = [one.index(row) for row in other]
        down = f"model.layers.{layer}.mlp.down_proj.weight"
        np.testing.assert_array_equal(scrambled.tensors[down], ordered.tensors[down][:, order])


def test_scrambled_dimensions_are_the_ordered_ones_in_another_order(base, rng):
    ordered = derive.prune_residual(base, n_kept=72)
    scrambled = derive.prune_residual(base, n_kept=72, rng=rng)
    one, other = (rows(model.tensors[EMBEDDING].T) for model in (ordered, scrambled))
    assert one != other
    order = [one.index(row) for row in other]
    for name in ("model.norm.weight", "model.layers.2.self_attn.q_proj.weight"):
        np.testing.assert_array_equal(scrambled.tensors[name], ordered.tensors[name][..., order])


@pytest.mark.parametrize(("family", "per_group"), [("base", 2), ("qwen2-base", 1), ("moe-base", 1)])
def test_fewer_heads_are_old_ones_in_their_order(family, per_group):
    model = ZOO[family].load()
    fewer = derive.prune_heads(model, per_group=per_group)
    assert fewer.config["num_attention_heads"] == 2 * per_group
    assert fewer.config["head_dim"] == 16
    for layer in range(fewer.config["num_hidden_layers"]):
        stem = f"model.layers.{layer}.self_attn."
        old = rows(model.tensors[f"{stem}q_proj.weight"].reshape(-1, 16 * model.config["hidden_size"]))
        new = rows(fewer.tensors[f"{stem}q_proj.weight"].reshape(-1, 16 * model.config["hidden_size"]))
        kept = [old.index(row) for row in new]
        assert kept == sorted(kept)
        per_group_before = len(old) // 2
        assert [head // per_group_before for head in kept] == [0] * per_group + [1] * per_group
        outputs = model.tensors[f"{stem}o_proj.weight"].reshape(-1, len(old), 16)
        np.testing.assert_array_equal(
            fewer.tensors[f"{stem}o_proj.weight"].reshape(-1, len(kept), 16), outputs[:, kept]
        )
        np.testing.assert_array_equal(
            fewer.tensors[f"{stem}k_proj.weight"], model.tensors[f"{stem}k_proj.weight"]
        )


def test_a_number_of_heads_that_is_not_there_is_refused(base):
    for per_group in (0, 4):
        with pytest.raises(ValueError, match=f"per_group must be from 1 to 3, got {per_group}"):
            derive.prune_heads(base, per_group=per_group)


# Experts ----------------------------------------------------------------------------------------------------


def test_experts_are_copies_of_the_dense_mlp(base, rng):
    made = derive.upcycle(base, n_experts=3, rng=rng)
    assert made.family == "mixtral"
    assert made.config["num_local_experts"] == 3
    names = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    for layer in range(4):
        assert made.tensors[f"model.layers.{layer}.block_sparse_moe.gate.weight"].shape == (3, 96)
        for expert in range(3):
            for place, old in names.items():
                np.testing.assert_array_equal(
                    made.tensors[f"model.layers.{layer}.block_sparse_moe.experts.{expert}.{place}.weight"],
                    base.tensors[f"model.layers.{layer}.mlp.{old}.weight"],
                )
    assert not any(".mlp." in name for name in made.tensors)


def test_noise_makes_experts_differ_by_its_size(base, rng):
    made = derive.upcycle(base, n_experts=2, noise=0.2, rng=rng)
    dense = base.tensors[GATE.format(0)]
    moves = [
        made.tensors[f"model.layers.0.block_sparse_moe.experts.{expert}.w1.weight"] - dense
        for expert in range(2)
    ]
    assert [move.std() / dense.std() for move in moves] == pytest.approx([0.2, 0.2], rel=0.05)
    assert abs(np.corrcoef(moves[0].ravel(), moves[1].ravel())[0, 1]) < 0.05


def test_a_family_that_mixtral_cannot_hold_is_refused(rng):
    with pytest.raises(ValueError, match="must be a llama without biases, got qwen2"):
        derive.upcycle(ZOO["qwen2-base"].load(), n_experts=2, rng=rng)


# Tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_adds_zeros_up_to_a_multiple(family):
    model = ZOO[family].load()
    padded = derive.pad_vocabulary(model, multiple=100)
    assert padded.config["vocab_size"] == 600
    for name, array in model.tensors.items():
        np.testing.assert_array_equal(padded.tensors[name][: len(array)], array)
        assert not padded.tensors[name][len(array) :].any()
    assert derive.pad_vocabulary(model, multiple=64).config["vocab_size"] == 512


def test_tokens_keep_their_rows_under_other_numbers(base, rng):
    changed = derive.reorder_vocabulary(base, rng=rng)
    old, new = (json.loads(str(model.tokenizer)) for model in (base, changed))
    assert old["model"]["merges"] == new["model"]["merges"]
    vocabularies = old["model"]["vocab"], new["model"]["vocab"]
    assert vocabularies[0].keys() == vocabularies[1].keys()
    assert sorted(vocabularies[1].values()) == list(range(512))
    for token, number in vocabularies[0].items():
        for name in (EMBEDDING, "lm_head.weight"):
            np.testing.assert_array_equal(
                changed.tensors[name][vocabularies[1][token]], base.tensors[name][number]
            )
    for token in new["added_tokens"]:
        assert vocabularies[1][token["content"]] == token["id"]
    assert changed.config["eos_token_id"] == vocabularies[1]["</s>"]
    assert changed.config["pad_token_id"] is None


def test_rows_without_a_tokenizer_have_no_names(base, rng):
    nameless = type(base)(config=base.config, tensors=base.tensors)
    with pytest.raises(ValueError, match="must have a tokenizer"):
        derive.reorder_vocabulary(nameless, rng=rng)


@pytest.mark.parametrize("family", FAMILIES)
def test_new_token_rows_have_the_old_size_and_nothing_else(family, rng):
    model = ZOO[family].load()
    renewed = derive.renew_embeddings(model, rng=rng)
    changed = [
        name for name in model.tensors if not np.array_equal(renewed.tensors[name], model.tensors[name])
    ]
    assert all(len(model.tensors[name]) == 512 for name in changed)
    for name in changed:
        pair = model.tensors[name].ravel(), renewed.tensors[name].ravel()
        assert pair[1].std() == pytest.approx(pair[0].std(), rel=0.1)
        assert abs(np.corrcoef(pair[0], pair[1])[0, 1]) < 0.2


# Merges -----------------------------------------------------------------------------------------------------


def test_dropping_keeps_the_mean_difference(base, rng):
    child = ZOO["finetune-light"].load()
    merged = derive.merge_dare(base, [(child, 1.0)], dropped=0.8, rng=rng)
    move = merged.tensors[EMBEDDING] - base.tensors[EMBEDDING]
    whole = child.tensors[EMBEDDING] - base.tensors[EMBEDDING]
    left = move != 0
    assert np.mean(left[whole != 0]) == pytest.approx(0.2, abs=0.02)
    np.testing.assert_allclose(move[left], 5 * whole[left], rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match=r"dropped must be in \[0, 1\), got 1"):
        derive.merge_dare(base, [(child, 1.0)], dropped=1.0, rng=rng)


def test_signs_are_elected(base):
    def shifted(*numbers: float):
        gains = base.tensors["model.norm.weight"].copy()
        gains[: len(numbers)] += np.array(numbers, dtype=np.float32)
        return base.with_tensors({"model.norm.weight": gains})

    children = [shifted(1.0, 1.0, 0.5), shifted(3.0, -2.0, 0.0)]
    merged = derive.merge_ties(base, children, kept=0.05, weight=2.0)
    move = merged.tensors["model.norm.weight"] - base.tensors["model.norm.weight"]
    np.testing.assert_allclose(move[:3], [4.0, -4.0, 1.0], atol=1e-5)
    assert not move[3:].any()
    with pytest.raises(ValueError, match=r"kept must be in \(0, 1\], got 0"):
        derive.merge_ties(base, children, kept=0)
