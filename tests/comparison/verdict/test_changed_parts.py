"""A changed form of a part of a model is told as a part: which, how much, and what shows nothing."""

from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.verdict.test_decide import PARAMETERS, agreeing, contrasted, found, judged, null, weak
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.comparison.verdict import Conclusion, retold_by_equality
from modelkin.document.language import ENGLISH, load_language
from modelkin.source import MemorySource


def moved(component, layer):
    return replace(found(component, log10_p=-50, layer=layer), reordered=True)


ONE_LAYER = [moved("mlp", 2), *(null("mlp", layer=layer) for layer in (0, 1, 3)), null("norms")]


def test_one_layer_in_a_changed_form_is_named_with_its_amount_and_the_layers_that_show_nothing():
    verdict = judged(ONE_LAYER, stage="deep", parameters=PARAMETERS)
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    wanted = "Common origin of some parts in a changed form (15% of the parameters): mlp (layer 2)"
    assert str(verdict.headline) == wanted
    assert "mlp (layer 2 of those tested). No evidence in mlp (layers 0, 1, 3), norms." in str(
        verdict.summary
    )
    assert ENGLISH.tell(verdict.headline) != load_language("ko").tell(verdict.headline)


def test_negated_token_tables_are_a_part():
    tables = replace(found("embedding", log10_p=-50), flags=("signs",))
    assert "some parts in a changed form" in str(judged([tables, null("mlp", layer=0)]).headline)
    assert "some parts in a changed form" in str(judged([tables]).headline)  # tables are not the whole


def test_what_shows_nothing_beside_a_changed_form_may_be_in_disguise():
    told = [str(line) for line in judged(ONE_LAYER).limitations]
    assert any("--depth deep undoes most of them" in line for line in told)
    whole = [str(line) for line in judged([moved("mlp", 0), moved("mlp", 1)]).limitations]
    assert not any("--depth deep" in line for line in whole)


def test_a_changed_form_of_everything_that_was_tested_keeps_its_headline():
    verdict = judged([moved("mlp", 0), moved("mlp", 1), found("norms", log10_p=-50)], stage="deep")
    assert str(verdict.headline) == "Common origin: shared weights in a changed form"


def test_what_rests_on_own_layers_or_controls_is_told_as_a_part_as_well():
    by_layers = judged([*map(contrasted, range(3)), weak(3), weak(4)], stage="deep", parameters=PARAMETERS)
    assert "mlp (3 of 5 tested layers)" in str(by_layers.headline)
    assert "calibrated on the pair's own layers" in str(by_layers.headline)
    assert "No evidence in mlp (layers 3, 4)." in str(by_layers.summary)
    beside = [null("attention", layer=0), null("attention", layer=0, frame="rotation")]
    by_controls = judged([*map(agreeing, range(3)), *beside], stage="deep")
    assert "by comparison with controls: mlp" in str(by_controls.headline)


def retold(evidence, same_numbers, *, everything=False):
    verdict = judged(evidence, stage="deep")
    return retold_by_equality(verdict, same_numbers, everything=everything, candidate="B", base="A")


def test_equal_numbers_of_some_layers_are_told_of_these_layers():
    verdict = retold(ONE_LAYER, {"mlp": (2,), "norms": (2,), "positions": ()})
    assert "In part, B and A hold the same numbers" in str(verdict.summary)
    assert "in mlp (layer 2 of those tested), norms (layer 2 of those tested), positions is" in str(
        verdict.summary
    )
    assert str(verdict.summary).endswith("No evidence in mlp (layers 0, 1, 3), norms.")
    assert "some parts" in str(verdict.headline)


def test_equal_numbers_everywhere_prove_the_whole_though_a_test_found_nothing():
    verdict = retold(ONE_LAYER, {"mlp": (), "norms": ()}, everything=True)
    assert "proven by equality" in str(verdict.headline)
    assert str(verdict.summary) == (
        "B and A hold the same numbers in another order: "
        "all that was compared number by number in mlp, norms is equal."
    )


@pytest.fixture(scope="module")
def zoo():
    return load_zoo(ZOO)


def test_a_stranger_with_one_mlp_whose_units_were_reordered_is_no_copy(zoo):
    base, stranger = zoo["base"].load(), zoo["twin-1"].load()
    taken = {name: array for name, array in base.tensors.items() if "layers.2.mlp." in name}
    made = derive.permute_mlp_units(stranger.with_tensors(taken), rng=np.random.default_rng(1))
    sources = [MemorySource(model.files(), name=name) for name, model in (("made", made), ("base", base))]
    verdict = mk.compare(candidate=sources[0], base=sources[1], depth="deep").verdict
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert "some parts in a changed form (12% of the parameters): mlp (layer 2)" in str(verdict.headline)
    assert "in mlp (layer 2 of those tested) is equal" in str(verdict.summary)
    assert "No evidence in attention, embedding, head, mlp (layers 0, 1, 3), norms." in str(verdict.summary)
