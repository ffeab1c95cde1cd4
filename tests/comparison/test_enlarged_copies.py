"""Copies that were enlarged while they compute nearly the same, then renumbered: each is found."""

import numpy as np
import pytest
from tests.comparison.disguises import disguised, zoo_model

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

RENUMBERED = ("residual-rotation", "units", "heads", "mixed-values", "rope-pairs", "unit-scales")


def with_idle_dimensions(model, n):
    """Widen the residual stream by dimensions that nothing writes to; readers have random weights there."""
    width, rng = model.config["hidden_size"], np.random.default_rng(1)
    order = rng.permutation(width + n)
    changed = {}
    for name, value in model.tensors.items():
        if value.ndim == 1:  # the mean square over more dimensions is smaller
            wider = np.concatenate([value * np.sqrt(width / (width + n)), rng.normal(1.0, 0.1, n)])
            changed[name] = wider[order].astype(np.float32)
            continue
        axis = 0 if "o_proj" in name or "down_proj" in name else 1
        idle = np.zeros((n, value.shape[1]) if axis == 0 else (len(value), n))
        if axis == 1 and "embed_tokens" not in name:
            idle += value.std() * rng.normal(size=idle.shape)
        changed[name] = np.take(np.concatenate([value, idle], axis=axis), order, axis=axis).astype(np.float32)
    return Checkpoint(
        config={**model.config, "hidden_size": width + n}, tensors=changed, tokenizer=model.tokenizer
    )


def with_all_kv_heads(model):
    """Give every query head its own keys and values, as many copies of those of its group."""
    heads, groups = (model.config[f"num_{kind}_heads"] for kind in ("attention", "key_value"))
    changed = {
        name: np.repeat(value.reshape(groups, -1, value.shape[1]), heads // groups, axis=0).reshape(
            -1, value.shape[1]
        )
        for name, value in model.tensors.items()
        if "k_proj" in name or "v_proj" in name
    }
    return model.with_tensors(changed, num_key_value_heads=heads)


def with_split_units(model):
    """Divide the work of every MLP unit between two, which differ by a little noise."""
    rng = np.random.default_rng(2)
    changed: dict[str, np.ndarray] = {}
    for name, gate in model.tensors.items():
        if "gate_proj" not in name:
            continue
        names = [name.replace("gate", part) for part in ("up", "down")]
        up, down = (model.tensors[other] for other in names)
        order, share = rng.permutation(2 * len(gate)), rng.uniform(0.2, 0.8, len(gate))
        twice = [np.concatenate([rows, rows]) for rows in (gate, up)]
        noisy = [rows + 0.05 * rows.std() * rng.normal(size=rows.shape) for rows in twice]
        divided = np.concatenate([down * share, down * (1.0 - share)], axis=1)
        changed |= {name: noisy[0][order], names[0]: noisy[1][order], names[1]: divided[:, order]}
    made = {name: value.astype(np.float32) for name, value in changed.items()}
    return model.with_tensors(made, intermediate_size=2 * model.config["intermediate_size"])


def without_tokenizer(model):
    """Renumber the tokens, and say nothing about it."""
    order = np.random.default_rng(3).permutation(model.config["vocab_size"])
    changed = {
        name: value[order] for name, value in model.tensors.items() if "embed" in name or "lm_" in name
    }
    return Checkpoint(config=model.config, tensors={**model.tensors, **changed}, tokenizer=None)


@pytest.mark.parametrize(
    "changes",
    [
        (lambda model: with_idle_dimensions(model, 96),),
        (with_all_kv_heads,),
        (with_split_units, with_all_kv_heads, lambda model: with_idle_dimensions(model, 96)),
    ],
    ids=["twice the width", "all KV heads", "split units, all KV heads, twice the width"],
)
def test_a_copy_that_was_enlarged_and_renumbered_is_found(changes):
    copy = zoo_model("finetune-light")
    for change in changes:
        copy = change(copy)
    hidden = without_tokenizer(disguised(copy, *RENUMBERED))
    result = mk.compare(
        candidate=MemorySource(hidden.files(), name="hidden"),
        base=MemorySource(zoo_model("base").files(), name="base"),
        options=mk.CompareOptions(depth="deep"),
    )
    shared = {name for name, item in result.verdict.components.items() if item.conclusion.related}
    assert {"mlp", "attention"} <= shared
