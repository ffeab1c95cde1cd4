"""Fingerprints of actually trained models: relatives are found, strangers not, and chance is as stated."""

from __future__ import annotations

import itertools
import json
from functools import cache

import numpy as np
import pytest
from tests.comparison.zoo_pairs import members
from tests.places import ZOO

import modelkin as mk
from modelkin.fingerprint import FingerprintRows, fingerprint_model, fingerprint_product
from modelkin.fingerprint.recipe import SLOTS, slot_numbers
from modelkin.stats import trace_test

NEEDED = -6.0 - 6.0
"""A finding at a registry of a million."""


@cache
def fingerprints() -> dict[str, FingerprintRows]:
    found = {}
    for name, member in members().items():
        with mk.open_model(member.path) as model:
            found[name] = FingerprintRows(fingerprint_model(model))
    return found


def root(name: str) -> str:
    parent = members()[name].parent
    return name if parent is None else root(parent)


DERIVED = [(member.name, member.parent) for member in members().values() if member.parent is not None]
PERMUTED = {"scrambled-units"}
"""Everything in them has another order: only proposed."""


@pytest.mark.parametrize(("child", "parent"), DERIVED)
def test_every_child_of_the_zoo_is_found_or_proposed(child, parent):
    product = fingerprint_product(fingerprints()[child], fingerprints()[parent])
    assert product.log10_p < NEEDED or (child in PERMUTED and (product.token_gram or 0.0) > 0.6)


def test_no_unrelated_models_of_the_zoo_are_accused():
    names = [name for name in members() if members()[name].relation != "same-initialisation"]
    pairs = [pair for pair in itertools.combinations(names, 2) if root(pair[0]) != root(pair[1])]
    # Every seventh: all of them are in `make scale`.
    found = [fingerprint_product(fingerprints()[a], fingerprints()[b]) for a, b in pairs[::7]]
    assert len(found) > 400
    assert [item.best for item in found if item.log10_p < -4] == []
    assert max(item.token_gram or 0.0 for item in found) < 0.6


@pytest.mark.scale
def test_no_unrelated_models_at_all_are_accused():
    names = [name for name in members() if members()[name].relation != "same-initialisation"]
    pairs = [pair for pair in itertools.combinations(names, 2) if root(pair[0]) != root(pair[1])]
    found = [fingerprint_product(fingerprints()[a], fingerprints()[b]) for a, b in pairs]
    assert [item.best for item in found if item.log10_p < -4] == []


@pytest.mark.scale
@pytest.mark.timeout(3_600)
def test_whatever_compare_finds_at_standard_depth_the_fingerprint_finds_at_a_million():
    """The floor of the scan, over all related pairs of the zoo."""
    related = [pair for pair in itertools.combinations(members(), 2) if root(pair[0]) == root(pair[1])]
    missed = []
    n_found = 0
    for one, two in related:
        verdict = mk.compare(candidate=members()[one].path, base=members()[two].path).verdict
        if verdict.related:
            n_found += 1
            product = fingerprint_product(fingerprints()[one], fingerprints()[two])
            if not product.log10_p < NEEDED:
                missed.append((one, two, product.log10_p))
    assert n_found > 100
    assert missed == []


@pytest.mark.parametrize("kind", sorted({slot.kind for slot in SLOTS} - {"experts"}))
def test_products_of_reordered_real_blocks_have_mean_0_and_variance_1(kind):
    rng = np.random.default_rng(0)
    blocks = []
    for made in fingerprints().values():
        for number in slot_numbers(kind):
            if len(rows := made.rows(number).rows) >= 12:
                blocks.append(rows)
    scores = []
    for _ in range(4_000):
        one, two = blocks[rng.integers(len(blocks))], blocks[rng.integers(len(blocks))]
        n = min(len(one), len(two))
        a, b = one[rng.permutation(len(one))[:n]], two[rng.permutation(len(two))[:n]]
        found = trace_test([(a - a.mean(axis=0)) @ (b - b.mean(axis=0)).T])
        assert found is not None
        scores.append(found.z)
    values = np.array(scores, dtype=float)
    assert abs(values.mean()) < 5 / np.sqrt(len(values))
    assert values.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * len(values)))
    assert np.abs(values).max() < 6.0


def test_the_bound_of_reordered_real_blocks_keeps_its_promise():
    rng = np.random.default_rng(1)
    made = [rows for name, rows in fingerprints().items() if members()[name].family == "llama"]
    bounds = []
    for _ in range(2_000):
        one, two = (made[rng.integers(len(made))] for _ in range(2))
        a, b = one.rows(0).rows, two.rows(0).rows
        n = min(len(a), len(b))
        a, b = a[rng.permutation(len(a))[:n]], b[rng.permutation(len(b))[:n]]
        found = trace_test([(a - a.mean(axis=0)) @ (b - b.mean(axis=0)).T])
        assert found is not None
        bounds.append(found.log10_p)
    assert np.mean(np.array(bounds) <= -2.0) <= 0.01 + 3 * np.sqrt(0.01 / 2_000)


def test_no_gains_of_the_zoo_look_as_if_they_had_been_masked():
    (number,) = slot_numbers("norms")
    assert {made.made.slots[number].marks for made in fingerprints().values()} == {()}


def test_the_zoo_is_all_of_the_zoo():
    listed = json.loads((ZOO / "zoo.json").read_text())["models"]
    assert len(fingerprints()) == len(listed)
