"""A multi-token-prediction layer is never taken for the decoder layer of the same number."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.casework.studies.tiny import Tiny, files

import modelkin as mk
from modelkin.comparison.extent import parameters_by_component
from modelkin.comparison.names import names_alone, names_apart, shared_names, told_alone, told_apart
from modelkin.message import Message
from modelkin.source import MemorySource

FULL = mk.CompareOptions(depth="full")
LAYERS = 4
MTP = f"model.layers.{LAYERS}."
Sources = tuple[MemorySource, MemorySource]


def source(tiny: Tiny, **config: object) -> MemorySource:
    made = files(tiny)
    told = json.loads(made["config.json"]) | config
    return MemorySource({**made, "config.json": json.dumps(told).encode()}, name=tiny.family)


@pytest.fixture(scope="module")
def pair() -> Sources:
    """A model of six decoder layers, and one of four with an MTP layer, stored as layer 4."""
    longer = Tiny(family="solar_open", layers=6, seed=1)
    return source(longer), source(Tiny(family="glm4_moe", layers=LAYERS, seed=2, dense=1, mtp=True))


@pytest.fixture
def opened(pair: Sources) -> Iterator[tuple[mk.Model, mk.Model]]:
    with mk.open_model(pair[0]) as longer, mk.open_model(pair[1]) as shorter:
        yield longer, shorter


def test_the_layers_of_a_role_are_decoder_layers(opened):
    assert set(opened[1].roles["router"]) == {1, 2, 3}
    assert set(opened[1].mtp_roles["router"]) == {LAYERS}
    assert opened[0].mtp_roles == {}


def test_names_of_a_prediction_layer_pair_nothing_but_their_like(opened):
    longer, shorter = opened
    apart = names_apart(longer, shorter)
    assert apart
    assert all(name.startswith(MTP) for name in apart)
    assert set(apart) == {name for name in longer.index if name.startswith(MTP)} & set(shorter.index)
    assert not any(name.startswith(MTP) for name in shared_names(longer, shorter))
    assert set(shared_names(shorter, shorter)) == set(shorter.index)
    assert told_apart(names_apart(shorter, shorter)) == ()
    (told,) = told_apart(apart[:2])
    assert str(told).endswith(f"not compared: {apart[0]}, {apart[1]}")


@pytest.mark.more
@pytest.mark.parametrize("turned", [False, True])
def test_a_full_diff_leaves_them_out_and_says_so(pair, turned):
    candidate, base = pair[::-1] if turned else pair
    found = mk.diff(candidate=candidate, base=base, options=FULL)
    assert not any(item.tensor.startswith(MTP) for item in found.counts)
    with mk.open_model(candidate) as mine, mk.open_model(base) as theirs:
        n_apart = len(names_apart(mine, theirs))
        assert found.only_in["candidate"] == len(mine.index) - len(shared_names(mine, theirs))
    (note,) = [note for note in found.notes if note.code == "names-apart-more"]
    assert (note["n"], note["more"]) == (n_apart, n_apart - 3)


def number(said: Message, key: str) -> int:
    value = said[key]
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("turned", [False, True])
def test_a_full_comparison_accounts_for_every_tensor_of_both_models(pair, turned):
    candidate, base = pair[::-1] if turned else pair
    found = mk.compare(candidate=candidate, base=base, options=FULL)
    told = {flag.code: flag for flag in found.flags}
    counted = told["every-value-counted"]
    for side, made in (("candidate", candidate), ("base", base)):
        with mk.open_model(made) as model:
            alone = told[f"alone-in-{side}"]
            assert number(counted, "tensors") + number(alone, "n") == len(model.index)
            assert number(counted, "m") + number(alone, "values") == model.index.n_parameters
            names = alone["names"]
            assert isinstance(names, tuple)
            *listed, more = names
            sizes = [model.index[str(name).split(" (")[0]].n_elements for name in listed]
            assert sizes == sorted(sizes, reverse=True)
            assert isinstance(more, Message)
            assert number(more, "n") == number(alone, "n") - len(listed)
    (limit,) = [one for one in found.verdict.limitations if one.code == "limitation.counted_shared"]
    assert [limit["n"], limit["m"]] == [told[f"alone-in-{side}"]["n"] for side in ("candidate", "base")]


@pytest.mark.parametrize("depth", ["quick", "standard", "deep", "full"])
def test_what_was_not_read_is_said_to_be_open_only_where_something_was_not(depth):
    sources = [source(Tiny(family="glm4_moe", layers=2, seed=seed)) for seed in (1, 2)]
    found = mk.compare(*sources, options=mk.CompareOptions(depth=depth))
    codes = {one.code for one in found.verdict.limitations}
    assert ("limitation.sampled" in codes) == (depth != "full")
    assert ("limitation.counted" in codes) == (depth == "full")
    assert not any(flag.code.startswith("alone-in") for flag in found.flags)


def test_nothing_is_said_of_tensors_without_a_counterpart_if_there_are_none(opened):
    assert names_alone(opened[0], opened[0]) == ((), ())
    assert told_alone(opened[0], opened[0]) == ()


@pytest.mark.more
def test_a_full_comparison_leaves_them_out_and_says_so(pair, opened):
    found = mk.compare(candidate=pair[0], base=pair[1], options=FULL)
    (counted,) = [flag for flag in found.flags if flag.code == "every-value-counted"]
    assert counted["tensors"] == len(shared_names(*opened))
    assert [flag["n"] for flag in found.flags if flag.code == "names-apart-more"] == [
        len(names_apart(*opened))
    ]


def test_parameters_of_components_are_those_of_decoder_layers():
    whole, decoder = (
        source(Tiny(family="glm4_moe", layers=LAYERS, seed=2, mtp=mtp)) for mtp in (True, False)
    )
    with mk.open_model(whole) as one, mk.open_model(decoder) as other:
        assert parameters_by_component(one) == parameters_by_component(other)


def test_equal_files_are_the_same_model_whatever_their_configs_call_a_layer():
    tiny = Tiny(family="glm4_moe", layers=3, seed=2)
    told = source(tiny), source(tiny, num_hidden_layers=2, num_nextn_predict_layers=1)
    with mk.open_model(told[0]) as one, mk.open_model(told[1]) as other:
        assert (
            names_apart(one, other) == ()
        )  # its tensors are those of a decoder layer, whatever it is called
    found = mk.compare(candidate=told[0], base=told[1], options=FULL)
    assert found.verdict.conclusion.value == "identical"
