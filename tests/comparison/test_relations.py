"""Relatives under disguises, at deep depth: a common origin is found, in the right parts and layers.

About fifty rows of the truth table, of every kind and family, a third of them with `make test` and all with
`make test-more`; the others with `make scale`.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.comparison.expectations import (
    compared,
    kind_of,
    outcome,
    problems,
    without_exact_test,
)
from tests.comparison.relations import FAMILIES, Relation, relations
from tests.support.amount import marked

pytestmark = pytest.mark.timeout(600)
N_TRAINED = 6


def family_of(relation: Relation) -> str:
    return relation.name.partition(": ")[0]


def chosen() -> list[Relation]:
    """Draw one row of each kind, of the family that has been drawn least so far; and some trained rows."""
    rng = random.Random(7)
    rows = list(relations())
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


DRAWN = [relation.name for relation in chosen()]
NOW = DRAWN[::12]
ROWS = marked(relations(), lambda relation: relation.name in NOW, lambda relation: relation.name in DRAWN)


@pytest.mark.parametrize("relation", ROWS, ids=lambda relation: relation.name)
def test_what_is_true_of_a_row_comes_out(relation: Relation):
    result = compared(relation)
    assert problems(relation, result) == []
    assert outcome(result) in (("own-layers", "exact") if without_exact_test(relation) else ("exact",))


def test_every_kind_and_every_family_is_among_the_chosen():
    names = {family_of(relation) for relation in chosen()}
    assert names == {*FAMILIES, "trained"}
    kinds = {kind_of(row) for row in relations() if family_of(row) != "trained"}
    assert kinds <= {kind_of(relation) for relation in chosen()}
    assert any(without_exact_test(relation) for relation in chosen())


@pytest.mark.more
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
