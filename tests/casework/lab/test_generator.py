"""The generator of the zoo: same seeds give the same models, norms move, children start from parents."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest
from tests.places import ZOO as KEPT

from modelkin.casework.lab import build_zoo, load_recipes, load_zoo
from modelkin.casework.lab.builder import Builder, encode, saved, shared_rows, vocabulary
from modelkin.casework.lab.checkpoint import Checkpoint, part_of
from modelkin.casework.lab.training import new_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]

ZOO = load_zoo(KEPT)
BOOK = load_recipes()


@pytest.fixture(scope="module")
def builder() -> Builder:
    return Builder(BOOK, KEPT)


def gains(model: Any) -> dict[str, Any]:
    return {
        name: parameter.detach().numpy().copy()
        for name, parameter in model.named_parameters()
        if part_of(name) == "norms" and name.endswith("weight")
    }


def weights(model: Any) -> dict[str, Any]:
    return {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("config", BOOK.configs)
def test_norms_start_at_one(config):
    model = new_model(BOOK.configs[config], vocab=512, seed=1)
    start = 0.0 if config == "gemma" else 1.0  # Gemma adds one to what it stores
    assert {float(value) for array in gains(model).values() for value in array} == {start}


@pytest.mark.parametrize("name", BOOK.tokenizers)
def test_tokenizers_are_made_anew_as_they_are_kept(name, builder):
    user = next(recipe for recipe in BOOK.recipes.values() if recipe.tokenizer == name)
    made = builder.tokenizer(name)
    assert made == ZOO[user.name].load().tokenizer
    assert sorted(vocabulary(made).values()) == list(range(BOOK.tokenizers[name].vocab))


def test_tokenizers_overlap_in_part(builder):
    shared = shared_rows(builder.tokenizer("a"), builder.tokenizer("b"))
    assert 280 < len(shared) < 480
    assert len(shared_rows(builder.tokenizer("a"), builder.tokenizer("a-extended"))) == 512


def test_added_words_are_used(builder):
    tokens = encode(builder.tokenizer("a-extended"), builder.text("gamma")[:20_000])
    assert np.mean(np.array(tokens) >= 512) > 0.1


@pytest.mark.parametrize("name", BOOK.recipes)
def test_training_starts_where_the_kept_model_started(name, builder):
    """One step of every recipe: initialisation, parent, teacher and data are the recorded ones."""
    _, trained = builder.train(BOOK.recipes[name], steps=1)
    assert trained.first_loss == pytest.approx(ZOO[name].record["first_loss"], abs=2e-3)


@pytest.mark.parametrize("name", ["twin-1", "moe-base"])
def test_same_seeds_give_the_same_weights_and_others_do_not(name, builder):
    recipe = BOOK.recipes[name]
    (first, losses), (second, again) = (builder.train(recipe, steps=40) for _ in range(2))
    assert losses == again
    for tensor, array in weights(first).items():
        np.testing.assert_array_equal(array, weights(second)[tensor])
    assert losses.last_loss < 0.85 * losses.first_loss
    moved = [array.std() for array in gains(first).values()]
    assert min(moved) > 0.005


def test_frozen_norms_stay_and_then_move(builder):
    recipe = BOOK.recipes["norms-only"]
    parent = ZOO["base"].load().tensors
    model, _ = builder.train(recipe, steps=20)
    for name, array in gains(model).items():
        np.testing.assert_array_equal(array, parent[name])
    assert recipe.freeze_steps < recipe.steps
    kept = ZOO["norms-only"].load().tensors["model.norm.weight"]
    assert not np.array_equal(kept, parent["model.norm.weight"])


def test_a_low_rank_update_has_its_rank(builder):
    parent = ZOO["base"].load().tensors
    model, _ = builder.train(BOOK.recipes["lora"], steps=10)
    for name, array in weights(model).items():
        difference = array - parent[name]
        if part_of(name) in ("attention", "mlp"):
            values = np.linalg.svd(difference, compute_uv=False)
            assert values[0] > 0
            assert values[4] < 1e-4 * values[0]
        else:
            assert not difference.any()


def test_a_kept_child_can_be_trained_anew(builder):
    """Within what other machines may differ by: the update goes the same way."""
    model, _ = builder.train(BOOK.recipes["finetune-light"])
    parent, kept = ZOO["base"].load().tensors, ZOO["finetune-light"].load().tensors
    for name, array in weights(model).items():
        updates = [(other - parent[name]).ravel() for other in (array, kept[name])]
        cosine = updates[0] @ updates[1] / np.linalg.norm(updates[0]) / np.linalg.norm(updates[1])
        assert cosine > 0.8, name


def test_a_zoo_is_built_with_its_ancestors_and_only_once(tmp_path):
    shutil.copytree(KEPT / "base", tmp_path / "base")
    shutil.copytree(KEPT / "finetune-light", tmp_path / "finetune-light")
    told: list[str] = []
    build_zoo(BOOK, tmp_path, only=["grandchild"], report=lambda record: told.append(record["name"]))
    assert told == ["grandchild"]
    zoo = load_zoo(tmp_path)
    assert list(zoo) == ["base", "finetune-light", "grandchild"]
    assert zoo.root("grandchild") == "base"
    assert zoo["grandchild"].damaged() == []
    assert zoo["grandchild"].record["change"]["norms"] < 0.1


def test_names_are_those_of_the_hub(builder):
    model = new_model(BOOK.configs["mixtral"], vocab=512, seed=1)
    checkpoint = saved(model, builder.tokenizer("a"))
    assert isinstance(checkpoint, Checkpoint)
    assert checkpoint.tensors.keys() == ZOO["moe-base"].load().tensors.keys()
    assert "model.layers.0.block_sparse_moe.experts.3.w2.weight" in checkpoint.tensors
