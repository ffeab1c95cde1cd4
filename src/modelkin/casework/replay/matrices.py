"""Projections and routers: z scores that are too wide, windows read three times, a search without a null."""

from __future__ import annotations

import math

import numpy as np

from modelkin.stats import best_pairing

from .facts import EXPERTS, HEAD_ROWS, WIDTH, Floats, PublishedFacts
from .record import Chapter, grid

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


def beyond(values: Floats) -> float:
    """Return the share beyond what is usually called significant."""
    return float((np.abs(values) > _USUAL).mean())


def projections(facts: PublishedFacts) -> Chapter:
    """Explain why a z from the number of entries is not a z."""
    z, router = full_z(facts), router_z(facts)
    sampled = {name: facts.window(name, "cosine") for name in ("k", "v", "q", "router")}
    counted = float(np.median((facts.window("input", "z") / facts.window("input", "cosine")) ** 2))
    rows = (
        *(
            (what, len(found), rms(found), beyond(found), np.abs(found).max())
            for what, found in (("full_kv", z), ("full_router", router))
        ),
        ("chance", None, 1.0, math.erfc(_USUAL / math.sqrt(2.0)), None),
    )
    return facts.chapter(
        "projections",
        {
            "tests": len(z),
            "asked": sum(
                measure == "cosine" and tensor in ("k", "v") and models == "solar-glm"
                for measure, _, tensor, models in facts.three_models
            ),
            "rms": rms(z),
            "beyond": beyond(z),
            "most": np.abs(z).max(),
            "router_mean": router.mean(),
            "router_most": router.max(),
            "router_cosine": facts.router["cosine"].max(),
            "router_sure": facts.router["cosine"].max() * math.sqrt(WIDTH - 1),
            "k": sampled["k"].mean(),
            "v": sampled["v"].mean(),
            "counted": round(counted),
            "width": WIDTH,
            "times": round(counted / WIDTH),
            "sampled_k_10": sampled["k"][10],
            "full_k_10": facts.three_models["cosine", "10", "k", "solar-glm"],
        },
        grid("projections", rows, what="", tests="d", rms_z=".2f", beyond=".0%", most_z=".1f"),
        more={
            **{f"windows.{name}.cosine": sampled[name].mean() for name in ("q", "router")},
            **{f"windows.{name}.mean_absolute": np.abs(sampled[name]).mean() for name in ("k", "v")},
            "windows.same_bytes": same_bytes(facts)[0],
            "router.cosine": facts.router["cosine"].mean(),
            "router.pearson": facts.router["pearson"].mean(),
        },
    )


def matching(facts: PublishedFacts) -> Chapter:
    """Repeat the search for matching experts in noise."""
    found = facts.router["matched"]
    null = random_matchings(EXPERTS, WIDTH, draws=DRAWS, seed=SEED)
    return facts.chapter(
        "matching",
        {
            "layers": len(found),
            "mean": found.mean(),
            "most": found.max(),
            "null": null.mean(),
            "null_low": null.min(),
            "null_high": null.max(),
            "above": (found > null.min()).sum(),
            "draws": DRAWS,
            "experts": EXPERTS,
            "width": WIDTH,
        },
        more={"router.matched_least": found.min()},
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
