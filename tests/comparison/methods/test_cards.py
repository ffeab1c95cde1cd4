"""What is known about methods is data, and data are read strictly."""

import pytest

from modelkin.comparison.methods import load_cards, load_method
from modelkin.comparison.methods.catalogue import read_cards
from modelkin.errors import SpecError

CARD = """
[mlp-units]
class_path = "unit_rows:MlpUnits"
version = "1"
component = "mlp"
axis = "mlp"
exact = true
null = "null-mlp"
stage = "deep"
"""


def test_every_card_has_code_that_knows_its_card():
    for name, card in load_cards().items():
        assert load_method(name).card is card


def test_a_card_is_told_by_the_name_of_its_method():
    card = read_cards(CARD)["mlp-units"]
    assert (
        str(card.claim) == "MLP units with the same number read and write the same directions in both models"
    )
    assert card.reference == "docs/methods/mlp-units.md"


@pytest.mark.parametrize(
    ("old", "new", "odd"),
    [
        ('axis = "mlp"', "", "axis"),
        ('axis = "mlp"', 'axis = "mlp"\ncolour = "red"', "colour"),
        ("exact = true", "exact = 1", "exact"),
        ('stage = "deep"', 'stage = "shallow"', "stage"),
    ],
)
def test_a_card_with_another_key_or_value_is_refused(old, new, odd):
    with pytest.raises(SpecError, match=rf"odd or missing: \['{odd}'\]"):
        read_cards(CARD.replace(old, new))
