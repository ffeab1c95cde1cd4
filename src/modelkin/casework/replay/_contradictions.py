"""Published numbers that contradict each other. What can be recomputed is recomputed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .facts import WIDTH, PublishedFacts
from .matrices import same_bytes
from .norms import about_one, against_random, claimed_gap
from .record import Contradiction, plain_numbers
from .together import named

Values = dict[str, Any]


_SOURCES: Mapping[str, Sequence[int]] = {
    "S": range(1, 15),
    "O": (*range(15, 28), 34, 35),
    "C": (28, 29, 30),
    "H": (31, 32, 33),
}
"""Who said what is contradicted: the retraction, the claim, and two answers."""
_AS_PUBLISHED = (5, 7, 12, 13, 14, 31, 35)
"""Both sides are published, and what they were computed from is not."""


def all_contradictions(facts: PublishedFacts) -> tuple[Contradiction, ...]:
    """List them in the order of their numbers."""
    found = {**_review(facts), **_claim_norms(facts), **_claim_rest(facts), **_answers(facts)}
    said: dict[str, Values] = facts.single["statements"]
    return tuple(
        Contradiction(
            number=number,
            source=next(source for source, numbers in _SOURCES.items() if number in numbers),
            values=plain_numbers({**said.get(str(number), {}), **found.get(number, {})}),
            recomputed=number not in _AS_PUBLISHED,
        )
        for number in sorted(number for numbers in _SOURCES.values() for number in numbers)
    )


def _review(facts: PublishedFacts) -> dict[int, Values]:
    """Return those in the retraction."""
    norms, cosine = facts.norms["input"], facts.norms["input"].cosine
    offset = (facts.pearson.facing - norms.pearson).mean()
    read = facts.pearson.published - offset  # the statement is about the figure as drawn
    changed = facts.single["changed"]["per_cent"]
    # Layers below about the mean of all (0.949).
    below = (cosine < 0.94).sum()
    three = {name: facts.three_models["pearson", "30", "input", f"{name}-phi"] for name in ("solar", "glm")}
    return {
        1: {"layer_0": cosine[0], "layer_10": cosine[10], "std": cosine.std()},
        2: {"first": read[10, 30], "second": read[25, 40]},
        3: {"std": read[~np.eye(len(read), dtype=bool)].std()},
        4: {"layer_0": cosine[0], "below": below},
        5: {"layers": facts.configs["glm"]["num_hidden_layers"]},
        6: {"mean": cosine.mean(), "best": cosine.max()},
        7: {"figure": named(facts, "diagonal_pearson")["Solar-Phi"]},
        8: three,
        9: {"second": changed[1], "third": changed[2]},
        10: {"least": norms.mean_b.min(), "most": norms.mean_b.max()},
        11: {"length": facts.norms["post"].rms_b.max() * math.sqrt(WIDTH)},
    }


def _claim_norms(facts: PublishedFacts) -> dict[int, Values]:
    """Return those in the claim that are about norms."""
    norms, cosine = facts.norms["input"], facts.norms["input"].cosine
    gap = claimed_gap(facts)
    one = np.concatenate([about_one(item) for item in facts.norms.values()]).mean()
    diagonal = np.mean([item.cosine for item in facts.norms.values()], axis=0)
    half = len(diagonal) // 2
    every = np.concatenate([item.cosine for item in facts.norms.values()]).mean()
    # Points as the claim's own program gives them: 100 for equal bytes, 30 or 10 for norms, 10 for attention
    # that is near 0.
    high = every > 0.95 and every > gap.low.mean() + 0.05
    # Near 0 for that program.
    near_zero = abs(facts.window("k", "cosine").mean()) < 0.01
    points = 100 * (same_bytes(facts)[0] > 0) + (30 if high else 10) + 10 * bool(near_zero)
    return {
        15: {"cosine": facts.three_models["cosine", "mixed", "input", "solar-glm"]},
        16: {"layer_10": cosine[10], "mean": gap.high.mean()},
        17: {"mean": cosine[[0, 10, 20, 30, 40]].mean()},
        18: {"layer_6": cosine[6]},
        22: {"width": WIDTH, "expected": norms.expected.mean()},
        23: {"sigmas": against_random(facts)},
        24: {"matched": one, "difference": one - facts.claims["about_one.mismatched"].published},
        25: {"fall": diagonal[:half].mean() - diagonal[half:].mean()},
        26: {"values": len(gap.high), "best_p": 1.0 / math.comb(2 * len(gap.high), len(gap.high))},
        27: {"points": points},
    }


def _claim_rest(facts: PublishedFacts) -> dict[int, Values]:
    """Return those in the claim that are about other tensors."""
    k, v = facts.window("k", "cosine"), facts.window("v", "cosine")
    rows, tokens = facts.embedding_rows["cosine"].mean(), facts.single["tokenizers"]
    elsewhere = facts.single["elsewhere_layer_0"]
    return {
        19: {"k": k.mean(), "v": v.mean(), "absolute": np.abs(k).mean()},
        20: {
            "first": facts.single["embedding_200"]["mean"],
            "second": rows,
            "chance": 1.0 / math.sqrt(WIDTH),
        },
        21: {
            "by_config": facts.configs["solar"]["vocab_size"] - facts.configs["glm"]["vocab_size"],
            "by_tokens": tokens["solar_tokens"] - tokens["glm_tokens"],
            "lost": tokens["glm_tokens"] - tokens["shared"],
        },
        34: {"sampled": k[10], "full": facts.three_models["cosine", "10", "k", "solar-glm"]},
        35: {"model": elsewhere["model"][0], "cosine": elsewhere["layers_0_15"][0]},
    }


def _answers(facts: PublishedFacts) -> dict[int, Values]:
    """Return those in the answers to the claim."""
    norms, three = facts.norms["input"], facts.three_models
    groups = facts.single["layer_10_groups"]
    dense = round(math.sqrt(2 * groups["dense-dense"][2] + 0.25) + 0.5)
    within = {
        m: np.mean([three["cosine", p, "input", m] for p in ("10-20", "20-30")]) for m in ("solar", "glm")
    }
    spreads = {"solar": norms.std_a / norms.mean_a, "glm": norms.std_b / norms.mean_b}
    return {
        28: {"dense": dense, "models": dense + groups["MoE-dense"][2] // dense},
        29: {**within, "across": three["cosine", "10", "input", "solar-glm"]},
        30: {"least": norms.cosine[:5].min(), "most": norms.cosine[:5].max()},
        32: {
            "difference": three["cv_diff", "10", "input", "solar-glm"],
            **{model: spread[10] for model, spread in spreads.items()},
        },
        33: {
            "solar_glm": three["mean_abs_diff", "10", "post", "solar-glm"],
            "glm_phi": three["mean_abs_diff", "10", "post", "glm-phi"],
        },
    }
