"""A part of a stranger that holds the base's numbers in another order is found by equality."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from tests.places import ZOO
from tests.support.amount import every, marked

import modelkin as mk
from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import Tested
from modelkin.source import MemorySource

MODELS = load_zoo(ZOO)
Depth = Literal["standard", "deep", "full"]
UNITS = (derive.permute_mlp_units, derive.permute_heads)


def model(name: str) -> Checkpoint:
    return MODELS[name].load()


def renumbered(base: Checkpoint, seed: int = 1) -> Checkpoint:
    """Renumber residual dimensions, units and heads."""
    rng = np.random.default_rng(seed)
    made = derive.permute_residual(base, rng=rng)
    for permute in UNITS:
        made = permute(made, rng=rng)
    return made


def grafted(stranger: str, base: str, parts: Sequence[str]) -> Checkpoint:
    """Give a stranger some of the base's tensors, renumbered."""
    held, made = model(stranger), renumbered(model(base))
    taken = {name: made.tensors[name] for name in held.tensors if any(part in name for part in parts)}
    assert taken
    return held.with_tensors(taken)


def compared(
    candidate: Checkpoint, base: Checkpoint, *, depth: Depth = "deep", turned: bool = False
) -> mk.Comparison:
    sources = [MemorySource(each.files("BF16"), name=name) for each, name in ((candidate, "B"), (base, "A"))]
    mine, theirs = sources[::-1] if turned else sources
    return mk.compare(mine, theirs, options=mk.CompareOptions(depth=depth))


def related(found: mk.Comparison) -> set[str]:
    return {name for name, item in found.verdict.components.items() if item.conclusion.related}


PARTS = {
    "embedding": (["embed_tokens"], {"embedding"}),
    "head": (["lm_head"], {"head"}),
    "both tables": (["embed_tokens", "lm_head"], {"embedding", "head"}),
    "gains": (["norm"], {"norms"}),
    "one MLP": (["layers.1.mlp"], {"mlp"}),
    "one matrix of an MLP": (["layers.1.mlp.up_proj"], {"mlp"}),
    "what one MLP writes": (["layers.2.mlp.down_proj"], {"mlp"}),
    "attention of one layer": (["layers.3.self_attn"], {"attention"}),
    "queries of one layer": (["layers.0.self_attn.q_proj"], {"attention"}),
    "what one attention writes": (["layers.0.self_attn.o_proj"], {"attention"}),
    "MLPs of all layers": (["mlp"], {"mlp"}),
    "attention of all layers": (["self_attn"], {"attention"}),
}


@pytest.mark.parametrize("turned", marked([False, True], lambda turned: not turned, more=bool))
@pytest.mark.parametrize("part", every(6, PARTS))
def test_one_part_in_another_order_is_found_and_nothing_else(part, turned):
    names, expected = PARTS[part]
    found = compared(grafted("twin-1", "base", names), model("base"), turned=turned)
    assert related(found) == expected
    assert found.verdict.conclusion.value == "shared-reparametrised"
    assert found.verdict.log10_p is not None
    assert found.verdict.log10_p < -6
    assert found.verdict.shared_parameters is not None
    assert 0 < found.verdict.shared_parameters < 0.6
    tables = expected <= {"embedding", "head"}
    assert found.verdict.reading == ("tables-reordered" if tables else None)
    assert "in another order" in str(found.verdict.summary) or "changed form" in str(found.verdict.summary)


@pytest.mark.more
@pytest.mark.parametrize("depth", ["deep", "full"])
def test_tables_in_another_order_have_words_of_their_own(depth):
    found = compared(grafted("twin-1", "base", ["embed_tokens", "lm_head"]), model("base"), depth=depth)
    assert str(found.verdict.headline) == (
        "The same token tables in another order, nothing else (25.7% of the parameters)"
    )
    assert "no evidence in attention, mlp" in str(found.verdict.summary)
    assert found.relation.findings[0].kind == "same-tables"
    proofs = [test for test in found.evidence if test.method == "same-rows" and isinstance(test, Tested)]
    assert {test.component for test in proofs} == {"embedding", "head"}
    assert all("w! ∏ (m/w)^m / m!" in str(test.null) for test in proofs)
    assert all(test.effect.value == 1.0 for test in proofs)


