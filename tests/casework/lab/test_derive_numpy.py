"""Derived models, as far as arithmetic can tell; `test_derive.py` tests that functions are preserved."""

import numpy as np
import pytest
from tests.casework.lab.functions import documented_changes
from tests.places import ZOO as ZOO_FOLDER

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of, part_of
from modelkin.casework.lab.corpus import CorpusSpec, corpus_text

ZOO = load_zoo(ZOO_FOLDER)
FAMILIES = ["base", "tied-1", "qwen2-base", "gpt2-base", "moe-base", "gemma-base", "bert-base"]
GATE = "model.layers.{}.mlp.gate_proj.weight"
UP = "model.layers.{}.mlp.up_proj.weight"
DOWN = "model.layers.{}.mlp.down_proj.weight"
EMBEDDING = "model.embed_tokens.weight"


@pytest.fixture(scope="module")
def base():
    return ZOO["base"].load()


@pytest.fixture(scope="module")
def tuned():
    return ZOO["finetune-light"].load()


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def shapes(model: Checkpoint) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in model.tensors.items()}


def assert_same(first: Checkpoint, second: Checkpoint) -> None:
    assert first.tensors.keys() == second.tensors.keys()
    for name, array in first.tensors.items():
        np.testing.assert_array_equal(array, second.tensors[name], err_msg=name)


def relative_change(first: Checkpoint, second: Checkpoint, name: str) -> float:
    difference = first.tensors[name] - second.tensors[name]
    return float(np.linalg.norm(difference) / np.linalg.norm(second.tensors[name]))


RANDOM = [
    "flip_residual_signs",
    "insert_gains",
    "mix_values",
    "permute_heads",
    "permute_mlp_units",
    "permute_residual",
    "renew_embeddings",
    "reorder_vocabulary",
    "rotate_residual",
    "scale_heads",
    "scale_mlp_units",
    "turn_rope_pairs",
]


def test_the_documentation_names_every_function():
    assert sorted(documented_changes()) == sorted(derive.__all__)


