"""What is said of copies under disguises: all of it, in words that fit together, both ways round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.comparison.expectations import DEEP
from tests.places import ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.document.language import load_language
from modelkin.document.views.words import layers_text
from modelkin.source import MemorySource

Change = Callable[[Checkpoint], Checkpoint]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def permuted(model: Checkpoint, seed: int = 3) -> Checkpoint:
    drawn = np.random.default_rng(seed)
    units = derive.permute_mlp_units(model, rng=drawn)
    return derive.permute_residual(derive.permute_heads(units, rng=drawn), rng=drawn)


def turned(model: Checkpoint) -> Checkpoint:
    return derive.rotate_residual(model, rng=rng())


def compared(candidate: Checkpoint, base: Checkpoint, *, tokens: bool = True) -> mk.Comparison:
    sources = [
        MemorySource(
            {key: value for key, value in model.files("F32").items() if tokens or "tokenizer" not in key},
            name=name,
        )
        for model, name in ((candidate, "candidate"), (base, "base"))
    ]
    return mk.compare(candidate=sources[0], base=sources[1], options=DEEP)


@pytest.mark.parametrize("seed", [1, 101, 103, 105])
def test_a_reordered_copy_is_whole_though_some_heads_kept_their_places(seed):
    """Exact tests see the heads that kept their places by chance; the other layers are no less copied."""
    found = compared(permuted(zoo_model("base"), seed), zoo_model("base"))
    verdict = found.verdict
    assert verdict.headline.code == "headline.same-numbers"
    assert [name for name, item in verdict.components.items() if item.other_layers] == []
    assert verdict.components["attention"].layers == (0, 1, 2, 3)
    assert "limitation.learned" not in {item.code for item in verdict.limitations}
    assert found.relation.kind == "copy"


def test_layers_that_rest_on_the_own_layers_beside_exact_tests_are_marked():
    found = compared(permuted(zoo_model("base"), 103), zoo_model("base"))
    item = found.verdict.components["attention"]
    assert item.is_exact
    assert item.contrasted_layers
    assert {*item.contrasted_layers} < {*item.layers}
    for language, words in (("en", "by the pair's own layers"), ("ko", "자신의 레이어")):
        assert words in layers_text("attention", item, found, load_language(language))
    assert "limitation.own_layers" in {one.code for one in found.verdict.limitations}
    assert mk.Comparison.from_json(found.to_json()).verdict.components["attention"] == item


def test_a_layer_whose_heads_are_new_is_still_without_evidence():
    base = zoo_model("base")
    other = zoo_model("twin-1")
    mixed = base.with_tensors(
        {name: other.tensors[name] for name in base.tensors if ".layers.2.self_attn" in name}
    )
    found = compared(permuted(mixed, 103), base)
    assert 2 not in found.verdict.components["attention"].layers


def test_a_rotated_copy_that_is_equal_once_turned_back_was_not_learned():
    found = compared(permuted(turned(zoo_model("base"))), zoo_model("base"), tokens=False)
    assert found.relation.kind == "copy"
    assert found.verdict.reading is None
    assert found.verdict.headline.code.startswith("headline.shared-")
    assert "limitation.learned" not in {item.code for item in found.verdict.limitations}


CHANGES: dict[str, Change] = {
    "all-permuted": permuted,
    "units": lambda model: derive.permute_mlp_units(model, rng=rng()),
    "heads": lambda model: derive.permute_heads(model, rng=rng()),
    "dimensions": lambda model: derive.permute_residual(model, rng=rng()),
    "rotated": turned,
}
QUANTISERS = {"int8": (derive.round_to_int8, 8), "int4": (derive.round_to_int4, 4)}


@pytest.mark.parametrize(
    ("quantiser", "change"), every(3, [(one, two) for one in QUANTISERS for two in CHANGES])
)
def test_a_quantised_copy_is_told_whichever_model_comes_first(quantiser, change):
    quantised, bits = QUANTISERS[quantiser]
    base = zoo_model("base")
    made = quantised(CHANGES[change](base))
    for pair in ((made, base), (base, made)):
        relation = compared(*pair).relation
        assert relation.kind == "quantised-copy"
        told = next(item for item in relation.findings if item.kind == "quantised-copy")
        assert told.numbers["bits"] == bits


@pytest.mark.parametrize("names", [("rotated", "base"), ("shallow-1", "base")])
def test_strangers_of_other_widths_are_told_how_much_agrees_at_most(names):
    found = mk.compare(*(str(ZOO / name) for name in names), options=DEEP)
    verdict = found.verdict
    assert verdict.conclusion.value == "no-evidence"
    assert verdict.summary.code == "summary.no-evidence-contrast"
    limit, needed = verdict.summary["limit"], verdict.summary["needed"]
    assert isinstance(limit, float)
    assert needed == 20
    assert 0 < limit < 20
    assert verdict.effect is not None
    assert verdict.effect.high > verdict.effect.low
