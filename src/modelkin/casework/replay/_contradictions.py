"""Published numbers that contradict each other. What can be recomputed is recomputed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .facts import WIDTH, PublishedFacts
from .matrices import same_bytes
from .norms import about_one, claimed_gap
from .record import Contradiction
from .together import named

Values = dict[str, float | int | str]


def all_contradictions(facts: PublishedFacts) -> tuple[Contradiction, ...]:
    """List them in the order of their numbers."""
    parts = {_review: True, _claim_norms: True, _claim_rest: True, _answers: True, _as_published: False}
    said: dict[str, Values] = facts.single["statements"]
    found = [
        Contradiction(
            number=number,
            source=source,
            values=said.get(str(number), {}) | values,
            recomputed=recomputed,
        )
        for part, recomputed in parts.items()
        for number, source, values in part(facts)
    ]
    return tuple(sorted(found, key=lambda item: item.number))


def _review(facts: PublishedFacts) -> Iterator[tuple[int, str, Values]]:
    """Yield those in the retraction."""
    norms, post = facts.norms["input"], facts.norms["post"]
    offset = float((facts.pearson.facing - norms.pearson).mean())
    read = facts.pearson.published - offset  # the statement is about the figure as drawn
    yield (
        1,
        "S",
        {"layer_0": _at(norms.cosine, 0), "layer_10": _at(norms.cosine, 10), "std": _std(norms.cosine)},
    )
    yield 2, "S", {"first": _at(read[10], 30), "second": _at(read[25], 40)}
    yield 3, "S", {"std": _std(read[~np.eye(len(read), dtype=bool)])}
    # Layers below about the mean of all (0.949).
    yield 4, "S", {"layer_0": _at(norms.cosine, 0), "below": int((norms.cosine < 0.94).sum())}
    yield 6, "S", {"mean": float(norms.cosine.mean()), "best": float(norms.cosine.max())}
    yield (
        8,
        "S",
        {name: facts.three_models["pearson", "30", "input", f"{name}-phi"] for name in ("solar", "glm")},
    )
    changed = facts.single["changed"]["per_cent"]
    yield 9, "S", {"second": changed[1], "third": changed[2]}
    yield 10, "S", {"least": float(norms.mean_b.min()), "most": float(norms.mean_b.max())}
    yield 11, "S", {"length": float(post.rms_b.max()) * math.sqrt(WIDTH)}


def _claim_norms(facts: PublishedFacts) -> Iterator[tuple[int, str, Values]]:
    """Yield those in the claim that are about norms."""
    norms = facts.norms["input"]
    gap = claimed_gap(facts)
    every = np.concatenate([item.cosine for item in facts.norms.values()])
    yield 15, "O", {"cosine": facts.three_models["cosine", "mixed", "input", "solar-glm"]}
    yield 16, "O", {"layer_10": _at(norms.cosine, 10), "mean": float(gap.high.mean())}
    yield 17, "O", {"mean": float(norms.cosine[[0, 10, 20, 30, 40]].mean())}
    yield 18, "O", {"layer_6": _at(norms.cosine, 6)}
    yield 22, "O", {"width": WIDTH, "expected": float(norms.expected.mean())}
    baseline = facts.single["random_baseline"]
    sigmas = (float(norms.cosine.mean()) - baseline["cosine"]) / baseline["cosine_sd"]
    yield 23, "O", {"sigmas": sigmas}
    one = np.concatenate([about_one(item) for item in facts.norms.values()])
    mismatched = facts.claims["about_one.mismatched"][0]
    yield 24, "O", {"matched": float(one.mean()), "difference": float(one.mean()) - mismatched}
    diagonal = np.mean([item.cosine for item in facts.norms.values()], axis=0)
    half = len(diagonal) // 2
    yield 25, "O", {"fall": float(diagonal[:half].mean() - diagonal[half:].mean())}
    yield 26, "O", {"values": len(gap.high), "best_p": 1.0 / math.comb(2 * len(gap.high), len(gap.high))}
    # Points as the claim's own program gives them: 100 for equal bytes, 30 or 10 for norms, 10 for attention
    # that is near 0.
    high = every.mean() > 0.95 and every.mean() > gap.low.mean() + 0.05
    # Near 0 for that program.
    near_zero = abs(facts.window("k", "cosine").mean()) < 0.01
    points = 100 * (same_bytes(facts)[0] > 0) + (30 if high else 10) + 10 * bool(near_zero)
    yield 27, "O", {"points": points}


def _claim_rest(facts: PublishedFacts) -> Iterator[tuple[int, str, Values]]:
    """Yield those in the claim that are about other tensors."""
    k, v = facts.window("k", "cosine"), facts.window("v", "cosine")
    yield 19, "O", {"k": float(k.mean()), "v": float(v.mean()), "absolute": float(np.abs(k).mean())}
    yield (
        20,
        "O",
        {
            "first": facts.single["embedding_200"]["mean"],
            "second": float(facts.embedding_rows["cosine"].mean()),
            "chance": 1.0 / math.sqrt(WIDTH),
        },
    )
    tokens = facts.single["tokenizers"]
    yield (
        21,
        "O",
        {
            "by_config": facts.configs["solar"]["vocab_size"] - facts.configs["glm"]["vocab_size"],
            "by_tokens": tokens["solar_tokens"] - tokens["glm_tokens"],
            "lost": tokens["glm_tokens"] - tokens["shared"],
        },
    )
    yield 34, "O", {"sampled": _at(k, 10), "full": facts.three_models["cosine", "10", "k", "solar-glm"]}


def _answers(facts: PublishedFacts) -> Iterator[tuple[int, str, Values]]:
    """Yield those in the answers to the claim."""
    norms, three = facts.norms["input"], facts.three_models
    groups = facts.single["layer_10_groups"]
    dense = round(math.sqrt(2 * groups["dense-dense"][2] + 0.25) + 0.5)
    yield 28, "C", {"dense": dense, "models": dense + groups["MoE-dense"][2] // dense}
    within = {
        m: np.mean([three["cosine", p, "input", m] for p in ("10-20", "20-30")]) for m in ("solar", "glm")
    }
    yield (
        29,
        "C",
        {
            "solar": float(within["solar"]),
            "glm": float(within["glm"]),
            "across": three["cosine", "10", "input", "solar-glm"],
        },
    )
    yield 30, "C", {"least": float(norms.cosine[:5].min()), "most": float(norms.cosine[:5].max())}
    yield (
        32,
        "H",
        {
            "difference": three["cv_diff", "10", "input", "solar-glm"],
            "solar": _at(norms.std_a / norms.mean_a, 10),
            "glm": _at(norms.std_b / norms.mean_b, 10),
        },
    )
    yield (
        33,
        "H",
        {
            "solar_glm": three["mean_abs_diff", "10", "post", "solar-glm"],
            "glm_phi": three["mean_abs_diff", "10", "post", "glm-phi"],
        },
    )


def _as_published(facts: PublishedFacts) -> Iterator[tuple[int, str, Values]]:
    """Yield those of which both sides are published, and the inputs are not."""
    yield 7, "S", {"figure": named(facts, "diagonal_pearson")["Solar-Phi"]}
    yield 12, "S", {}
    yield 31, "H", {}
    elsewhere = facts.single["elsewhere_layer_0"]
    yield 35, "O", {"model": elsewhere["model"][0], "cosine": elsewhere["layers_0_15"][0]}
    yield 5, "S", {"layers": facts.configs["glm"]["num_hidden_layers"]}
    yield 13, "S", {}
    yield 14, "S", {}


def _at(values: np.ndarray, place: int) -> float:
    return float(values[place])


def _std(values: np.ndarray) -> float:
    return float(values.std())
