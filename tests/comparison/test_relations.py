"""Relatives under disguises, at deep depth: a common origin is found, in the right parts and layers.

About sixty rows of the truth table, of every kind and family; all of them with MODELKIN_ALL_RELATIONS=1.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from tests.comparison.expectations import (
    compared,
    controls_for,
    kind_of,
    outcome,
    problems,
)
from tests.comparison.relations import FAMILIES, Relation, relations

pytestmark = pytest.mark.timeout(600)
ALL = os.environ.get("MODELKIN_ALL_RELATIONS", "") not in ("", "0")
N_TRAINED = 12
RANKED = "mixtral-16: tuned-units-heads-residual-int8"
"""The quickest of the rows that need controls; the others take half a minute each."""


def family_of(relation: Relation) -> str:
    return relation.name.partition(": ")[0]


def chosen() -> list[Relation]:
    """Draw one row of each kind, of the family that has been drawn least so far; and some trained rows."""
    rng = random.Random(7)
    rows = [relation for relation in relations() if not controls_for(relation) or relation.name == RANKED]
    kinds: dict[str, list[Relation]] = {}
    for relation in rng.sample(rows, len(rows)):
        if family_of(relation) != "trained":
            kinds.setdefault(kind_of(relation), []).append(relation)
    drawn: list[Relation] = []
    for members in kinds.values():
        so_far = Counter(family_of(relation) for relation in drawn)
        drawn.append(min(members, key=lambda relation: so_far[family_of(relation)]))
    trained = [relation for relation in rows if family_of(relation) == "trained"]
    return sorted([*drawn, *rng.sample(trained, N_TRAINED)], key=lambda relation: relation.name)


ROWS = list(relations()) if ALL else chosen()


@pytest.mark.parametrize("relation", ROWS, ids=lambda relation: relation.name)
def test_what_is_true_of_a_row_comes_out(relation: Relation):
    result = compared(relation)
    assert problems(relation, result) == []
    assert outcome(result) in (("ranked", "exact") if controls_for(relation) else ("exact",))


def test_every_kind_and_every_family_is_among_the_chosen():
    names = {family_of(relation) for relation in chosen()}
    assert names == {*FAMILIES, "trained"}
    kinds = {kind_of(row) for row in relations() if not controls_for(row) and family_of(row) != "trained"}
    assert kinds <= {kind_of(relation) for relation in chosen()}
    assert RANKED in {relation.name for relation in chosen()}


def test_a_wrong_result_is_noticed():
    """The check itself: a result that says too little or too much is a problem."""
    rows = {relation.name: relation for relation in relations()}
    norms, taller = rows["llama: only-norms"], rows["llama: depth-up of a copy"]
    result = compared(taller)
    assert problems(taller, result) == []
    assert "mlp is not shared and was accused" in problems(norms, result)
    assert any(
        line.startswith("layers ") for line in problems(rows["llama: removed-layer of a copy"], result)
    )
    strangers = compared(norms)
    assert "mlp is shared and was not found" in problems(rows["llama: only-mlps"], strangers)
