"""Models that share a recipe, newly trained: masks, initial values, nested units. None is a relative."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.casework.lab.lookalikes import (
    Lookalike,
    beginning_of,
    load_kinds,
    load_lookalikes,
    mask_of,
    model_of_kind,
    teacher_of_kinds,
    train_lookalike,
)
from tests.places import LOOKALIKES

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

STEPS = 120


def test_masks_are_what_their_names_say():
    assert (mask_of("2:4", (8, 16), seed=0).reshape(8, 4, 4).sum(axis=2) == 2).all()
    assert mask_of("random", (300, 300), seed=0).mean() == pytest.approx(1 / 6, abs=0.01)
    block = mask_of("block", (16, 16), seed=1)
    assert {block[row : row + 8, 0:8].mean() for row in (0, 8)} <= {0.0, 1.0}
    butterfly = mask_of("butterfly", (16, 16), seed=0)
    assert (butterfly.sum(axis=1) == 5).all()
    assert butterfly.diagonal().all()


@pytest.mark.parametrize("kind", ["hadamard", "cosine"])
def test_beginnings_have_orthogonal_rows_and_no_random_number(kind):
    rows = beginning_of(kind, (64, 64), scale=1.0)
    products = rows @ rows.T
    assert np.abs(products - np.diag(np.diag(products))).max() < 1e-3
    assert (rows == beginning_of(kind, (64, 64), scale=1.0)).all()


def test_the_kept_models_are_those_of_the_table():
    assert sorted(path.name for path in LOOKALIKES.iterdir()) == sorted(load_lookalikes())


def test_the_kept_models_have_what_they_are_kept_for():
    one, two = (Checkpoint.read(LOOKALIKES / name).tensors for name in ("masked-1", "masked-2"))
    name = "model.layers.0.mlp.up_proj.weight"
    assert ((one[name] == 0) == (two[name] == 0)).mean() > 0.999
    assert (one[name] == 0).mean() == pytest.approx(5 / 6, abs=0.03)
    tables = [
        Checkpoint.read(LOOKALIKES / model).tensors["model.embed_tokens.weight"]
        for model in ("teacher", "frozen-1", "frozen-2", "started")
    ]
    assert (tables[0] == tables[1]).all()
    assert (tables[0] == tables[2]).all()
    assert not (tables[0] == tables[3]).all()


def test_models_of_kinds_differ_in_seed_order_and_name():
    made = [model_of_kind(name, seed, wide=True) for name in load_kinds() for seed in range(3)]
    for field in ("name", "init_seed", "order_seed"):
        assert len({getattr(recipe, field) for recipe in made}) == len(made)
    assert {recipe.teacher for recipe in made} == {teacher_of_kinds(wide=True).name}


def test_students_take_no_layer_over_and_copies_learn_no_states():
    for kind in load_kinds().values():
        assert not (kind.student and kind.keep)
        assert kind.student == (kind.states is not None)
        assert not (kind.frozen and kind.keep_layers)  # parts are frozen in all layers or in none


@pytest.mark.lab
@pytest.mark.filterwarnings("ignore")
def test_a_partial_copy_holds_what_it_took_over():
    pytest.importorskip("torch")
    teacher = train_lookalike(replace(teacher_of_kinds(wide=False), steps=2))
    recipe = replace(model_of_kind("attention-frozen", 0, wide=False), steps=2)
    copy = train_lookalike(recipe, teacher)
    same = {name for name, value in copy.tensors.items() if (value == teacher.tensors[name]).all()}
    assert same == {name for name in copy.tensors if "self_attn" in name}


def strangers(**kind):
    return [
        Lookalike(
            name=f"stranger-{seed}",
            init_seed=seed,
            corpus=corpus,
            order_seed=seed,
            steps=STEPS,
            note="",
            **kind,
        )
        for seed, corpus in ((31, "alpha"), (32, "beta"))
    ]


@pytest.mark.lab
@pytest.mark.filterwarnings("ignore")  # of other people's packages
@pytest.mark.parametrize(
    "kind",
    [
        {"mask": "2:4"},
        {"mask": "block"},
        {"mask": "butterfly"},
        {"beginning": "hadamard"},
        {"beginning": "cosine", "mask": "random"},
        {"beginning": "zero"},
    ],
    ids=str,
)
def test_strangers_of_one_recipe_are_strangers(kind):
    pytest.importorskip("torch")
    models = [train_lookalike(recipe) for recipe in strangers(**kind)]
    candidate, base = (MemorySource(model.files(), name=f"model-{n}") for n, model in enumerate(models))
    for depth in ("standard", "deep"):
        result = mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(depth=depth))
        assert not result.verdict.related


@pytest.mark.lab
@pytest.mark.filterwarnings("ignore")
def test_strangers_with_nested_units_are_strangers(monkeypatch):
    """Units are dropped from the end, more often the later they come, as supernets and Matryoshkas do."""
    torch = pytest.importorskip("torch")
    from modelkin.casework.lab.training import new_model as made

    def nested(*arguments, **options):
        model = made(*arguments, **options)
        rng = np.random.default_rng(options["seed"])

        def drop(module, inputs):
            (values,) = inputs
            kept = int(rng.integers(8, values.shape[-1] + 1)) if module.training else values.shape[-1]
            return (torch.where(torch.arange(values.shape[-1]) < kept, values, 0.0),)

        for layer in model.model.layers:
            layer.mlp.down_proj.register_forward_pre_hook(drop)
        return model

    monkeypatch.setattr("tests.casework.lab.lookalikes.new_model", nested)
    models = [train_lookalike(recipe) for recipe in strangers()]
    candidate, base = (MemorySource(model.files(), name=f"model-{n}") for n, model in enumerate(models))
    for depth in ("standard", "deep"):
        result = mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(depth=depth))
        assert not result.verdict.related
