"""The truth table itself: every row can be built, is a model modelkin knows, and says what is true."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.comparison.relations import (
    COMPONENTS,
    DISGUISES,
    Relation,
    arithmetic,
    disguised,
    lineages,
    relations,
    strangers,
    suitable,
    trained,
    zoo_model,
)

from modelkin.architecture import Architecture, detect
from modelkin.casework.lab.checkpoint import Checkpoint, layer_of

Floats = NDArray[np.float32]
ROWS = relations()


def kind(relation: Relation) -> str:
    return relation.name.split(": ")[1].split(" of a ")[0]


def known(model: Checkpoint) -> Architecture:
    shapes = tuple((name, array.shape) for name, array in model.tensors.items())
    return _known(json.dumps(model.config), shapes)


@cache
def _known(config: str, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> Architecture:
    return detect(json.loads(config), dict(shapes))


@pytest.mark.parametrize("relation", ROWS, ids=lambda relation: relation.name)
def test_a_row_is_a_pair_of_models_that_modelkin_knows_and_what_it_says_is_possible(relation: Relation):
    candidate, base = relation.candidate(), relation.base()
    architectures = known(candidate), known(base)
    for model, architecture in zip((candidate, base), architectures, strict=True):
        assert architecture.is_known
        assert architecture.unknown == ()
        assert all(np.isfinite(array).all() for array in model.tensors.values())
        assert {array.dtype for array in model.tensors.values()} == {np.dtype(np.float32)}
    assert base.family == relation.family
    assert relation.candidate() is candidate
    assert candidate.tensors.keys() != base.tensors.keys() or any(
        not np.array_equal(array, base.tensors[name]) for name, array in candidate.tensors.items()
    )

    assert relation.shared
    assert not relation.shared & relation.not_shared
    components = {entry.component for entry in architectures[0].tensors}
    assert relation.shared | relation.not_shared <= COMPONENTS & components
    if relation.layers is None:
        assert relation.shared <= {"embedding", "head"}
        return
    assert len(dict(relation.layers)) == len(relation.layers)
    for layer, old in relation.layers:
        assert layer in architectures[0].layers
        assert old in architectures[1].layers


PLAIN = [relation for relation in ROWS if not relation.disguise and kind(relation) not in DISGUISES]


@pytest.mark.parametrize("relation", PLAIN, ids=lambda relation: relation.name)
def test_where_coordinates_are_the_old_ones_numbers_agree_in_what_is_shared_only(relation: Relation):
    found = agreement(relation)
    assert all(found[name] > 0.3 for name in relation.shared if name in found)
    # Few directions carry most of an embedding, so those of strangers can agree by chance up to here.
    assert all(abs(found[name]) < 0.25 for name in relation.not_shared if name in found)


def test_agreement_is_measured_in_most_plain_rows():
    compared = [agreement(relation) for relation in PLAIN[::5]]
    assert sum(bool(found) for found in compared) > 0.8 * len(compared)


def agreement(relation: Relation) -> dict[str, float]:
    """Correlate the tensors of each component with those they come from, where the shapes are the same."""
    candidate, base = relation.candidate(), relation.base()
    mapped = dict(relation.layers or ())
    numbers: dict[str, list[tuple[Floats, Floats]]] = {}
    for entry in known(candidate).tensors:
        layer = layer_of(entry.tensor)
        # What is not shared has no map: there the same number is as good as any.
        old = layer if entry.component in relation.not_shared or layer is None else mapped.get(layer)
        if layer is not None and old is None:
            continue
        source = base.tensors.get(entry.tensor.replace(f".{layer}.", f".{old}.", 1))
        array = candidate.tensors[entry.tensor]
        if source is not None and source.shape == array.shape and array.std() * source.std() > 0:
            pair = [(one - one.mean()).ravel() / one.std() for one in (array, source)]
            numbers.setdefault(entry.component, []).append((pair[0], pair[1]))
    return {
        component: float(np.mean(np.concatenate([one * other for one, other in pairs])))
        for component, pairs in numbers.items()
    }


def test_names_are_unique_and_every_relation_is_there_for_every_family_that_can():
    assert len({relation.name for relation in ROWS}) == len(ROWS)
    kinds = Counter(kind(relation) for relation in arithmetic())
    for name in (
        "doubled-layers",
        "removed-layer",
        "pruned-units",
        "pruned-scrambled-units",
        "new-embeddings",
    ):
        assert kinds[name] == 11  # six bases, their copies and all but one of their fine-tunes
    assert kinds["depth-up"] == kinds["pruned-residual"] == kinds["fewer-heads"] == 9
    assert kinds["residual-rotation"] == kinds["rotation-and-gains"] == kinds["residual-scale"] == 9
    assert kinds["experts"] >= 4
    assert kinds["everything"] == 5
    assert kinds["only-norms"] == kinds["only-mlps"] == kinds["only-embeddings"] == 6
    assert len(ROWS) >= 350
    assert len(trained()) == 39


def test_rows_that_preserve_the_function_are_copies():
    preserving = [relation for relation in ROWS if relation.same_function]
    assert len(preserving) >= 60
    assert all(" of a copy" in relation.name for relation in preserving)
    assert {relation.family for relation in preserving} == {"llama", "qwen2", "gpt2", "mixtral"}


# Strangers --------------------------------------------------------------------------------------------------


def test_there_are_many_strangers_of_every_kind():
    pairs = strangers()
    assert len(pairs) >= 1_000
    kinds = Counter(pair.kind for pair in pairs)
    assert min(kinds[kind] for kind in ("twins", "same-config", "same-family", "other-family")) >= 15
    assert any((pair.candidate, pair.base) == ("distilled", "base") for pair in pairs)
    assert len({pair.name for pair in pairs}) == len(pairs)


def test_no_relatives_are_among_strangers():
    related = [set(members) for members in lineages().values()]
    for pair in strangers():
        assert not any({pair.candidate, pair.base} <= members for members in related)
    assert {"base", "grandchild", "same-initialisation", "norms-only"} <= set(lineages()["base"])


@pytest.mark.parametrize("name", ["base", "qwen2-base", "gpt2-base", "moe-base", "gemma-base", "bert-base"])
def test_a_disguise_is_reproducible_and_leaves_a_model_that_modelkin_knows(name):
    model = zoo_model(name)
    assert len(suitable(model)) >= 5
    for disguise in suitable(model):
        one, same = (disguised(model, disguise, seed=3) for _ in range(2))
        assert known(one).unknown == ()
        changed = [
            tensor
            for tensor in model.tensors
            if not np.array_equal(one.tensors[tensor], model.tensors[tensor])
        ]
        assert changed
        for tensor, array in one.tensors.items():
            np.testing.assert_array_equal(array, same.tensors[tensor])


def test_a_disguise_that_would_change_the_function_is_refused():
    with pytest.raises(ValueError, match="residual-rotation changes the function of a gpt2"):
        disguised(zoo_model("gpt2-base"), "residual-rotation")
    assert set(suitable(zoo_model("moe-base"))) == set(DISGUISES)
