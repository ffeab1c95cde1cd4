"""Roles of tensors whose names say nothing: guessed where shapes leave no doubt, else left open."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.comparison.renamed import anonymous, in_order_of_use, own_words, renamed
from tests.places import ZOO as ZOO_FOLDER

from modelkin.architecture import Role, detect
from modelkin.architecture.guess import natural_order
from modelkin.casework.lab import load_zoo

ZOO = load_zoo(ZOO_FOLDER)
FAMILIES = {
    "base": "llama",
    "tied-1": "llama",
    "qwen2-base": "llama",
    "gpt2-base": "gpt2",
    "bert-base": "bert",
}
CERTAIN = {
    "llama": {Role.EMBEDDING, Role.MLP_GATE, Role.MLP_UP, Role.MLP_DOWN},
    "gpt2": {Role.EMBEDDING, Role.MLP_UP, Role.MLP_DOWN, Role.ATTENTION_VALUE, Role.ATTENTION_OUTPUT},
    "bert": {Role.EMBEDDING, Role.MLP_UP, Role.MLP_DOWN},
}


def shapes_of(model):
    return {name: array.shape for name, array in model.tensors.items()}


def found_in(model, *, config=True):
    shapes = shapes_of(model)
    return detect(model.config if config else None, shapes, order=sorted(shapes))


def roles(architecture, own=lambda name: name):
    found: dict[str, set[object]] = {}
    for entry in architecture.tensors:
        found.setdefault(own(entry.tensor), set()).add((entry.role, entry.layer, entry.part, entry.axes))
    return found


@pytest.mark.parametrize("config", [True, False], ids=["config", "no config"])
@pytest.mark.parametrize("order", [sorted, in_order_of_use], ids=["sorted", "used"])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_guessed_is_true(name, order, config):
    """Every role that is given, with its layer and the meaning of its axes, is the right one."""
    model = ZOO[name].load()
    own = {f"w_{number}": tensor for number, tensor in enumerate(order(list(model.tensors)))}
    guessed = found_in(anonymous(model, order=order), config=config)
    assert guessed.guessed
    assert guessed.family == FAMILIES[name]
    truth = roles(detect(model.config if config else None, shapes_of(model)))
    for tensor, said in roles(guessed, own.__getitem__).items():
        assert said == truth[tensor], tensor
    assert {entry.role for entry in guessed.tensors} >= CERTAIN[FAMILIES[name]]
    assert len(guessed.tensors) + len(guessed.unknown) >= len(model.tensors)


def test_projections_of_one_size_get_no_role():
    """Queries rotate with the position and values do not: a test on the wrong axis would accuse strangers."""
    guessed = found_in(anonymous(ZOO["base"].load()))
    assert not {entry.component for entry in guessed.tensors} & {"attention"}
    reasons = {str(item.reason) for item in guessed.unknown}
    assert reasons == {
        "guessed: tensors of this shape mean different things, and nothing says which is which"
    }
    assert len(guessed.unknown) == 4 * 4
    assert str(guessed.notes[0]).startswith("guessed: the names of the tensors say nothing")


def test_words_in_names_settle_what_shapes_do_not():
    model = ZOO["base"].load()
    guessed = found_in(own_words(model))
    assert guessed.guessed
    assert guessed.unknown == ()
    query = guessed.find(Role.ATTENTION_QUERY, 2)
    assert query is not None
    assert query.tensor == "blk.2.attn.q"


def test_words_settle_the_attention_of_bert():
    words = {"attention.self.": "", "attention.output.dense": "wo", "bert.encoder.layer": "b"}

    def change(name):
        for old, new in words.items():
            name = name.replace(old, new)
        return name

    guessed = found_in(renamed(ZOO["bert-base"].load(), change))
    for role, name in ((Role.ATTENTION_KEY, "key"), (Role.ATTENTION_OUTPUT, "wo")):
        entry = guessed.find(role, 1)
        assert entry is not None
        assert entry.tensor == f"b.1.{name}.weight"


@pytest.mark.parametrize("words", ["q_k", "q_o", "q_down", "x"])
def test_words_that_mean_two_things_or_none_settle_nothing(words):
    model = own_words(ZOO["base"].load())
    guessed = found_in(renamed(model, lambda name: name.replace("attn.q", f"attn.{words}")))
    assert guessed.find(Role.ATTENTION_QUERY, 0) is None
    assert guessed.find(Role.MLP_UP, 0) is not None


@pytest.mark.parametrize("name", [*FAMILIES, "gemma-base", "moe-base"])
def test_a_strange_prefix_is_no_guess(name):
    model = ZOO[name].load()
    found = found_in(renamed(model, lambda tensor: f"net.core.{tensor}"))
    truth = detect(model.config, shapes_of(model))
    assert not found.guessed
    assert found.family == truth.family
    assert found.prefix == "net.core."
    assert roles(found, lambda tensor: tensor.removeprefix("net.core.")) == roles(truth)
    assert str(found.notes[0]) == "names are those of a known family after the prefix net.core."


def test_a_head_may_stay_outside_the_prefix():
    model = ZOO["base"].load()
    found = found_in(
        renamed(model, lambda name: name if "head" in name else name.replace("model.", "backbone.net."))
    )
    assert (found.family, found.unknown, found.guessed) == ("llama", (), False)


def test_another_family_of_the_config_is_not_overruled():
    assert found_in(anonymous(ZOO["gemma-base"].load())).family is None


@pytest.mark.parametrize("entry", [{"alibi": True}, {"position_embedding_type": "sinusoidal"}])
def test_nothing_is_guessed_where_positions_may_give_an_order(entry):
    model = anonymous(ZOO["base"].load())
    shapes = shapes_of(model)
    assert detect(entry, shapes, order=sorted(shapes)).family is None
    assert detect(dict.fromkeys(entry), shapes, order=sorted(shapes)).guessed


def test_shapes_of_no_family_stay_unknown():
    model = ZOO["moe-base"].load()
    found = found_in(anonymous(model), config=False)
    assert found.family is None
    assert not found.guessed


def test_a_table_as_large_as_a_layers_matrix_is_in_doubt():
    """With as many tokens as hidden units, the embedding looks like a gate: neither gets a role."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(3):
        block = [(8, 8)] * 4 + [(20, 8), (20, 8), (8, 20), (8,), (8,)]
        shapes |= {f"w_{1 + 9 * layer + place}": shape for place, shape in enumerate(block)}
    for n_tokens, expected in ((21, True), (20, False)):
        found = detect(None, {"w_0": (n_tokens, 8), **shapes, "w_28": (8,)})
        assert (found.find(Role.EMBEDDING) is not None) is expected
        assert (found.find(Role.MLP_UP, 1) is not None) is expected
        assert found.find(Role.MLP_DOWN, 1) is not None


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_any_shapes_are_judged(data):
    """No checkpoint makes the guess fail, and whatever it says can be read."""
    model = ZOO[data.draw(st.sampled_from(list(FAMILIES)))].load()
    shapes = list(shapes_of(model).values())
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(shapes))
        match rng.randrange(4):
            case 0:
                shapes[at] = tuple(rng.choice([0, 1, 96, 160, 512]) for _ in range(rng.randint(0, 3)))
            case 1:
                del shapes[at]
            case 2:
                shapes.insert(at, shapes[rng.randrange(len(shapes))])
            case _:
                rng.shuffle(shapes)
    found = detect(None, {f"w_{number}": shape for number, shape in enumerate(shapes)})
    assert {entry.tensor for entry in found.tensors} <= {f"w_{number}" for number in range(len(shapes))}
    assert found.guessed == (found.family is not None)


def test_a_guess_takes_no_time():
    """Many tensors of one shape are the worst case for telling them apart."""
    shapes = {f"w_{number}": (8, 8) if number % 3 else (8,) for number in range(5_000)}
    began = time.monotonic()
    assert detect(None, shapes).family is None
    assert time.monotonic() - began < 20


def test_numbers_in_names_are_sorted_as_numbers():
    assert natural_order(["w_10", "w_9", "a", "w_1b2", "w_1b10"]) == ["a", "w_1b2", "w_1b10", "w_9", "w_10"]
