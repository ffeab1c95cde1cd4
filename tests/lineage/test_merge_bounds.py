"""Weights that no merge has name none: who lies beyond a parent is not a mixture of it."""

import numpy as np
import pytest
from tests.lineage.models import loaded, source

from modelkin import explain_merge
from modelkin.casework.lab import derive
from modelkin.document import load_language

LIGHT, HEAVY, SIBLING = "finetune-light", "finetune-heavy", "finetune-sibling"


def told(found):
    return [load_language(tag).tell(found.summary) for tag in ("en", "ko")]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("base", [None, "base"])
def test_a_parent_is_no_mixture_of_its_merge_and_the_other_parent(share, base):
    """It is a combination of them on the same line, with a negative weight."""
    made = derive.merge_linear([loaded(LIGHT), loaded(HEAVY)], [share, 1 - share])
    found = explain_merge(
        source(LIGHT), [source(made, "made"), source(HEAVY)], base=None if base is None else source(base)
    )
    assert found.conclusion != "merge"
    assert found.recipe is None
    if found.summary.code == "merge-beyond":
        assert found.summary["name"] == "made"
    assert all(told(found))


def test_what_was_moved_farther_than_any_recipe_goes_is_left_open():
    made = derive.merge_tasks(loaded("base"), [(loaded(LIGHT), 3.0), (loaded(SIBLING), 0.5)])
    found = explain_merge(source(made, "made"), [source(LIGHT), source(SIBLING)], base=source("base"))
    assert (found.conclusion, found.summary.code) == ("undetermined", "merge-far")
    assert (found.summary["name"], found.recipe) == (LIGHT, None)
    assert all(told(found))


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.4, 0.6), (0.8, -0.4)])
def test_multiples_of_differences_that_recipes_have_are_a_merge(weights):
    pairs = list(zip((loaded(LIGHT), loaded(SIBLING)), weights, strict=True))
    made = derive.merge_tasks(loaded("base"), pairs)
    found = explain_merge(source(made, "made"), [source(LIGHT), source(SIBLING)], base=source("base"))
    assert (found.conclusion, found.method) == ("merge", "task-arithmetic")
    np.testing.assert_allclose([share.value for share in found.weights[:2]], weights, atol=0.03)


def test_a_model_whose_differences_were_added_may_be_the_base():
    made = derive.merge_tasks(loaded("base"), [(loaded(LIGHT), 1.0), (loaded(SIBLING), 1.0)])
    found = explain_merge(source(made, "made"), [source("base"), source(LIGHT), source(SIBLING)])
    assert found.conclusion == "merge"
    assert "merge-outside" in {warning.code for warning in found.warnings}
