"""``modelkin compare --methods`` and ``modelkin methods --published``."""

import json

import jsonschema
from tests.places import ZOO

from modelkin.document.results import schema
from modelkin.reference import load_reference_cards

PAIR = (str(ZOO / "finetune-light"), str(ZOO / "base"), "--depth", "quick")


def test_scores_stand_below_the_verdict(run):
    status, out, _ = run("compare", *PAIR, "--methods", "anchors,awm")
    assert status == 0
    assert out.index("strength") < out.index("What published methods would say (not part of the verdict)")
    assert out.index("anchors") < out.index("awm")


def test_scores_are_in_the_json_and_the_verdict_is_not_changed(run):
    _, plain, _ = run("compare", *PAIR, "--json")
    _, told, _ = run("compare", *PAIR, "--json", "--methods", "awm", "--methods-budget", "1kB")
    plain, told = json.loads(plain), json.loads(told)
    assert told["verdict"] == plain["verdict"]
    assert plain["reference"] == []
    (score,) = told["reference"]
    assert (score["method"], score["score"], score["reason_code"]) == ("awm", None, "reference-limit")


def test_a_wrong_name_gets_a_hint_before_anything_is_compared(run):
    status, out, err = run("compare", *PAIR, "--methods", "awn")
    assert (status, out) == (2, "")
    assert "Did you mean awm?" in err


def test_an_empty_list_of_methods_is_wrong_usage(run):
    status, _, err = run("compare", *PAIR, "--methods", ",")
    assert status == 2
    assert "expected all, or names of methods" in err


def test_a_dry_run_tells_the_price_of_each_method(run):
    status, _, err = run("compare", *PAIR, "--dry-run", "--methods", "anchors")
    assert status == 0
    assert "published method anchors: 12.3 kB + 12.3 kB" in err


def test_published_cards_follow_their_schema(run):
    _, out, _ = run("methods", "--published", "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema("modelkin.reference-methods/1"))
    assert [card["name"] for card in document["methods"]] == list(load_reference_cards())


def test_one_published_card_can_be_asked_for(run):
    _, out, _ = run("methods", "awm")
    assert "reference only: never part of a verdict" in out
    assert out.count("publication") == 1
