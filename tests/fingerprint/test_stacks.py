"""Many fingerprints at once: z of the exact test, and no finding is left out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.comparison.zoo_pairs import members
from tests.places import ZOO
from tests.registry.made import drawn

import modelkin as mk
from modelkin.fingerprint import (
    FingerprintRows,
    FingerprintStack,
    fingerprint_model,
    fingerprint_product,
)
from modelkin.fingerprint.recipe import SLOTS
from modelkin.fingerprint.stacks import _scores

NAMES = (
    "base",
    "finetune-light",
    "depth-up",
    "norms-only",
    "scrambled-units",
    "twin-1",
    "gpt2-base",
    "gpt2-tuned",
)


@cache
def zoo() -> list[mk.Fingerprint]:
    found = []
    for name in NAMES:
        with mk.open_model(str(ZOO / name)) as model:
            found.append(fingerprint_model(model))
    return found


def test_z_is_that_of_the_exact_test_where_both_have_the_same_units():
    one, two = drawn("a", 1), drawn("b", 2, parent=drawn("a", 1), share=0.4)
    product = fingerprint_product(FingerprintRows(one), FingerprintRows(two))
    mine, theirs = FingerprintStack([one]), FingerprintStack([two])
    exact = {(block.kind, block.layers): block.z for block in product.blocks}
    n_seen = 0
    for number, slot in enumerate(SLOTS):
        z, same = _scores(mine._blocks[number], theirs._blocks[number])
        layer = one.slots[number].layer
        key = slot.kind, None if layer is None else (layer, layer)
        assert same.all()
        assert z[0, 0] == pytest.approx(exact[key], rel=1e-4)
        n_seen += 1
    assert n_seen == len(SLOTS)


@pytest.mark.more
def test_whatever_is_found_in_the_zoo_is_worth_the_exact_test():
    made = zoo()
    stack = FingerprintStack(made)
    worth = stack.worth(stack, least_gram=0.6)
    rows = [FingerprintRows(item) for item in made]
    n_found = 0
    for i, one in enumerate(rows):
        for j, two in enumerate(rows):
            product = fingerprint_product(one, two)
            if product.log10_p < -11 or (product.token_gram or 0.0) >= 0.6:
                n_found += 1
                assert worth[i, j], (NAMES[i], NAMES[j])
    assert n_found > len(made) + 10
    assert set(NAMES) <= set(members())


def test_few_unrelated_pairs_are_worth_it():
    one, two = (
        FingerprintStack([drawn(str(n), n) for n in numbers]) for numbers in (range(64), range(64, 128))
    )
    assert one.worth(two, least_gram=0.6).mean() < 0.02


def test_what_a_model_does_not_have_is_not_compared():
    made = drawn("a", 1)
    empty = replace(
        made,
        data=bytes(len(made.data)),
        slots=tuple(replace(slot, n_units=0) for slot in made.slots),
        token_gram=False,
    )
    stack = FingerprintStack([made, empty])
    assert stack.worth(stack, least_gram=0.6).tolist() == [[True, False], [False, False]]
    z, _ = _scores(stack._blocks[0], stack._blocks[0])
    assert np.isfinite(z).all()
