"""A small published model, trained several times from scratch: its members are not accused of each other."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.real.published import ENSEMBLE, weights_of

import modelkin as mk
from modelkin.comparison.verdict import Conclusion

N_MEMBERS = 4
MEMBER_PAIRS = list(combinations(range(N_MEMBERS), 2))


def compared(candidate, base):
    return mk.compare(candidate=str(candidate), base=str(base))


@pytest.mark.parametrize(("first", "second"), MEMBER_PAIRS)
def test_independent_members_of_an_ensemble_are_not_accused(first, second):
    """This family is unknown, so there is no exact test; plain values must not lead to an accusation."""
    members = weights_of(ENSEMBLE)
    assert len(members) == N_MEMBERS
    verdict = compared(members[first], members[second]).verdict
    assert verdict.conclusion in (Conclusion.NO_EVIDENCE, Conclusion.NOT_TESTABLE)
    assert not verdict.related


def test_a_member_of_an_undeclared_family_is_identical_with_itself():
    member = weights_of(ENSEMBLE)[0]
    assert compared(member, member).verdict.conclusion is Conclusion.IDENTICAL
