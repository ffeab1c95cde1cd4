"""The norm gains: what a cosine of 0.99 is made of, the 182 sigma, the baseline of layer 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .facts import ROLES, WIDTH, Floats, Norms, PublishedFacts
from .record import Chapter, Check, FactTable

_FAR = (10, 20, 30, 40)
"""Layers that the claim looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Two groups of numbers, as the claim compared them."""

    high: Floats
    low: Floats

    @property
    def gap(self) -> float:
        """Difference of the means."""
        return float(self.high.mean() - self.low.mean())

    @property
    def sigmas(self) -> float:
        """The difference over the pooled deviation of both groups: an effect size, not a test."""
        return self.gap / math.sqrt((float(self.high.var()) + float(self.low.var())) / 2.0)


def claimed_gap(facts: PublishedFacts) -> Gap:
    """Return the cosines that gave 182 sigma."""
    far = np.array(_FAR)
    return Gap(high=facts.norms["input"].cosine[far], low=np.array(facts.single["layer_zero"]["glm"]))


def explained_gap(facts: PublishedFacts) -> Gap:
    """Return what the same cosines are on average over all orders of the values."""
    norms, far = facts.norms["input"], np.array(_FAR)
    return Gap(high=norms.expected[far], low=norms.rho_b[0] * norms.rho_b[far])


def claim(facts: PublishedFacts) -> Chapter:
    """Tell what was claimed, and from what."""
    gap = claimed_gap(facts)
    solar = np.array(facts.single["layer_zero"]["solar"])
    rows = (
        ("glm_layer_0", float(gap.low.mean())),
        ("solar_layer_0", float(solar.mean())),
        ("solar_glm", float(gap.high.mean())),
    )
    return Chapter(
        key="claim",
        values={
            "across": float(gap.high.mean()),
            "within": float(gap.low.mean()),
            "gap": gap.gap,
            "sigmas": gap.sigmas,
            "input": float(facts.norms["input"].cosine.mean()),
            "post": float(facts.norms["post"].cosine.mean()),
        },
        grids=(FactTable(key="claim", columns=("what", "cosine"), rows=rows, formats=("", ".3f")),),
        checks=(
            facts.check("sigma.across", gap.high.mean()),
            facts.check("sigma.within_glm", gap.low.mean()),
            facts.check("sigma.within_solar", solar.mean()),
            facts.check("sigma.gap", gap.gap),
            *(facts.check(f"norms.{role}.cosine", facts.norms[role].cosine.mean()) for role in ROLES),
        ),
    )


def identity(facts: PublishedFacts) -> Chapter:
    """Tell what a cosine consists of, and that it does so in all published rows."""
    errors = [np.abs(norms.identity - norms.cosine).max() for norms in facts.norms.values()]
    claimed = [np.abs(norms.identity - norms.claim_cosine).max() for norms in facts.norms.values()]
    distances = [
        np.abs(relative_l2(facts.norms[role]) - facts.window(role, "relative_l2")).max() for role in ROLES
    ]
    post = facts.norms["post"]
    deep = int(np.argmin(post.room))
    return Chapter(
        key="identity",
        values={
            "rows": sum(len(norms.layers) for norms in facts.norms.values()),
            "error": float(max(errors)),
            "claim_error": float(max(claimed)),
            "distance_error": float(max(distances)),
            "layer": int(post.layers[deep]),
            "rho": float(math.sqrt(post.rho_a[deep] * post.rho_b[deep])),
            "room": float(post.room[deep]),
        },
        checks=_published_norms(facts),
    )


def expectation(facts: PublishedFacts) -> Chapter:
    """Tell what shuffling leaves of the cosine: all of it."""
    rows = tuple(
        (
            role,
            float(norms.cosine.mean()),
            float(norms.shuffled.mean()),
            float(norms.expected.mean()),
            float(norms.cosine.mean() - norms.expected.mean()),
            float(norms.pearson.mean()),
        )
        for role, norms in facts.norms.items()
    )
    apart = max(float(np.abs(norms.shuffled - norms.expected).max()) for norms in facts.norms.values())
    diagonal = np.mean([facts.norms[role].cosine for role in ROLES], axis=0)
    others = np.mean([np.outer(n.rho_a, n.rho_b) for n in facts.norms.values()], axis=0)
    off = others[~np.eye(len(others), dtype=bool)]
    half = len(diagonal) // 2
    early, late = float(diagonal[:half].mean()), float(diagonal[half:].mean())
    one = np.concatenate([about_one(facts.norms[role]) for role in ROLES])
    return Chapter(
        key="expectation",
        values={
            "cosine": rows[0][1],
            "expected": rows[0][3],
            "below": rows[0][3] - rows[0][1],
            "apart": apart,
            "others": float(off.mean()),
            "others_published": facts.claims["decay.others"][0],
            "one": float(one.mean()),
            "one_mismatched": _mismatched(facts)[0],
        },
        grids=(
            FactTable(
                key="expectation",
                columns=("norm", "cosine", "one_shuffle", "all_shuffles", "excess", "pearson"),
                rows=rows,
                formats=("", ".5f", ".5f", ".5f", "+.5f", "+.4f"),
            ),
        ),
        checks=(
            facts.check("decay.diagonal", diagonal.mean()),
            facts.check("decay.diagonal_std", diagonal.std()),
            facts.check("decay.others", off.mean()),
            facts.check("decay.early", early),
            facts.check("decay.late", late),
            facts.check("decay.fall", early - late),
            facts.check("decay.pearson", np.mean([n.pearson.mean() for n in facts.norms.values()])),
            facts.check("about_one.matched", one.mean()),
            facts.check("about_one.matched_std", one.std()),
            facts.check("about_one.mismatched", _mismatched(facts)[0]),
            facts.check("about_one.raw_mismatched", _mismatched(facts)[1]),
        ),
    )


def sigma(facts: PublishedFacts) -> Chapter:
    """Compute the 182 sigma, and refute it."""
    gap, chance = claimed_gap(facts), explained_gap(facts)
    norms = facts.norms["input"]
    baseline = facts.single["random_baseline"]
    against_random = (float(norms.cosine.mean()) - baseline["cosine"]) / baseline["cosine_sd"]
    many = len(gap.high) + len(gap.low)
    within = [
        facts.three_models["cosine", layers, "input", model]
        for model in ("solar", "glm")
        for layers in ("10-20", "20-30", "10-30")
    ]
    same_layers = [facts.three_models["cosine", str(layer), "input", "solar-glm"] for layer in (10, 20, 30)]
    return Chapter(
        key="sigma",
        values={
            "sigmas": gap.sigmas,
            "explained": chance.sigmas,
            "gap": gap.gap,
            "explained_gap": chance.gap,
            "values": len(gap.high),
            "best_p": 1.0 / math.comb(many, len(gap.high)),
            "with_layer_0": float(norms.cosine[[0, *_FAR]].mean()),
            "within_least": min(within),
            "within_mean": float(np.mean(within)),
            "across_mean": float(np.mean(same_layers)),
            "random_sigmas": against_random,
            "random_cosine": baseline["cosine"],
        },
        grids=(
            FactTable(
                key="sigma",
                columns=("what", "across", "within", "gap", "sigmas"),
                rows=(
                    ("claimed", float(gap.high.mean()), float(gap.low.mean()), gap.gap, gap.sigmas),
                    (
                        "explained",
                        float(chance.high.mean()),
                        float(chance.low.mean()),
                        chance.gap,
                        chance.sigmas,
                    ),
                ),
                formats=("", ".4f", ".4f", ".4f", ".1f"),
            ),
        ),
        checks=(facts.check("sigma.sigmas", gap.sigmas), facts.check("random.sigmas", against_random)),
    )


def layer_zero(facts: PublishedFacts) -> Chapter:
    """Explain the baseline by the mean and deviation of one layer."""
    norms, known = facts.norms["input"], facts.single["layer_zero"]
    rows = tuple(
        (f"{name} 0-{layer}", cosine, float(rho[0] * rho[layer]))
        for name, rho, cosines in (
            ("Solar", norms.rho_a, known["solar"]),
            ("GLM", norms.rho_b, known["glm"]),
        )
        for layer, cosine in zip(known["layers"], cosines, strict=True)
    )
    elsewhere = facts.single["elsewhere_layer_0"]
    return Chapter(
        key="layer_zero",
        values={
            "rho_solar": float(norms.rho_a[0]),
            "rho_glm": float(norms.rho_b[0]),
            "rho_10": float(norms.rho_a[10]),
            "spread_solar": float(norms.std_a[0] / norms.mean_a[0]),
            "spread_glm": float(norms.std_b[0] / norms.mean_b[0]),
            "apart": max(abs(cosine - expected) for _, cosine, expected in rows),
            "cosine": float(norms.cosine[0]),
            "expected": float(norms.expected[0]),
            "other_model": elsewhere["model"][0],
            "other": elsewhere["layers_0_15"][0],
        },
        grids=(
            FactTable(
                key="layer_zero",
                columns=("layers", "cosine", "all_shuffles"),
                rows=(*rows, ("Solar 0 - GLM 0", float(norms.cosine[0]), float(norms.expected[0]))),
                formats=("", ".4f", ".4f"),
            ),
        ),
    )


def about_one(norms: Norms) -> Floats:
    """Return the cosine after subtracting 1 from all values, from means, deviations and correlation."""
    a, b = norms.mean_a - 1.0, norms.mean_b - 1.0
    dot: Floats = a * b + norms.pearson * norms.std_a * norms.std_b
    lengths: Floats = np.hypot(a, norms.std_a) * np.hypot(b, norms.std_b)
    return np.asarray(dot / lengths, dtype=np.float64)


def relative_l2(norms: Norms) -> Floats:
    """Return the length of the difference over the length of Solar's gains."""
    ratio: Floats = norms.rms_b / norms.rms_a
    return np.sqrt(1.0 + ratio**2 - 2.0 * norms.cosine * ratio)