@pytest.mark.parametrize("name", RANDOM)
def test_a_change_is_reproducible_and_leaves_its_input_alone(name, base):
    before = {tensor: array.copy() for tensor, array in base.tensors.items()}
    change = getattr(derive, name)
    one, same, other = (change(base, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_same(one, same)
    assert any(not np.array_equal(one.tensors[tensor], other.tensors[tensor]) for tensor in one.tensors)
    for tensor, array in before.items():
        np.testing.assert_array_equal(base.tensors[tensor], array)


@pytest.mark.parametrize("name", RANDOM)
def test_a_symmetry_keeps_names_shapes_and_single_precision(name, base, rng):
    changed = getattr(derive, name)(base, rng=rng)
    assert shapes(changed) == shapes(base)
    assert {array.dtype for array in changed.tensors.values()} == {np.dtype(np.float32)}


# Symmetries -------------------------------------------------------------------------------------------------


def test_mlp_units_move_together(base, rng):
    changed = derive.permute_mlp_units(base, rng=rng)
    for layer in range(4):
        old, new = base.tensors[GATE.format(layer)], changed.tensors[GATE.format(layer)]
        order = np.array([int(np.flatnonzero((old == row).all(axis=1))[0]) for row in new])
        assert sorted(order) == list(range(160))
        assert (order != np.arange(160)).any()
        np.testing.assert_array_equal(
            changed.tensors[UP.format(layer)], base.tensors[UP.format(layer)][order]
        )
        np.testing.assert_array_equal(
            changed.tensors[DOWN.format(layer)], base.tensors[DOWN.format(layer)][:, order]
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_reordering_keeps_the_numbers_of_every_tensor_of_a_layer(family, rng):
    model = ZOO[family].load()
    for change in (derive.permute_mlp_units, derive.permute_heads, derive.permute_residual):
        changed = change(model, rng=rng)
        moved = [
            name for name in model.tensors if not np.array_equal(changed.tensors[name], model.tensors[name])
        ]
        assert len(moved) >= 6
        for name in moved:
            np.testing.assert_array_equal(
                np.sort(changed.tensors[name], axis=None), np.sort(model.tensors[name], axis=None)
            )


def test_gains_follow_the_residual_order(base, rng):
    changed = derive.permute_residual(base, rng=rng)
    old, new = base.tensors["model.norm.weight"], changed.tensors["model.norm.weight"]
    order = np.argsort(old, kind="stable")[np.argsort(np.argsort(new, kind="stable"))]
    if len(np.unique(old)) == len(old):
        np.testing.assert_array_equal(changed.tensors[EMBEDDING], base.tensors[EMBEDDING][:, order])
    np.testing.assert_array_equal(np.sort(new), np.sort(old))


def test_experts_move_with_their_router_rows(rng):
    model = ZOO["moe-base"].load()
    changed = derive.permute_experts(model, rng=rng)
    router, expert = (
        "model.layers.0.block_sparse_moe.gate.weight",
        "model.layers.0.block_sparse_moe.experts.{}.w1.weight",
    )
    for number in range(4):
        (old,) = np.flatnonzero((model.tensors[router] == changed.tensors[router][number]).all(axis=1))
        np.testing.assert_array_equal(
            changed.tensors[expert.format(number)], model.tensors[expert.format(old)]
        )


def test_signs_flip_twice_to_the_same_model(base):
    once = derive.flip_residual_signs(base, rng=np.random.default_rng(3))
    assert_same(derive.flip_residual_signs(once, rng=np.random.default_rng(3)), base)
    np.testing.assert_array_equal(once.tensors["model.norm.weight"], base.tensors["model.norm.weight"])


def test_a_rotation_keeps_products_over_the_residual_stream(base, rng):
    folded, rotated = derive.fold_gains(base), derive.rotate_residual(base, rng=rng)
    for first, second in [(EMBEDDING, GATE.format(0)), (GATE.format(2), UP.format(2))]:
        np.testing.assert_allclose(
            rotated.tensors[first] @ rotated.tensors[second].T,
            folded.tensors[first] @ folded.tensors[second].T,
            atol=1e-4,
        )
    assert relative_change(rotated, folded, GATE.format(0)) > 1


@pytest.mark.parametrize(("family", "value"), [("base", 1), ("gemma-base", 0)])
def test_folded_gains_are_constant(family, value):
    folded = derive.fold_gains(ZOO[family].load())
    assert "lm_head.weight" in folded.tensors
    norms = [array for name, array in folded.tensors.items() if part_of(name) == "norms"]
    assert {float(number) for array in norms for number in array} == {float(value)}


def test_folding_unties_tied_embeddings():
    assert derive.fold_gains(ZOO["tied-1"].load()).config["tie_word_embeddings"] is False


def test_scaled_units_keep_the_product_of_up_and_down(base, rng):
    changed = derive.scale_mlp_units(base, rng=rng)
    products = [model.tensors[DOWN.format(1)] @ model.tensors[UP.format(1)] for model in (base, changed)]
    np.testing.assert_allclose(products[1], products[0], atol=1e-4)
    ratio = changed.tensors[UP.format(1)][:, 0] / base.tensors[UP.format(1)][:, 0]
    assert 40 < (ratio < 0).sum() < 120


def test_turned_pairs_keep_the_scores_of_equal_positions(base, rng):
    changed = derive.turn_rope_pairs(base, rng=rng)
    scores = []
    for model in (base, changed):
        query = model.tensors["model.layers.0.self_attn.q_proj.weight"].reshape(6, 16, 96)
        key = model.tensors["model.layers.0.self_attn.k_proj.weight"].reshape(2, 16, 96)
        scores.append(np.einsum("hda,hdb->hab", query, np.repeat(key, 3, axis=0)))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-4)


@pytest.mark.parametrize(
    "name", ["flip_residual_signs", "insert_gains", "rotate_residual", "scale_mlp_units", "turn_rope_pairs"]
)
def test_symmetries_that_gpt2_does_not_have_are_refused(name, rng):
    with pytest.raises(ValueError, match="gpt2 has"):
        getattr(derive, name)(ZOO["gpt2-base"].load(), rng=rng)


def test_another_family_is_refused(base, rng):
    with pytest.raises(ValueError, match="family must be one of"):
        derive.permute_heads(base.with_tensors({}, model_type="mamba"), rng=rng)


# Numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_rounding_stays_near_and_leaves_embeddings_and_norms_alone(family):
    model = ZOO[family].load()
    for rounded, most in [(derive.round_to_int8(model), 0.02), (derive.round_to_int4(model), 0.2)]:
        for name, array in model.tensors.items():
            if array.ndim == 2 and part_of(name) in ("attention", "mlp"):
                assert 0 < relative_change(rounded, model, name) < most
            else:
                np.testing.assert_array_equal(rounded.tensors[name], array)


def test_rounded_rows_have_few_values(base):
    rows = derive.round_to_int4(base).tensors[GATE.format(0)].reshape(-1, 32)
    assert max(len(np.unique(row)) for row in rows) <= 16
    assert max(len(np.unique(row)) for row in derive.round_to_int8(base).tensors[GATE.format(0)]) <= 96


def test_pruning_removes_the_smallest(base):
    pruned = derive.prune_by_magnitude(base, fraction=0.5)
    array, before = pruned.tensors[GATE.format(3)], base.tensors[GATE.format(3)]
    assert np.mean(array == 0) == pytest.approx(0.5, abs=0.01)
    assert np.abs(before[array == 0]).max() <= np.abs(before[array != 0]).min()
    with pytest.raises(ValueError, match="fraction must be in"):
        derive.prune_by_magnitude(base, fraction=50)


def test_noise_has_the_size_asked_for(base, rng):
    noisy = derive.add_noise(base, size=0.1, rng=rng)
    for name in (EMBEDDING, GATE.format(0), "model.norm.weight"):
        difference = noisy.tensors[name] - base.tensors[name]
        assert difference.std() == pytest.approx(0.1 * base.tensors[name].std(), rel=0.25)


def test_casting_what_is_already_cast_changes_nothing(base):
    assert_same(derive.cast(base, "BF16"), base)
    assert relative_change(derive.cast(base, "F8_E4M3"), base, GATE.format(0)) > 0.01


# Merges -----------------------------------------------------------------------------------------------------


def test_merges_end_at_their_models(base, tuned):
    assert_same(derive.merge_linear([base, tuned], [1, 0]), base)
    assert_same(derive.merge_slerp(base, tuned, t=0), base)
    for merged in (derive.merge_slerp(base, tuned, t=1), derive.merge_tasks(base, [(tuned, 1.0)])):
        for name, array in tuned.tensors.items():
            np.testing.assert_allclose(merged.tensors[name], array, atol=1e-6)


def test_a_slerp_of_strangers_keeps_their_length(base):
    other = ZOO["twin-1"].load()
    merged = derive.merge_slerp(base, other, t=0.5)
    lengths = [np.linalg.norm(model.tensors[GATE.format(0)]) for model in (base, other, merged)]
    assert lengths[2] == pytest.approx(np.mean(lengths[:2]), rel=0.01)
    straight = derive.merge_linear([base, other], [0.5, 0.5])
    assert np.linalg.norm(straight.tensors[GATE.format(0)]) < 0.8 * lengths[2]


def test_tasks_add_up(base, tuned):
    sibling = ZOO["finetune-sibling"].load()
    merged = derive.merge_tasks(base, [(tuned, 0.5), (sibling, 0.3)])
    expected = (
        0.2 * base.tensors[EMBEDDING] + 0.5 * tuned.tensors[EMBEDDING] + 0.3 * sibling.tensors[EMBEDDING]
    )
    np.testing.assert_allclose(merged.tensors[EMBEDDING], expected, atol=1e-6)


def test_models_of_other_shapes_are_not_merged(base):
    with pytest.raises(ValueError, match=r"equal shapes: lm_head.weight has \(512, 96\)"):
        derive.merge_slerp(base, ZOO["continued"].load())
    with pytest.raises(ValueError, match="one for each of 2 models, got 1"):
        derive.merge_linear([base, base], [1.0])


def test_parts_are_copied_and_nothing_else(base):
    other = ZOO["twin-1"].load()
    mixed = derive.copy_parts(other, base, parts=["mlp"], layers=[1, 2])
    for name, array in mixed.tensors.items():
        source = base if name.split(".")[2:4] in (["1", "mlp"], ["2", "mlp"]) else other
        np.testing.assert_array_equal(array, source.tensors[name])
    moved = derive.copy_parts(other, base, layers={0: 3})
    np.testing.assert_array_equal(moved.tensors[GATE.format(0)], base.tensors[GATE.format(3)])
    assert_same(derive.copy_parts(other, base), base)


# Surgery ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_added_rows_come_last(family, rng):
    model = ZOO[family].load()
    grown = derive.extend_vocabulary(model, n_new=16, rng=rng)
    assert grown.config["vocab_size"] == 528
    for name, array in model.tensors.items():
        np.testing.assert_array_equal(grown.tensors[name][: len(array)], array)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_are_left_out_and_repeated(family):
    model = ZOO[family].load()
    shorter, longer = derive.reorder_layers(model, [0, 2]), derive.reorder_layers(model, [0, 1, 1, 2])
    assert len(shorter.tensors) < len(model.tensors)
    assert longer.config["n_layer" if family == "gpt2-base" else "num_hidden_layers"] == 4
    for name in (name for name in model.tensors if layer_of(name) == 2):
        np.testing.assert_array_equal(shorter.tensors[name.replace(".2.", ".1.", 1)], model.tensors[name])
        np.testing.assert_array_equal(longer.tensors[name.replace(".2.", ".3.", 1)], model.tensors[name])


def test_a_layer_that_is_not_there_is_refused(base):
    with pytest.raises(ValueError, match=r"layers must be in \[0, 4\), got 4"):
        derive.reorder_layers(base, [0, 4])


def test_an_idle_layer_writes_nothing(base):
    grown = derive.insert_idle_layer(base, before=2)
    assert grown.config["num_hidden_layers"] == 5
    assert not grown.tensors[DOWN.format(2)].any()
    assert_same(derive.reorder_layers(grown, [0, 1, 3, 4]), base)


@pytest.mark.parametrize("family", FAMILIES)
def test_pruned_widths_keep_the_order(family):
    model = ZOO[family].load()
    narrow = derive.prune_mlp_units(model, n_kept=40)
    assert narrow.config["n_inner" if family == "gpt2-base" else "intermediate_size"] == 40
    assert {shape for shape in shapes(narrow).values() if 40 in shape}
    if family in ("gpt2-base", "bert-base"):
        with pytest.raises(ValueError, match="heads are as wide as the model allows"):
            derive.prune_residual(model, n_kept=48)
        return
    thin = derive.prune_residual(model, n_kept=48)
    assert (thin.config["hidden_size"], thin.config["head_dim"]) == (48, 16)
    norm = next(name for name in model.tensors if part_of(name) == "norms")
    kept = iter(model.tensors[norm].tolist())
    assert all(number in kept for number in thin.tensors[norm].tolist())


# Text -------------------------------------------------------------------------------------------------------


def test_a_corpus_is_reproducible_and_languages_differ():
    def text(language: int) -> str:
        return corpus_text(CorpusSpec(languages=(language,), domains=("prose",), seed=1, characters=20_000))

    assert text(1) == text(1)
    words = [set(text(language).split()) for language in (1, 2)]
    assert 0.02 < len(words[0] & words[1]) / len(words[0] | words[1]) < 0.5
