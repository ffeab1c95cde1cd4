"""The norm gains: what a cosine of 0.99 is made of, the 182 sigma, the baseline of layer 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .facts import ROLES, WIDTH, Floats, Norms, PublishedFacts
from .record import Chapter, grid

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
    across, within = gap.high.mean(), gap.low.mean()
    solar = np.mean(facts.single["layer_zero"]["solar"])
    rows = (("glm_layer_0", within), ("solar_layer_0", solar), ("solar_glm", across))
    return facts.chapter(
        "claim",
        {
            "across": across,
            "within": within,
            "gap": gap.gap,
            "sigmas": gap.sigmas,
            "input": facts.norms["input"].cosine.mean(),
            "post": facts.norms["post"].cosine.mean(),
        },
        grid("claim", rows, what="", cosine=".3f"),
        more={"sigma.within_solar": solar},
    )


def identity(facts: PublishedFacts) -> Chapter:
    """Tell what a cosine consists of, and show that this holds in all published rows."""
    errors = [np.abs(norms.identity - norms.cosine).max() for norms in facts.norms.values()]
    claimed = [np.abs(norms.identity - norms.claim_cosine).max() for norms in facts.norms.values()]
    distances = [
        np.abs(relative_l2(facts.norms[role]) - facts.window(role, "relative_l2")).max() for role in ROLES
    ]
    norms, post = facts.norms["input"], facts.norms["post"]
    deep = int(np.argmin(post.room))
    l2 = relative_l2(norms) * norms.rms_a * math.sqrt(WIDTH)
    return facts.chapter(
        "identity",
        {
            "rows": sum(len(item.layers) for item in facts.norms.values()),
            "error": max(errors),
            "claim_error": max(claimed),
            "distance_error": max(distances),
            "layer": int(post.layers[deep]),
            "rho": math.sqrt(post.rho_a[deep] * post.rho_b[deep]),
            "room": post.room[deep],
        },
        more={
            **{f"norms.input.cosine.{layer}": norms.identity[layer] for layer in (10, 20, 30)},
            **{f"norms.input.pearson.{layer}": norms.pearson[layer] for layer in (10, 20, 30)},
            "norms.post.cosine.20": post.identity[20],
            "norms.post.pearson.20": post.pearson[20],
            "norms.input.l2.10": l2[10],
            "norms.input.length.0": norms.rms_a[0] * math.sqrt(WIDTH),
            "norms.post.length.0": post.rms_a[0] * math.sqrt(WIDTH),
        },
    )


def expectation(facts: PublishedFacts) -> Chapter:
    """Tell what shuffling leaves of the cosine: all of it."""
    every = facts.norms.values()
    rows = []
    for role, norms in facts.norms.items():
        cosine, expected = norms.cosine.mean(), norms.expected.mean()
        rows.append((role, cosine, norms.shuffled.mean(), expected, cosine - expected, norms.pearson.mean()))
    first = facts.norms["input"]
    cosine, expected = first.cosine.mean(), first.expected.mean()
    diagonal = np.mean([norms.cosine for norms in every], axis=0)
    others = np.mean([np.outer(norms.rho_a, norms.rho_b) for norms in every], axis=0)
    half = len(diagonal) // 2
    early, late = diagonal[:half].mean(), diagonal[half:].mean()
    one = np.concatenate([about_one(norms) for norms in every])
    one_mismatched, raw_mismatched = _mismatched(facts)
    return facts.chapter(
        "expectation",
        {
            "cosine": cosine,
            "expected": expected,
            "below": expected - cosine,
            "apart": max(np.abs(norms.shuffled - norms.expected).max() for norms in every),
            "others": others[~np.eye(len(others), dtype=bool)].mean(),
            "others_published": facts.claims["decay.others"].published,
            "one": one.mean(),
            "one_mismatched": one_mismatched,
        },
        grid(
            "expectation",
            rows,
            norm="",
            **dict.fromkeys(("cosine", "one_shuffle", "all_shuffles"), ".5f"),
            excess="+.5f",
            pearson="+.4f",
        ),
        more={
            "decay.diagonal": diagonal.mean(),
            "decay.diagonal_std": diagonal.std(),
            "decay.early": early,
            "decay.late": late,
            "decay.fall": early - late,
            "decay.pearson": np.mean([norms.pearson.mean() for norms in every]),
            "about_one.matched_std": one.std(),
            "about_one.raw_mismatched": raw_mismatched,
        },
    )


def sigma(facts: PublishedFacts) -> Chapter:
    """Compute the 182 sigma, and refute it."""
    gap, chance = claimed_gap(facts), explained_gap(facts)
    cosines = facts.norms["input"].cosine
    baseline = facts.single["random_baseline"]
    many = len(gap.high) + len(gap.low)
    within = [
        facts.three_models["cosine", layers, "input", model]
        for model in ("solar", "glm")
        for layers in ("10-20", "20-30", "10-30")
    ]
    same_layers = [facts.three_models["cosine", str(layer), "input", "solar-glm"] for layer in (10, 20, 30)]
    rows = (
        (what, item.high.mean(), item.low.mean(), item.gap, item.sigmas)
        for what, item in (("claimed", gap), ("explained", chance))
    )
    return facts.chapter(
        "sigma",
        {
            "sigmas": gap.sigmas,
            "explained": chance.sigmas,
            "gap": gap.gap,
            "explained_gap": chance.gap,
            "values": len(gap.high),
            "best_p": 1.0 / math.comb(many, len(gap.high)),
            "with_layer_0": cosines[[0, *_FAR]].mean(),
            "within_least": min(within),
            "within_mean": np.mean(within),
            "across_mean": np.mean(same_layers),
            "random_sigmas": against_random(facts),
            "random_cosine": baseline["cosine"],
        },
        grid("sigma", rows, what="", across=".4f", within=".4f", gap=".4f", sigmas=".1f"),
    )


def layer_zero(facts: PublishedFacts) -> Chapter:
    """Explain the baseline by the mean and deviation of one layer."""
    norms, known = facts.norms["input"], facts.single["layer_zero"]
    rows = [
        (f"{name} 0-{layer}", cosine, rho[0] * rho[layer])
        for name, rho, cosines in (
            ("Solar", norms.rho_a, known["solar"]),
            ("GLM", norms.rho_b, known["glm"]),
        )
        for layer, cosine in zip(known["layers"], cosines, strict=True)
    ]
    first = ("Solar 0 - GLM 0", norms.cosine[0], norms.expected[0])
    elsewhere = facts.single["elsewhere_layer_0"]
    return facts.chapter(
        "layer_zero",
        {
            "rho_solar": norms.rho_a[0],
            "rho_glm": norms.rho_b[0],
            "rho_10": norms.rho_a[10],
            "spread_solar": norms.std_a[0] / norms.mean_a[0],
            "spread_glm": norms.std_b[0] / norms.mean_b[0],
            "apart": max(abs(cosine - expected) for _, cosine, expected in rows),
            "cosine": norms.cosine[0],
            "expected": norms.expected[0],
            "other_model": elsewhere["model"][0],
            "other": elsewhere["layers_0_15"][0],
        },
        grid("layer_zero", (*rows, first), layers="", cosine=".4f", all_shuffles=".4f"),
    )


def against_random(facts: PublishedFacts) -> float:
    """Return the distance of the mean cosine from that of random vectors, in their standard deviations."""
    baseline = facts.single["random_baseline"]
    return float((facts.norms["input"].cosine.mean() - baseline["cosine"]) / baseline["cosine_sd"])


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
