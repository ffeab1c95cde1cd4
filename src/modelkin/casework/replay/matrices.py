"""Projections and routers: z scores that are too wide, windows read three times, a search without a null."""

from __future__ import annotations

import math

import numpy as np

from modelkin.stats import best_pairing

from .facts import EXPERTS, HEAD_ROWS, WIDTH, Floats, PublishedFacts
from .record import Chapter, FactTable

DRAWS = 20
SEED = 0
_USUAL = 1.96


def full_z(facts: PublishedFacts) -> Floats:
    """Return cosine times root of size for all full key and value tensors of three models."""
    found = [
        value
        for (measure, _, tensor, _), value in facts.three_models.items()
        if measure == "cosine" and tensor in ("k", "v")
    ]
    return np.array(found) * math.sqrt(HEAD_ROWS * WIDTH)


def router_z(facts: PublishedFacts) -> Floats:
    """Return the same for full routers of Solar and GLM."""
    return facts.router["cosine"] * math.sqrt(EXPERTS * WIDTH)


def rms(values: Floats) -> float:
    """Return the root of the mean square: 1 for true z scores of unrelated tensors."""
    return float(np.sqrt((values**2).mean()))


def projections(facts: PublishedFacts) -> Chapter:
    """Explain why a z from the number of entries is not a z."""
    z, router = full_z(facts), router_z(facts)
    sampled = {name: facts.window(name, "cosine") for name in ("k", "v", "q", "router")}
    counted = (facts.window("input", "z") / facts.window("input", "cosine")) ** 2
    rows = (
        ("full_kv", len(z), rms(z), float((np.abs(z) > _USUAL).mean()), float(np.abs(z).max())),
        (
            "full_router",
            len(router),
            rms(router),
            float((np.abs(router) > _USUAL).mean()),
            float(np.abs(router).max()),
        ),
        ("chance", None, 1.0, math.erfc(_USUAL / math.sqrt(2.0)), None),
    )
    return Chapter(
        key="projections",
        values={
            "tests": len(z),
            "asked": sum(
                measure == "cosine" and tensor in ("k", "v") and models == "solar-glm"
                for measure, _, tensor, models in facts.three_models
            ),
            "rms": rms(z),
            "beyond": float((np.abs(z) > _USUAL).mean()),
            "most": float(np.abs(z).max()),
            "router_mean": float(router.mean()),
            "router_most": float(router.max()),
            "router_cosine": float(facts.router["cosine"].max()),
            "router_sure": float(facts.router["cosine"].max()) * math.sqrt(WIDTH - 1),
            "k": float(sampled["k"].mean()),
            "v": float(sampled["v"].mean()),
            "counted": round(float(np.median(counted))),
            "width": WIDTH,
            "times": round(float(np.median(counted)) / WIDTH),
            "sampled_k_10": float(sampled["k"][10]),
            "full_k_10": facts.three_models["cosine", "10", "k", "solar-glm"],
        },
        grids=(
            FactTable(
                key="projections",
                columns=("what", "tests", "rms_z", "beyond", "most_z"),
                rows=rows,
                formats=("", "d", ".2f", ".0%", ".1f"),
            ),
        ),
        checks=(
            *(facts.check(f"windows.{name}.cosine", sampled[name].mean()) for name in sampled),
            *(
                facts.check(f"windows.{name}.mean_absolute", np.abs(sampled[name]).mean())
                for name in ("k", "v")
            ),
            facts.check("windows.same_bytes", same_bytes(facts)[0]),
            facts.check("router.cosine", facts.router["cosine"].mean()),
            facts.check("router.pearson", facts.router["pearson"].mean()),
        ),
    )


def matching(facts: PublishedFacts) -> Chapter:
    """Repeat the search for matching experts in noise."""
    found = facts.router["matched"]
    null = random_matchings(EXPERTS, WIDTH, draws=DRAWS, seed=SEED)
    return Chapter(
        key="matching",
        values={
            "layers": len(found),
            "mean": float(found.mean()),
            "most": float(found.max()),
            "null": float(null.mean()),
            "null_low": float(null.min()),
            "null_high": float(null.max()),
            "above": int((found > null.min()).sum()),
            "draws": DRAWS,
            "experts": EXPERTS,
            "width": WIDTH,
        },
        checks=(
            facts.check("router.matched", found.mean()),
            facts.check("router.matched_least", found.min()),
            facts.check("router.matched_most", found.max()),
        ),
    )


def same_bytes(facts: PublishedFacts) -> tuple[int, int]:
    """Return how many compared tensors were equal byte for byte, and how many were compared."""
    told = [row["same_bytes"] for row in facts.windows if row["same_bytes"]]
    return sum(int(value) for value in told), len(told)


def matched_mean(rows_a: Floats, rows_b: Floats) -> float:
    """Return the mean cosine of the best matching of two sets of rows."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (rows_a, rows_b))
    similarity = a @ b.T
    return float(similarity[np.arange(len(a)), best_pairing(similarity)].mean())


def random_matchings(n_rows: int, width: int, *, draws: int, seed: int) -> Floats:
    """Return what the same search finds in rows of normal numbers, which have nothing in common."""
    random = np.random.default_rng(seed)
    return np.array(
        [
            matched_mean(random.normal(size=(n_rows, width)), random.normal(size=(n_rows, width)))
            for _ in range(draws)
        ]
    )
