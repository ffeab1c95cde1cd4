"""Independently trained models: p-values are what they claim to be, for every method."""

import math
from contextlib import ExitStack

import numpy as np
import pytest
from tests.comparison.zoo_pairs import independent_pairs, members

import modelkin as mk
from modelkin.comparison.methods import Tested

pytestmark = pytest.mark.timeout(420)  # one fixture compares all pairs


@pytest.fixture(scope="module")
def strangers():
    """Compare every pair of independently trained models, each opened once."""
    with ExitStack() as stack:
        names = sorted({name for pair in independent_pairs() for name in pair})
        models = {name: stack.enter_context(mk.open_model(members()[name].path)) for name in names}
        return [mk.compare(candidate=models[a], base=models[b]) for a, b in independent_pairs()]


def made_by(strangers, method):
    made = [test for result in strangers for test in result.evidence if isinstance(test, Tested)]
    return [test for test in made if test.method == method]


def test_there_are_enough_pairs():
    assert len(independent_pairs()) >= 40


def test_no_stranger_is_accused(strangers):
    accused = [(result.candidate.ref, result.base.ref) for result in strangers if result.verdict.related]
    assert accused == []


METHODS = [
    "norm-profile",
    "embedding-rows",
    "head-rows",
    "mlp-units",
    "value-dimensions",
    "router-rows",
    "expert-units",
    "expert-sets",
    "kv-groups",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_p_values_reject_at_most_at_their_level(strangers, method, alpha):
    found = [10**test.log10_p for test in made_by(strangers, method)]
    n = len(found)
    rejected = sum(p <= alpha for p in found)
    # One-sided: a p-value may be conservative. The bound allows one false alarm of this test in 10^5.
    slack = 4.3 * math.sqrt(n * alpha * (1 - alpha))
    assert n >= 40
    assert rejected <= n * alpha + slack


@pytest.mark.parametrize("method", METHODS)
def test_z_has_mean_zero_and_unit_spread(strangers, method):
    z = np.array([test.z for test in made_by(strangers, method)])
    n = len(z)
    # Pairs share models, so z are not independent: twice the bound of independent ones.
    assert abs(z.mean()) < 2 * 4.3 / math.sqrt(n)
    assert abs(z.std() - 1) < 2 * 4.3 / math.sqrt(2 * n)
    assert np.abs(z).max() < 5.5


def test_the_trap_is_there_and_not_stepped_into(strangers):
    """The raw cosine of strangers' norm gains is near one: what the public accusation rested on."""
    from modelkin.stats import cosine_decomposition

    for a, b in independent_pairs()[:5]:
        with mk.open_model(members()[a].path) as one, mk.open_model(members()[b].path) as other:
            name = one.roles["mlp_norm"][1][0]
            parts = cosine_decomposition(candidate=one.tensor(name), base=other.tensor(name))
        assert parts.cosine > 0.9
        assert parts.pearson is not None
        assert abs(parts.pearson) < 0.5
