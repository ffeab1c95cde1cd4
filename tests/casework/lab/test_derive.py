"""Changes that claim to preserve the function do: transformers runs the models before and after."""

from __future__ import annotations

import numpy as np
import pytest
from tests.casework.lab.functions import TOKENS, assert_same_function, documented_changes, logits
from tests.places import ZOO as ZOO_FOLDER

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]

ZOO = load_zoo(ZOO_FOLDER)
FAMILIES = ["base", "tied-1", "qwen2-base", "gpt2-base", "moe-base", "gemma-base", "bert-base"]
RMS = [name for name in FAMILIES if name not in ("gpt2-base", "bert-base")]


def checkpoint(name: str) -> Checkpoint:
    return ZOO[name].load()


def changed(name: str, function: str) -> Checkpoint:
    return getattr(derive, function)(checkpoint(name), rng=np.random.default_rng(8))  # type: ignore[no-any-return]


EVERYWHERE = ["permute_heads", "permute_mlp_units", "permute_residual", "scale_heads"]
WITH_RMS_NORMS = [
    "flip_residual_signs",
    "insert_gains",
    "mix_values",
    "rotate_residual",
    "scale_mlp_units",
    "turn_rope_pairs",
]


@pytest.mark.parametrize("function", EVERYWHERE)
@pytest.mark.parametrize("name", FAMILIES)
def test_reordering_preserves_the_function(name, function, tmp_path):
    assert_same_function(checkpoint(name), changed(name, function), tmp_path)


@pytest.mark.parametrize("function", WITH_RMS_NORMS)
@pytest.mark.parametrize("name", RMS)
def test_symmetries_of_rms_models_preserve_the_function(name, function, tmp_path):
    assert_same_function(checkpoint(name), changed(name, function), tmp_path)


@pytest.mark.parametrize("name", RMS)
def test_folding_gains_preserves_the_function(name, tmp_path):
    assert_same_function(checkpoint(name), derive.fold_gains(checkpoint(name)), tmp_path)


def test_inputs_scaled_against_the_gains_preserve_the_function(tmp_path):
    scaled = derive.scale_inputs(checkpoint("base"), spread=0.3, rng=np.random.default_rng(8))
    assert_same_function(checkpoint("base"), scaled, tmp_path)