def test_nothing_is_found_where_numbers_alone_cannot_tell():
    found = compared(grafted("twin-1", "base", ["embed_tokens"]), model("base"), depth="standard")
    assert found.verdict.conclusion.value == "no-evidence"


@pytest.mark.more
@pytest.mark.parametrize("turned", [False, True])
def test_rows_in_another_token_order_are_found_without_a_tokenizer(turned):
    rng = np.random.default_rng(5)
    candidate = grafted("twin-1", "base", ["embed_tokens"])
    table = candidate.tensors["model.embed_tokens.weight"]
    candidate = candidate.with_tensors({"model.embed_tokens.weight": table[rng.permutation(len(table))]})
    candidate, base = (replace(each, tokenizer=None) for each in (candidate, model("base")))
    found = compared(candidate, base, turned=turned)
    assert related(found) == {"embedding"}


@pytest.mark.parametrize(
    "family",
    marked(["gpt2", "moe", "gemma", "bert"], lambda family: family in ("gemma", "bert"), more=bool),
)
def test_tables_are_found_in_every_family(family):
    held, made = model(f"{family}-twin"), model(f"{family}-base")
    table = next(
        name for name in held.tensors if "embed_tokens" in name or "wte" in name or "word_emb" in name
    )
    order = np.random.default_rng(3).permutation(held.tensors[table].shape[1])
    found = compared(held.with_tensors({table: made.tensors[table][:, order]}), made)
    assert "embedding" in related(found)
    assert not related(found) & {"mlp", "attention", "experts", "norms"}


@pytest.mark.more
@pytest.mark.parametrize("recipe", ["constant", "sinusoid", "ternary"])
def test_tables_of_one_recipe_in_another_order_accuse_nobody(recipe):
    models = [model("twin-1"), model("base")]
    name = "model.embed_tokens.weight"
    rows, width = models[0].tensors[name].shape
    angles = np.arange(rows)[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
    table = {
        "constant": np.full((rows, width), 0.02),
        "sinusoid": np.concatenate([np.sin(angles), np.cos(angles)], axis=1),
        "ternary": np.random.default_rng(2).integers(-1, 2, (rows, width)) * 0.02,
    }[recipe].astype(np.float32)
    order = np.random.default_rng(3).permutation(width)
    found = compared(models[0].with_tensors({name: table[:, order]}), models[1].with_tensors({name: table}))
    assert not found.verdict.related, found.verdict.summary


@pytest.mark.more
def test_gains_that_were_hardly_trained_accuse_nobody_in_another_order():
    rng = np.random.default_rng(8)
    made = []
    for name in ("twin-1", "base"):
        held = model(name)
        gains = {key: value for key, value in held.tensors.items() if "norm" in key}
        few = {key: np.where(rng.permutation(len(value)) < 3, 1.0078125, 1.0) for key, value in gains.items()}
        made.append(held.with_tensors({key: value.astype(np.float32) for key, value in few.items()}))
    found = compared(*made)
    assert not found.verdict.related, found.verdict.summary


@pytest.mark.more
def test_frozen_tables_in_place_keep_their_own_reading():
    held, base = model("twin-1"), model("base")
    tables = {name: base.tensors[name] for name in ("model.embed_tokens.weight", "lm_head.weight")}
    found = compared(held.with_tensors(tables), base)
    assert found.verdict.reading == "token-tables-only"
    assert not [test for test in found.evidence if test.method == "same-rows"]


def test_the_record_of_such_a_finding_is_read_back():
    found = compared(grafted("twin-1", "base", ["embed_tokens"]), model("base"))
    written = found.to_json()
    assert json.loads(written)["verdict"]["reading"] == "tables-reordered"
    assert mk.Comparison.from_json(written).evidence == found.evidence