def _mismatched(facts: PublishedFacts) -> tuple[float, float]:
    """Predict the claim's control (other layers) from means and deviations alone: about one, and raw.

    As it was made: vectors in order of layers, input before post, each of the first 30 of Solar with those
    5 to 9 places further in GLM.
    """

    def mixed(name: str) -> Floats:
        both = [getattr(facts.norms[role], name) for role in ROLES]
        return np.stack(both, axis=1).ravel()

    mine = np.repeat(np.arange(30), 5)
    theirs = mine + np.tile(np.arange(5, 10), 30)
    a, b = mixed("mean_a")[mine] - 1.0, mixed("mean_b")[theirs] - 1.0
    one = a * b / (np.hypot(a, mixed("std_a")[mine]) * np.hypot(b, mixed("std_b")[theirs]))
    raw = mixed("rho_a")[mine] * mixed("rho_b")[theirs]
    return float(one.mean()), float(raw.mean())


def _published_norms(facts: PublishedFacts) -> tuple[Check, ...]:
    """Check the numbers on which several authors agree."""
    norms, post = facts.norms["input"], facts.norms["post"]
    l2 = relative_l2(norms) * norms.rms_a * math.sqrt(WIDTH)
    return (
        *(facts.check(f"norms.input.cosine.{layer}", norms.identity[layer]) for layer in (10, 20, 30)),
        *(facts.check(f"norms.input.pearson.{layer}", norms.pearson[layer]) for layer in (10, 20, 30)),
        facts.check("norms.post.cosine.20", post.identity[20]),
        facts.check("norms.post.pearson.20", post.pearson[20]),
        facts.check("norms.input.l2.10", l2[10]),
        facts.check("norms.input.length.0", norms.rms_a[0] * math.sqrt(WIDTH)),
        facts.check("norms.post.length.0", post.rms_a[0] * math.sqrt(WIDTH)),
    )