@pytest.mark.parametrize("name", RMS)
def test_an_idle_layer_preserves_the_function(name, tmp_path):
    assert_same_function(checkpoint(name), derive.insert_idle_layer(checkpoint(name), before=1), tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_new_rows_preserve_the_logits_of_old_tokens(name, tmp_path):
    grown = derive.extend_vocabulary(checkpoint(name), n_new=16, rng=np.random.default_rng(8))
    assert_same_function(checkpoint(name), grown, tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_of_zeros_preserve_the_logits_of_old_tokens(name, tmp_path):
    padded = derive.pad_vocabulary(checkpoint(name), multiple=100)
    assert padded.config["vocab_size"] == 600
    assert_same_function(checkpoint(name), padded, tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_numbers_of_tokens_give_the_same_logits_under_them(name, tmp_path):
    from modelkin.casework.lab.builder import vocabulary

    model, changed = (
        checkpoint(name),
        derive.reorder_vocabulary(checkpoint(name), rng=np.random.default_rng(8)),
    )
    names = {number: token for token, number in vocabulary(str(model.tokenizer)).items()}
    found = vocabulary(str(changed.tokenizer))
    number = np.array([found[names[old]] for old in range(512)])
    old, new = logits(model, tmp_path / "before"), logits(changed, tmp_path / "after", number[TOKENS])
    np.testing.assert_allclose(new[..., number], old, rtol=0, atol=2e-4 * old.std())


@pytest.mark.parametrize("factor", [3.0, 0.5])
@pytest.mark.parametrize("name", RMS)
def test_another_size_of_the_residual_stream_preserves_the_function(name, factor, tmp_path):
    assert_same_function(checkpoint(name), derive.scale_residual(checkpoint(name), factor=factor), tmp_path)


@pytest.mark.parametrize("name", RMS)
def test_other_signs_of_up_and_down_preserve_the_function(name, tmp_path):
    assert_same_function(checkpoint(name), derive.flip_mlp_signs(checkpoint(name)), tmp_path)


@pytest.mark.parametrize("name", ["base", "tied-1", "heads8-1"])
def test_equal_experts_preserve_the_function_and_others_do_not(name, tmp_path):
    model = checkpoint(name)
    equal = derive.upcycle(model, n_experts=4, rng=np.random.default_rng(8))
    assert_same_function(model, equal, tmp_path)
    noisy = derive.upcycle(model, n_experts=4, noise=0.3, rng=np.random.default_rng(8))
    before, after = logits(model, tmp_path / "dense"), logits(noisy, tmp_path / "noisy")
    assert np.abs(after - before).max() > 0.01 * before.std()


def test_reordering_experts_preserves_the_function(tmp_path):
    assert_same_function(checkpoint("moe-base"), changed("moe-base", "permute_experts"), tmp_path)


@pytest.mark.parametrize("name", ["base", "qwen2-base", "moe-base"])
def test_everything_at_once_preserves_the_function(name, tmp_path):
    """The attack that leaves no tensor of a copy in its old place."""
    model = checkpoint(name)
    for function in (*EVERYWHERE, *WITH_RMS_NORMS):
        model = getattr(derive, function)(model, rng=np.random.default_rng(9))
    assert_same_function(checkpoint(name), model, tmp_path)


def test_every_function_that_claims_to_preserve_is_tried():
    tried = {
        *EVERYWHERE,
        *WITH_RMS_NORMS,
        "fold_gains",
        "insert_idle_layer",
        "extend_vocabulary",
        "flip_mlp_signs",
        "pad_vocabulary",
        "permute_experts",
        "reorder_vocabulary",
        "scale_inputs",
        "scale_residual",
        "upcycle",
    }
    assert tried == {name for name, same in documented_changes().items() if same not in ("no", "nearly")}


@pytest.mark.parametrize(
    "other",
    [
        derive.round_to_int8,
        derive.round_to_int4,
        derive.prune_by_magnitude,
        lambda model: derive.add_noise(model, size=0.05, rng=np.random.default_rng(1)),
        lambda model: derive.reorder_layers(model, [0, 1, 2]),
        lambda model: derive.reorder_layers(model, [0, 1, 1, 2, 3]),
        lambda model: derive.prune_mlp_units(model, n_kept=120),
        lambda model: derive.prune_mlp_units(model, n_kept=120, rng=np.random.default_rng(1)),
        lambda model: derive.prune_residual(model, n_kept=72),
        lambda model: derive.prune_residual(model, n_kept=72, rng=np.random.default_rng(1)),
        lambda model: derive.prune_heads(model, per_group=2),
        lambda model: derive.renew_embeddings(model, rng=np.random.default_rng(1)),
        lambda model: derive.merge_ties(
            model, [checkpoint("finetune-light"), checkpoint("finetune-sibling")]
        ),
        lambda model: derive.merge_dare(
            model, [(checkpoint("finetune-light"), 1.0)], rng=np.random.default_rng(1)
        ),
        lambda model: derive.merge_slerp(model, checkpoint("finetune-light")),
        lambda model: derive.copy_parts(checkpoint("twin-1"), model, layers=[0, 1]),
    ],
)
def test_other_changes_load_and_change_the_function(other, tmp_path):
    """Guard of the comparison, and a check that reshaped models still fit their config."""
    model = checkpoint("base")
    before, after = logits(model, tmp_path / "before"), logits(other(model), tmp_path / "after")
    assert np.abs(after - before).max() > 0.01 * before.std()


@pytest.mark.parametrize("name", FAMILIES)
def test_pruned_models_of_every_family_load(name, tmp_path):
    model = checkpoint(name)
    assert np.isfinite(logits(derive.prune_mlp_units(model, n_kept=32), tmp_path / "units")).all()
    assert np.isfinite(logits(derive.reorder_layers(model, [0, 2]), tmp_path / "layers")).all()


@pytest.mark.parametrize(("name", "per_group"), [("base", 1), ("qwen2-base", 2), ("moe-base", 1)])
def test_models_with_fewer_heads_load(name, per_group, tmp_path):
    fewer = derive.prune_heads(checkpoint(name), per_group=per_group)
    assert np.isfinite(logits(fewer, tmp_path)).all()


def test_the_kept_models_predict(tmp_path):
    """The rounded file still knows what was learnt: its loss is near that of the end of training."""
    from modelkin.casework.lab import load_recipes
    from modelkin.casework.lab.builder import Builder, encode

    builder = Builder(load_recipes(), tmp_path)
    tokens = encode(builder.tokenizer("a"), builder.text("alpha"))[: 40 * 48]
    batch = torch.tensor(tokens).reshape(40, 48)
    model = transformers.AutoModelForCausalLM.from_pretrained(ZOO["base"].folder, dtype=torch.float32).eval()
    with torch.no_grad():
        loss = float(model(input_ids=batch, labels=batch).loss)
    assert loss == pytest.approx(ZOO["base"].record["last_loss"], abs=0.2)
