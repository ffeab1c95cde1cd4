"""Rows of the truth table that claim to compute what their base computes do."""

from __future__ import annotations

import pytest
from tests.casework.lab.functions import assert_same_function
from tests.comparison.relations import Relation, relations

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]

# Tokens with other numbers have their own test: the tokens to be read have to change with them.
ROWS = [row for row in relations() if row.same_function and ": tokens of" not in row.name]


@pytest.mark.parametrize("relation", ROWS, ids=lambda relation: relation.name)
def test_a_row_preserves_the_function(relation: Relation, tmp_path):
    assert_same_function(relation.base(), relation.candidate(), tmp_path)


def test_there_are_rows_of_every_family():
    assert len(ROWS) >= 70
    assert {relation.family for relation in ROWS} == {"llama", "qwen2", "gpt2", "mixtral"}
