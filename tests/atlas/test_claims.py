"""Cards are checked against symmetric evidence and dates: honest ones are not accused."""

from types import SimpleNamespace

import pytest

from modelkin.atlas.claims import KnownKin, judged_claims, licence_steps, names_of, unnamed_origins
from modelkin.atlas.declarations import Declaration
from modelkin.atlas.relatives import Kin
from modelkin.message import say


def kin(*pairs, proposed=()):
    """Return accepted pairs of single letters, all of one family, and proposed ones."""
    accepted = {
        frozenset(pair): Kin(
            first=0, second=0, found=True, proposed=False, log10_p=-50.0, likeness=0.5, token_gram=None
        )
        for pair in pairs
    }
    alike = {
        frozenset(pair): Kin(
            first=0, second=0, found=False, proposed=True, log10_p=0.0, likeness=0.0, token_gram=0.7
        )
        for pair in proposed
    }
    return KnownKin(pairs=accepted | alike, family={ref: 0 for pair in pairs for ref in pair})


def card(*parents, date=None, licence=None, **more):
    return Declaration(name=None, parents=parents, date=date, licence=licence, **more)


def compared(related):
    """Return a function that compares nothing and says so."""
    found = SimpleNamespace(
        verdict=SimpleNamespace(related=related), relation=SimpleNamespace(kind="fine-tune")
    )
    return lambda child, parent: found


def status(declared, known, weights=None, depth="deep"):
    (claim,) = judged_claims(declared, known, weights, depth)
    return claim.status, claim.reason.code


CHILD = {"a": card(), "b": card("a")}


@pytest.mark.parametrize(
    ("known", "weights", "depth", "expected"),
    [
        (kin("ab"), None, None, ("supported", "atlas-shared")),
        (kin(), None, None, ("untestable", "atlas-not-read")),
        (kin(), compared(True), "deep", ("supported", "check-related")),
        (kin(), compared(None), "deep", ("untestable", "check-not-testable")),
        (kin(), compared(False), "standard", ("untestable", "check-look-deeper")),
        (kin(), compared(False), "deep", ("contradicted", "check-unrelated")),
        (kin("ac", "bc"), compared(False), "deep", ("untestable", "atlas-through-others")),
        (kin(proposed=["ab"]), compared(False), "deep", ("untestable", "atlas-alike")),
    ],
)
def test_only_a_deep_comparison_with_nothing_else_between_contradicts(known, weights, depth, expected):
    assert status(CHILD, known, weights, depth) == expected


def test_a_model_that_cannot_be_read_contradicts_nobody():
    def gone(child, parent):
        return say("error.said", where=parent, problem="gone")

    assert status(CHILD, kin(), gone) == ("untestable", "error.said")


def test_what_is_not_in_the_registry_or_the_model_itself_is_untestable():
    assert status({"b": card("elsewhere")}, kin(), compared(False)) == ("untestable", "atlas-not-here")
    assert status({"b": card("b")}, kin(), compared(False)) == ("untestable", "atlas-itself")


def test_a_parent_of_a_later_date_leaves_a_claim_open():
    declared = {"a": card(date="2024-02-01"), "b": card("a", date="2024-01-01")}
    assert status(declared, kin("ab")) == ("untestable", "atlas-later-parent")
    assert status({**declared, "a": card(date="2023-12-31")}, kin("ab")) == ("supported", "atlas-shared")


def test_cards_find_models_by_name_or_reference_in_any_case():
    declared = {"/x": Declaration(name="Org/Base"), "y/z": card()}
    assert names_of(declared) == {"org/base": ("/x",), "/x": ("/x",), "y/z": ("y/z",)}


def test_of_several_models_of_one_name_the_best_is_meant():
    declared = {"/v1": Declaration(name="a"), "/v2": Declaration(name="a"), "b": card("a")}
    (claim,) = judged_claims(declared, kin(["/v1", "b"]), compared(False), "deep")
    assert (claim.status, claim.parent) == ("supported", "/v1")
    (claim,) = judged_claims(declared, kin(), compared(False), "deep")
    assert claim.status == "contradicted"


@pytest.mark.parametrize("revised", ["a", "b"])
def test_a_model_that_changed_contradicts_nobody(revised):
    known = KnownKin(pairs={}, family={}, revised=frozenset(revised))
    assert status(CHILD, known, compared(False)) == ("untestable", "atlas-revised")


def unnamed(declared, known):
    found, _ = unnamed_origins(declared, known)
    return {item.child: item.earlier for item in found}


def test_an_earlier_relative_that_a_card_leaves_out_is_listed_for_the_later_one_alone():
    declared = {"a": card(date="2024-01-01"), "b": card(date="2024-02-01")}
    assert unnamed(declared, kin("ab")) == {"b": ("a",)}


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"a": card(), "b": card(date="2024-02-01")}, "no date of the other"),
        ({"a": card(date="2024-01-01"), "b": card()}, "no date of its own"),
        ({"a": card(date="2024-01-01"), "b": card(date="2024-01-01")}, "the same day"),
        ({"a": card(date="2024-01-01"), "b": card("x", date="2024-02-01")}, "it names somebody"),
        ({"a": card("b", date="2024-01-01"), "b": card(date="2024-02-01")}, "the other declares it"),
        (
            {"a": card(date="2024-01-01"), "b": card(date="2024-02-01", saved_from="a/a")},
            "its config names where it was saved from",
        ),
        (
            {"a": card(date="2024-01-01"), "b": card(date="2024-02-01", reason=say("atlas-no-cards"))},
            "its card was not read",
        ),
    ],
)
def test_nobody_is_listed_without_dates_or_with_a_declaration(declared, why):
    assert unnamed(declared, kin("ab")) == {}, why


def test_a_parent_that_is_declared_through_others_is_declared():
    declared = {
        "a": card("c", date="2024-01-01"),
        "b": card(date="2024-02-01"),
        "c": card("b", date="2024-01-15"),
    }
    assert unnamed(declared, kin("ab", "bc", "ac")) == {}


def test_models_without_a_date_are_counted_and_not_accused():
    found, n_undated = unnamed_origins({"a": card(), "b": card()}, kin("ab"))
    assert (found, n_undated) == ((), 2)


def steps(declared, known):
    claims = list(judged_claims(declared, known, None, None))
    return [(step.child, step.missing) for step in licence_steps(claims, declared)]


def test_a_licence_widens_only_from_a_declared_and_supported_parent():
    declared = {"a": card(licence="cc-by-nc-4.0"), "b": card("a", licence="mit")}
    assert steps(declared, kin("ab")) == [("b", ("no-commerce",))]
    assert steps(declared, kin()) == []
    assert steps({**declared, "b": card(licence="mit")}, kin("ab")) == []
    assert steps({**declared, "b": card("a", licence="cc-by-nc-4.0")}, kin("ab")) == []
    assert steps({**declared, "b": card("a", licence="own")}, kin("ab")) == []
    assert steps({**declared, "b": card("a")}, kin("ab")) == []
