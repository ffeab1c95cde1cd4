"""The kept zoo is what it says it is, and good enough to calibrate on. No torch."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.places import ZOO as KEPT
from tests.support.amount import every

import modelkin
from modelkin.casework.lab import embedded_zoo, load_recipes, load_zoo
from modelkin.casework.lab.builder import started
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of, part_of
from modelkin.casework.lab.derive.layout import axes_of
from modelkin.casework.lab.extra import lab_module
from modelkin.casework.lab.recipes import parse_recipes
from modelkin.errors import MissingExtra, SpecError

EMBEDDED = Path(modelkin.__file__).parent / "demo" / "zoo"
ZOO = load_zoo(KEPT)
BOOK = load_recipes()
MEGABYTE = 1_000_000

Array = np.ndarray[Any, Any]


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def diagonal_z(first: Array, second: Array) -> float:
    """Standard score of the matched pairs among all pairings of rows, over all orders of the second."""
    cosines = first @ second.T
    centred = cosines - cosines.mean(0) - cosines.mean(1, keepdims=True) + cosines.mean()
    return float(np.trace(centred) / np.sqrt(np.square(centred).sum() / (len(centred) - 1)))


def gate_rows(model: Checkpoint) -> dict[str, Array]:
    found = {}
    for name, array in model.tensors.items():
        if re.search(r"(gate_proj|w1|c_fc|intermediate\.dense)\.weight$", name):
            found[name] = unit(array.T if axes_of(name, 2)[1] == "mlp" else array)
    return found


def gate_z(first: Checkpoint, second: Checkpoint) -> float:
    """Layers together; independent models give about a standard normal number."""
    rows = gate_rows(first), gate_rows(second)
    scores = [diagonal_z(rows[0][name], rows[1][name]) for name in rows[0]]
    return float(sum(scores) / len(scores) ** 0.5)


def gains(model: Checkpoint) -> Array:
    one = 1 if model.family == "gemma" else 0
    return np.stack(
        [
            array + one
            for name, array in sorted(model.tensors.items())
            if part_of(name) == "norms" and name.endswith("weight")
        ]
    )


def gain_z(first: Checkpoint, second: Checkpoint) -> float:
    ranks = [np.argsort(np.argsort(gains(model), axis=1), axis=1).astype(float) for model in (first, second)]
    centred = [(rank - rank.mean(1, keepdims=True)).T for rank in ranks]
    return diagonal_z(*centred)


@pytest.fixture(scope="module")
def models():
    return {name: model.load() for name, model in ZOO.items()}


# The files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "limit"), [(KEPT, 40 * MEGABYTE), (EMBEDDED, 5 * MEGABYTE)])
def test_a_zoo_is_small_and_undamaged(folder, limit):
    zoo = load_zoo(folder)
    assert {name: model.damaged() for name, model in zoo.items() if model.damaged()} == {}
    assert sum(len(data) for model in zoo.values() for data in model.files().values()) < limit


def test_every_recipe_is_kept():
    assert list(ZOO) == list(BOOK.recipes)
    for name, recipe in BOOK.recipes.items():
        assert (ZOO[name].parent, ZOO[name].teacher) == (recipe.parent, recipe.teacher)
        assert ZOO[name].relation == recipe.relation
        assert ZOO[name].record["init_seed"] == recipe.init_seed


def test_the_embedded_zoo_is_a_part_of_the_kept_one():
    embedded = embedded_zoo()
    assert set(embedded) == {name for name, recipe in BOOK.recipes.items() if recipe.embedded}
    for name, model in embedded.items():
        assert model.sha256 == ZOO[name].sha256


@pytest.mark.more
@pytest.mark.parametrize("name", ZOO)
def test_a_checkpoint_survives_writing_and_reading(name, tmp_path):
    kept = ZOO[name]
    assert kept.load().files() == {file: data for file, data in kept.files().items() if file != "recipe.json"}
    again = Checkpoint.read(kept.load().write(tmp_path, "F32"))
    for tensor, array in kept.load().tensors.items():
        np.testing.assert_array_equal(again.tensors[tensor], array)


@pytest.mark.parametrize("name", ZOO)
def test_every_tensor_has_a_part_and_axes(name):
    for tensor, array in ZOO[name].load().tensors.items():
        assert part_of(tensor)
        assert len(axes_of(tensor, array.ndim)) == array.ndim


@pytest.mark.parametrize("name", every(2, ZOO))
def test_modelkin_reads_and_knows_the_model(name):
    kept = ZOO[name].load()
    with modelkin.open_model(str(ZOO[name].folder)) as model:
        assert model.architecture.is_known
        assert model.architecture.unknown == ()
        assert model.tokenizer.kind == "BPE"
        for tensor in model.index:
            np.testing.assert_array_equal(model.tensor(tensor), kept.tensors[tensor])


def test_reading_needs_no_torch():
    code = (
        "import sys\nfrom pathlib import Path\nfrom modelkin.casework.lab import load_zoo\n"
        f"load_zoo(Path({str(KEPT)!r}))['base'].load()\n"
        "print(*[name for name in ('torch', 'transformers', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_package_that_is_not_installed_is_named():
    with pytest.raises(MissingExtra, match="training needs the package 'no_such_package'"):
        lab_module("no_such_package")


def test_a_missing_zoo_is_named(tmp_path):
    with pytest.raises(SpecError, match="no zoo was found"):
        load_zoo(tmp_path)


def test_names_of_no_family_are_refused():
    assert layer_of("model.norm.weight") is None
    with pytest.raises(ValueError, match="must be a tensor of a family"):
        part_of("rotary.frequencies")


# The training -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_training_went_somewhere(name):
    record = ZOO[name].record
    assert record["last_loss"] < 0.75 * record["first_loss"]
    # The gains of a rotated model began at one again, and its training was a short one.
    assert record["gain_spread"] > (0.03 if record["relation"] == "rotation" else 0.08)


def test_there_are_enough_independent_pairs_with_equal_config_data_and_order():
    pairs = ZOO.independent_pairs("llama")
    alike = [
        (first.name, second.name)
        for first, second in pairs
        if all(first.record[key] == second.record[key] for key in ("config", "corpus", "order_seed", "steps"))
    ]
    assert len(pairs) >= 45
    assert len(alike) >= 8


def test_raw_cosine_of_gains_accuses_strangers_and_correlation_does_not(models):
    for first, second in ZOO.independent_pairs("llama"):
        pair = gains(models[first.name]), gains(models[second.name])
        if pair[0].shape != pair[1].shape:
            continue
        cosine = np.mean([unit(a[None]) @ unit(b[None]).T for a, b in zip(*pair, strict=True)])
        correlation = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(*pair, strict=True)])
        assert cosine > 0.95
        assert abs(correlation) < 0.15


def test_independent_models_agree_no_more_than_chance(models):
    scores = np.array(
        [
            (gate_z(models[a.name], models[b.name]), gain_z(models[a.name], models[b.name]))
            for a, b in ZOO.independent_pairs()
            if gains(models[a.name]).shape == gains(models[b.name]).shape
        ]
    )
    assert len(scores) >= 70
    # More than a hundred pairs: five sigma, and a spread of one within what so many numbers allow.
    assert np.abs(scores).max() < 4.5
    assert np.abs(scores.mean(axis=0)).max() < 0.5
    assert ((scores.std(axis=0) > 0.7) & (scores.std(axis=0) < 1.3)).all()


KEEPS_UNITS = {
    "fine-tune",
    "continued-pretraining",
    "low-rank",
    "vocabulary-extension",
    "new-tokenizer",
    "new-attention",
    "half-of-layers",
    "same-initialisation",
    "mlps-only",
    "new-heads",
    "new-embeddings",
    "depth-up-scaling",
    "layer-removal",
    "unit-pruning",
    "width-pruning",
    "up-cycling",
    "rotation",
}


@pytest.mark.parametrize("name", [name for name, model in ZOO.items() if model.parent])
def test_children_keep_what_their_recipe_says(name, models):
    recipe = BOOK.recipes[name]
    child, before = models[name], started(recipe, models[ZOO[name].parent])
    if recipe.relation in KEEPS_UNITS:
        assert gate_z(child, before) > 40
    elif recipe.relation != "third-of-layers":
        assert abs(gate_z(child, before)) < 4
    # Of a rotation all gains are one before the training.
    if "norms" in recipe.keep and recipe.relation not in ("third-of-layers", "rotation"):
        assert gain_z(child, before) > 6


def test_a_third_of_the_layers_is_kept_and_no_other(models):
    child, parent = gate_rows(models["third-of-layers"]), gate_rows(models["deep-1"])
    scores = {layer_of(name): diagonal_z(rows, parent[name]) for name, rows in child.items()}
    assert all((score > 10) == (layer in (2, 3)) for layer, score in scores.items())


STARTED = [name for name, recipe in BOOK.recipes.items() if recipe.start is not None]


@pytest.mark.parametrize("name", STARTED)
def test_what_was_made_of_a_parent_was_trained_then(name, models):
    """Further than rounding, and not so far that the child would be a stranger."""
    before = started(BOOK.recipes[name], models[ZOO[name].parent])
    assert {tensor: array.shape for tensor, array in before.tensors.items()} == {
        tensor: array.shape for tensor, array in models[name].tensors.items()
    }
    change = ZOO[name].record["change"]
    assert 0.05 < change["attention"] < 0.8
    assert 0.05 < change["mlp"] < 0.8


# The table of recipes ---------------------------------------------------------------------------------------

SMALL = """
format = 1
[configs.c]
class = "LlamaForCausalLM"
config_class = "LlamaConfig"
[corpora.t]
languages = [1]
domains = ["prose"]
seed = 1
characters = 100
[tokenizers.k]
corpus = "t"
vocab = 300
[defaults]
config = "c"
tokenizer = "k"
corpus = "t"
order_seed = 1
steps = 1
learning_rate = 1e-3
relation = "independent"
[models.one]
init_seed = 1
note = "the first"
"""


def test_a_small_table_is_read():
    book = parse_recipes(SMALL)
    assert book.recipes["one"].steps == 1
    assert [recipe.name for recipe in book.lineage(["one"])] == ["one"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format: expected a whole number from 1 to 1, got 2"),
        ("vocab = 300", "vocab = 300\nsize = 3", r"\[tokenizers.k\]: size: there is no such key"),
        ("init_seed = 1\n", "", "init_seed: it is required, but missing"),
        (
            "init_seed = 1\n",
            "init_seed = true\n",
            "init_seed: expected a whole number from 0 to .*, got True",
        ),
        ('domains = ["prose"]', 'domains = ["verse"]', "expected domains among dialogue, .* got 'verse'"),
        ('domains = ["prose"]', "domains = []", "expected at least one language and one domain"),
        ('corpus = "t"\norder', 'corpus = "u"\norder', "'u' is not defined; known: t"),
        ('note = "the first"', 'note = ""\nparent = "two"\nkeep = ["mlp"]', "'two' should come before"),
        ('note = "the first"', 'note = ""\nkeep = ["mlp"]', "'keep' is for children"),
        (
            'note = "the first"',
            'note = ""\nfreeze = ["gears"]',
            r"freeze\[0\]: expected one of .*embeddings, .* got 'gears'",
        ),
        ('note = "the first"', 'note = ""\nstart = {function = "cast"}', "'start' is for children"),
        ('note = "the first"', 'note = ""\nstart = {function = "melt"}', "'melt' is not defined"),
        (
            'relation = "independent"',
            'relation = "cousin"',
            "relation: expected one of .*independent, .* got 'cousin'",
        ),
        ("[defaults]", "[[defaults]]", "defaults: expected 0 to 99 entries by name, got a list of 1"),
        ("format = 1", "format : 1", "is not TOML"),
    ],
)
def test_a_wrong_table_is_refused(old, new, message):
    assert old in SMALL
    with pytest.raises(SpecError, match=message):
        parse_recipes(SMALL.replace(old, new, 1))


def test_an_unknown_model_is_named():
    with pytest.raises(SpecError, match="no model 'bass'; known: base"):
        BOOK.lineage(["bass"])
