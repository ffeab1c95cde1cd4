"""Ways in which the deep stage once accused strangers: each stays fixed.

Models here are random numbers with a design in common (repeated layers, near-identity matrices, dead units):
whatever they share, it is not weights.
"""

import json

import numpy as np
import pytest
from tests.comparison.disguises import disguised
from tests.places import ZOO
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.comparison.controls import Memory, scores_of
from modelkin.comparison.methods import Agreement, Tested
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.stages import judge
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say
from modelkin.source import MemorySource

WIDTH = 64
TOKENS = np.random.default_rng(5).normal(size=(400, WIDTH)).astype(np.float32)


def random_model(seed, change=None, *, layers=4, mlp=128, embeddings=None):
    """Return a model of random numbers; `change` takes a tensor's name, the tensor, a generator and all."""
    shape = LlamaShape(layers=layers, hidden=WIDTH, mlp=mlp, heads=4, kv_heads=2, vocab=len(TOKENS))
    tensors = llama_tensors(shape, seed=seed)
    if embeddings is not None:
        tensors["model.embed_tokens.weight"] = embeddings
    rng = np.random.default_rng([seed, 7])
    if change is not None:
        tensors = {
            name: np.asarray(change(name, value, rng, tensors), np.float32) for name, value in tensors.items()
        }
    return MemorySource(
        {
            "config.json": json.dumps(llama_config(shape)).encode(),
            "model.safetensors": safetensors_bytes(tensors),
        },
        name=f"random-{seed}",
    )


def same_geometry(seed):
    """Return embeddings of strangers that read the same text: alike up to a rotation."""
    rng = np.random.default_rng([seed, 11])
    noisy = TOKENS + 0.3 * rng.normal(size=TOKENS.shape)
    return (noisy @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]).astype(np.float32)


def deep(candidate, base, controls=()):
    return mk.compare(
        candidate=candidate, base=base, controls=controls, options=mk.CompareOptions(depth="deep")
    )


def layer_of(name):
    parts = name.split(".", 3)
    return (int(parts[2]), parts[3]) if name.startswith("model.layers.") else None


def repeating(period):
    def change(name, value, rng, tensors):
        place = layer_of(name)
        return value if place is None else tensors[f"model.layers.{place[0] % period}.{place[1]}"]

    return change


@pytest.mark.parametrize("period", [1, 3])
def test_a_map_learned_from_units_is_not_tested_on_copies_of_these_units(period):
    """Grown or weight-shared models: an odd layer is an even one again, so a map of one fits the other."""
    result = deep(
        random_model(1, repeating(period), layers=12), random_model(2, repeating(period), layers=12)
    )
    learned = [frame for frame in result.alignment.frames if frame.learned_from == say("even-layers")]
    assert [frame.kind for frame in learned] == ["rotation"]  # the trap is there
    assert learned[0].fit > 0.1
    assert not result.verdict.related


# Agreement of units, and their order ------------------------------------------------------------------------


def readers(make):
    """Return a change of what MLPs read with; `make` gets the shape and a generator."""

    def change(name, value, rng, tensors):
        return make(value.shape, rng) if "gate_proj" in name or "up_proj" in name else value

    return change


def dead_units(name, value, rng, tensors):
    if "gate_proj" not in name and "up_proj" not in name:
        return value
    return value * (np.arange(len(value)) >= 0.7 * len(value))[:, None]


def gate_near_up(name, value, rng, tensors):
    if "up_proj" not in name:
        return value
    return tensors[name.replace("up_", "gate_")] + 0.002 * rng.normal(size=value.shape)


def near_identity(shape, rng):
    return np.eye(shape[1])[np.arange(shape[0]) % shape[1]] + 0.05 * rng.normal(size=shape)


@pytest.mark.parametrize("change", [dead_units, gate_near_up], ids=["dead units", "gate near up"])
def test_units_that_agree_by_design_have_no_agreement(change):
    """Units of zeros all match the first unit, in every matrix; equal matrices match alike."""
    result = deep(
        random_model(1, change, embeddings=same_geometry(1)),
        random_model(2, change, embeddings=same_geometry(2)),
    )
    assert not result.verdict.related
    shares = [test.effect.value for test in result.evidence if isinstance(test, Agreement)]
    assert len(shares) == 4
    assert max(shares) < 0.2


