"""The embedded models are those of the zoo, whole and known."""

import json

import pytest

import modelkin as mk
from modelkin.casework.lab import embedded_zoo
from modelkin.demo import DEMO_MODELS, copy_demo_models, demo_zoo
from modelkin.errors import UsageError

NAMES = sorted(embedded_zoo())


def test_nothing_was_damaged_on_the_way():
    assert {name: model.damaged() for name, model in embedded_zoo().items()} == {name: [] for name in NAMES}


def test_the_promised_relations_are_there():
    relations = {model.relation for model in embedded_zoo().values()}
    assert {"independent", "fine-tune", "continued-pretraining", "norms-only"} <= relations
    assert {"moe-base", "moe-tuned"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_one_is_a_model_that_modelkin_knows(name):
    with mk.open_model(f"demo:{name}") as model:
        assert model.architecture.is_known
        assert model.architecture.unknown == ()


def test_they_fit_into_a_package():
    with demo_zoo() as folder:
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6_000_000
        assert json.loads((folder / "zoo.json").read_text())


def test_every_one_can_be_named():
    assert sorted(DEMO_MODELS) == NAMES


def test_copies_are_the_same_files_and_overwrite_nothing(tmp_path):
    copied = copy_demo_models(tmp_path / "zoo")
    assert [folder.name for folder in copied] == list(DEMO_MODELS)
    with demo_zoo() as zoo:
        for path in zoo.rglob("*.*"):
            if path.is_file():
                assert (tmp_path / "zoo" / path.relative_to(zoo)).read_bytes() == path.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        copy_demo_models(tmp_path / "zoo")
