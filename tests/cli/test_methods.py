"""``modelkin methods``."""

import json

import jsonschema

from modelkin.comparison.methods import load_cards
from modelkin.document.results import schema


def test_all_cards_are_printed(run):
    status, out, err = run("methods")
    assert (status, err) == (0, "")
    for name in load_cards():
        assert f"{name}  version" in out


def test_cards_follow_their_schema(run):
    _, out, _ = run("methods", "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema("modelkin.methods/1"))
    assert [card["name"] for card in document["methods"]] == list(load_cards())


def test_one_card_can_be_asked_for(run):
    _, out, _ = run("methods", "norm-profile", "--json")
    assert [card["name"] for card in json.loads(out)["methods"]] == ["norm-profile"]


def test_a_wrong_name_gets_a_hint(run):
    status, out, err = run("methods", "norm-profil")
    assert (status, out) == (2, "")
    assert "Did you mean norm-profile?" in err
