"""When the deep stage has nothing left to search for: large models are searched in some layers only."""

from __future__ import annotations

import pytest
from tests.comparison.disguises import disguised, zoo_model

import modelkin as mk
from modelkin.source import MemorySource

pytestmark = pytest.mark.more

DEEP = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Match three of four layers, as is done where a layer is hundreds of megabytes."""
    monkeypatch.setattr("modelkin.comparison.deep._MATCH_SHARE", 0.0)


def compared(*disguises: str) -> mk.Comparison:
    base = candidate = zoo_model("base")
    for name in disguises:
        candidate = disguised(candidate, name)
    sides = [MemorySource(item.files("F32"), name=name) for name, item in (("c", candidate), ("b", base))]
    return mk.compare(candidate=sides[0], base=sides[1], options=DEEP)


def tried(result: mk.Comparison) -> set[str]:
    return {item.method for item in result.evidence}


def test_units_found_in_all_layers_that_were_searched_end_the_search():
    result = compared("units")
    assert result.verdict.related
    assert result.alignment.residual == "identity"
    assert [(mine, theirs) for mine, theirs, _ in result.alignment.layers] == [(n, n) for n in range(4)]
    assert result.verdict.components["mlp"].layers == (0, 2, 3)
    assert "own-layers" not in tried(result)


def test_layers_that_nothing_has_placed_are_still_looked_for():
    result = compared("units", "heads")
    assert result.verdict.related
    assert "own-layers" in tried(result)
