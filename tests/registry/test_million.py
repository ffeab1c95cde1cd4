"""The floor of a scan: in a registry of a million, whatever `compare` finds on the zoo is found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.scan import reordered
from tests.comparison.zoo_pairs import members

import modelkin as mk
from modelkin.fingerprint import fingerprint_model
from modelkin.registry import ScanOptions, scan
from modelkin.registry.coarse import tiled
from modelkin.registry.segments import row_of

pytestmark = [pytest.mark.scale, pytest.mark.timeout(3_600)]
N_DRAWN, N_TIMES = 20_000, 50
"""Unrelated fingerprints, and how often each stands there: a million of them would be 30 GB."""


def fingerprints():
    found = {}
    for name, member in members().items():
        with mk.open_model(member.path) as model:
            made = fingerprint_model(model)
        found[name] = replace(made, model=replace(made.model, ref=name))
    return found


def root(name):
    parent = members()[name].parent
    return name if parent is None else root(parent)


class Million:
    """The zoo in the middle of a million unrelated models, which are made of it by reordering units."""

    place = SimpleNamespace(name="a million")

    def __init__(self, zoo):
        rng = np.random.default_rng(0)
        unrelated = [made for name, made in zoo.items() if members()[name].relation == "independent"]
        self.zoo = list(zoo.values())
        self.drawn = [reordered(unrelated[at % len(unrelated)], rng, at) for at in range(N_DRAWN)]
        self.tables = [
            np.frombuffer(tiled(b"".join(made.code() for made in some)), np.uint64)
            for some in (self.drawn, self.zoo)
        ]
        self.first = N_DRAWN * (N_TIMES // 2)
        """Number of the first row of the zoo."""
        self.n_rows = N_DRAWN * N_TIMES + len(self.zoo)

    def codes(self, damaged):
        at = 0
        for number in range(N_TIMES + 1):
            table = self.tables[number == N_TIMES // 2]
            yield at, table
            at += len(table) // 464

    def each_row(self, numbers, *, damaged):
        for number in sorted(numbers):
            inside = number - self.first
            made = (
                self.zoo[inside]
                if 0 <= inside < len(self.zoo)
                else self.drawn[(number if inside < 0 else number - len(self.zoo)) % N_DRAWN]
            )
            yield row_of(made, added="now")


def test_whatever_compare_finds_at_standard_depth_a_scan_of_a_million_finds():
    zoo = fingerprints()
    registry: Any = Million(zoo)
    assert registry.n_rows > 1_000_000
    options = ScanOptions(top=10_000, verify=0)
    related = [pair for pair in itertools.combinations(members(), 2) if root(pair[0]) == root(pair[1])]
    asked = {name for pair in related for name in pair}
    found, false = {}, []
    n_tested = 0
    for name in sorted(asked):
        result = scan(zoo[name], registry, options)
        refs = {ref for hit in result.hits if hit.found for ref in (hit.ref, *hit.copies)}
        found[name] = refs
        n_tested += result.n_tested
        false += [(name, ref) for ref in refs if ref not in zoo or root(ref) != root(name)]
    by_compare = [
        (one, two)
        for one, two in related
        if mk.compare(candidate=members()[one].path, base=members()[two].path).verdict.related
    ]
    print(f"{len(by_compare)} of {len(related)} related pairs by compare; {n_tested:,} rows tested at 8 bits")
    assert len(by_compare) > 100
    assert [(one, two) for one, two in by_compare if two not in found[one] or one not in found[two]] == []
    assert false == []