@pytest.mark.parametrize("change", [dead_units, readers(near_identity)], ids=["dead units", "near identity"])
def test_where_only_embeddings_are_shared_nothing_else_is_said_to_be(change):
    result = deep(
        random_model(1, change, embeddings=TOKENS), random_model(2, change, mlp=128, embeddings=TOKENS)
    )
    said = {name: part.conclusion.value for name, part in result.verdict.components.items()}
    assert [name for name, what in said.items() if what.startswith("shared")] == ["embedding"]


def sorted_curve(shape, rng):
    """Return units sorted by norm whose direction turns with their norm."""
    angle = np.linspace(0, np.pi, shape[0])
    rows = 0.02 * rng.normal(size=shape)
    rows[:, 0] += np.cos(angle)
    rows[:, 1] += np.sin(angle)
    return rows * np.linspace(1, 3, shape[0])[:, None]


@pytest.mark.parametrize("make", [near_identity, sorted_curve])
def test_an_order_that_both_models_have_by_design_is_no_common_order(make):
    result = deep(
        random_model(1, readers(make), embeddings=TOKENS),
        random_model(2, readers(make), mlp=96, embeddings=TOKENS),
    )
    orders = [test for test in result.evidence if test.method == "mlp-order"]
    assert len(orders) == 4
    assert {test.status for test in orders} == {"skipped"}
    assert not result.verdict.components["mlp"].conclusion.value.startswith("shared")


# Patterns ---------------------------------------------------------------------------------------------------


def in_strides(*names):
    """Return a change that joins units and dimensions of the same remainder, as grouped layers do."""

    def change(name, value, rng, tensors):
        if not any(part in name for part in names):
            return value
        rows, columns = (np.arange(n) % 16 for n in value.shape)
        return np.where(np.equal.outer(rows, columns), value, 0.02 * value)

    return change


@pytest.mark.parametrize("names", [("gate_proj", "up_proj"), ("o_proj", "down_proj")])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_models_made_of_strided_groups_do_not_share_their_pattern_as_weights(names, seed):
    change = in_strides(*names)
    result = deep(random_model(seed, change, mlp=256), random_model(seed + 1, change, mlp=256))
    assert not result.verdict.related


# Corrections ------------------------------------------------------------------------------------------------


def test_a_control_that_is_given_twice_counts_once():
    """Copies of one control would make a p-value as small as anybody likes."""
    models = [
        mk.open_model(random_model(seed, mlp=64, layers=2, embeddings=same_geometry(seed)))
        for seed in (1, 2, 3, 4)
    ]
    pair = ModelPair(candidate=models[0], base=models[1], options=mk.CompareOptions(depth="deep"))
    memory = Memory(lambda pair, memory: (judge(pair, memory).verdict, ()))
    again = mk.open_model(random_model(3, mlp=64, layers=2, embeddings=same_geometry(3)))
    assert len(scores_of(pair, models[2:3], memory)) == 2
    assert len(scores_of(pair, models[2:], memory)) == 5
    assert scores_of(pair, [*models[2:], again, models[3]], memory) == scores_of(pair, models[2:], memory)


@pytest.mark.parametrize("name", ["expert-map", "mlp-matching", "head-matching"])
def test_tests_of_chosen_layers_pay_for_all_they_were_chosen_from(name):
    """Pairs of layers are proposed by maps of the same weights, and layers that show nothing are dropped."""
    zoo = load_zoo(ZOO)
    base = zoo["moe16-1" if name == "expert-map" else "base"].load()
    disguise = "experts" if name == "expert-map" else "units" if name == "mlp-matching" else "heads"
    child = disguised(base, disguise)
    result = deep(MemorySource(child.files(), name="child"), MemorySource(base.files(), name="base"))
    found = [test for test in result.evidence if test.method == name and isinstance(test, Tested)]
    layers = base.config["num_hidden_layers"]
    experts = base.config["num_local_experts"] if name == "expert-map" else 1
    assert found
    assert {test.details["cells"] for test in found} == {layers**2 * experts}
    assert all(test.log10_p < -9 for test in found)
