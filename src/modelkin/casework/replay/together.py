"""Whether the small correlations mean something: layers taken together, and the controls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modelkin.stats import log10_normal_tail

from .facts import WIDTH, Floats, PublishedFacts
from .record import Chapter, grid

_WITHIN = ("10-20", "10-30", "20-30")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMean:
    """A mean correlation over layers, and three answers to how unusual it is.

    One order of the dimensions is shuffled for all layers at once. The correlations of two layers then have
    the covariance ``s t / (n - 1)``, where s and t are the correlations of these two layers within each
    model. If layers had nothing in common the mean would have the deviation ``1 / sqrt(m (n - 1))``; if they
    were all alike, ``1 / sqrt(n - 1)``. The truth lies between, and needs the correlations within.
    """

    mean: float
    layers: int
    shared: float
    """Mean of s t over pairs of layers for which both are published."""

    @property
    def naive_z(self) -> float:
        """As if every layer were an independent draw."""
        return self.mean * math.sqrt(self.layers * (WIDTH - 1))

    @property
    def sure_z(self) -> float:
        """Whatever the layers have in common."""
        return self.mean * math.sqrt(WIDTH - 1)

    @property
    def joint_z(self) -> float:
        """With what the published layers have in common."""
        part = (1.0 + (self.layers - 1) * self.shared) / self.layers
        return self.mean * math.sqrt((WIDTH - 1) / part)


def joint_mean(facts: PublishedFacts, role: str) -> JointMean:
    """Return the mean correlation of Solar and GLM with what is known about their layers."""
    r = facts.norms[role].pearson
    products = [
        facts.three_models["pearson", pair, role, "solar"] * facts.three_models["pearson", pair, role, "glm"]
        for pair in _WITHIN
    ]
    return JointMean(mean=float(r.mean()), layers=len(r), shared=float(np.mean(products)))


def together(facts: PublishedFacts) -> Chapter:
    """Explain why 46 small correlations are not 46 tests."""
    found = {role: joint_mean(facts, role) for role in facts.norms}
    first = found["input"]
    r = facts.norms["input"].pearson
    facing, others = facts.pearson.facing, facts.pearson.others
    offset = (facing - r).mean()
    best = facts.pearson.decoders.argmax(axis=1)[: len(r)]
    as_drawn = facts.pearson.published
    rows = (
        (role, item.mean, item.naive_z, item.joint_z, item.sure_z, autocorrelation(facts.norms[role].pearson))
        for role, item in found.items()
    )
    return facts.chapter(
        "together",
        {
            "layers": first.layers,
            "mean": first.mean,
            "naive_z": first.naive_z,
            "naive_p": 2.0 * 10.0 ** log10_normal_tail(first.naive_z),
            "autocorrelation": autocorrelation(r),
            "shared": first.shared,
            "joint_z": first.joint_z,
            "joint_p": 2.0 * 10.0 ** log10_normal_tail(first.joint_z),
            "sure_z": first.sure_z,
            "facing": facing.mean() - offset,
            "others": others.mean() - offset,
            "best_rows": (best == np.arange(len(r))).sum(),
        },
        grid(
            "together",
            rows,
            norm="",
            mean_pearson="+.4f",
            naive_z="+.1f",
            joint_z="+.2f",
            sure_z="+.2f",
            autocorrelation=".2f",
        ),
        more={
            "norms.input.pearson_std": r.std(),
            "norms.input.pearson_least": r.min(),
            "norms.input.pearson_most": r.max(),
            "norms.post.pearson": facts.norms["post"].pearson.mean(),
            "norms.post.pearson_std": facts.norms["post"].pearson.std(),
            # The figure's own means count the prediction layer of GLM as a decoder layer.
            "figure.diagonal": as_drawn.diagonal().mean(),
            "figure.others": as_drawn[~np.eye(len(as_drawn), dtype=bool)].mean(),
        },
    )


def controls(facts: PublishedFacts) -> Chapter:
    """Compare Solar and GLM with pairs of known relation, and name the controls that were not controls."""
    known, cosines = (named(facts, name) for name in ("diagonal_pearson", "layer_10_cosine"))
    pairs = {
        "Solar-GLM": "asked",
        "Solar-INTELLECT": "asked",
        "Solar-Phi": "independent",
        "GLM-Phi": "independent",
        "INTELLECT-Phi": "independent",
        "GLM-INTELLECT": "siblings",
    }
    most = {pair: table.decoders.max() for pair, table in facts.abs_pearson.items()}
    void = facts.single["void_controls"]
    return facts.chapter(
        "controls",
        {
            "asked": known["Solar-GLM"],
            "control": max(known[pair] for pair, relation in pairs.items() if relation == "independent"),
            "asked_most": most["Solar-GLM"],
            "control_most": most["GLM-Phi"],
            "siblings": known["GLM-INTELLECT"],
            "least_cosine": min(cosines.values()),
            "void": ", ".join(item["model"] for item in void),
            "void_widths": ", ".join(str(item["width"]) for item in void),
            "void_told": void[0]["told_as"],
            "width": WIDTH,
        },
        grid(
            "controls",
            ((pair, how, cosines.get(pair), known[pair], most[pair]) for pair, how in pairs.items()),
            pair="",
            relation="",
            cosine_10=".4f",
            mean_pearson="+.3f",
            most_pearson=".3f",
        ),
        more={"figure.solar_glm": facts.norms["input"].pearson.mean()},
    )


def autocorrelation(values: Floats) -> float:
    """Return how much a value resembles that of the next layer."""
    centred = values - values.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def named(facts: PublishedFacts, table: str) -> dict[str, float]:
    """Return single numbers by the pair they are about."""
    return {pair: value for pair, value in facts.single[table].items() if pair != "source"}
