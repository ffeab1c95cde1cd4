"""Whether the small correlations mean something: layers taken together, and the controls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modelkin.stats import log10_normal_tail

from .facts import WIDTH, Floats, PublishedFacts
from .record import Cell, Chapter, FactTable

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
    offset = float((facing - r).mean())
    best = facts.pearson.decoders.argmax(axis=1)[: len(r)]
    as_drawn = facts.pearson.published
    off_diagonal = as_drawn[~np.eye(len(as_drawn), dtype=bool)]
    rows = tuple(
        (role, item.mean, item.naive_z, item.joint_z, item.sure_z, autocorrelation(facts.norms[role].pearson))
        for role, item in found.items()
    )
    return Chapter(
        key="together",
        values={
            "layers": first.layers,
            "mean": first.mean,
            "naive_z": first.naive_z,
            "naive_p": 2.0 * 10.0 ** log10_normal_tail(first.naive_z),
            "autocorrelation": autocorrelation(r),
            "shared": first.shared,
            "joint_z": first.joint_z,
            "joint_p": 2.0 * 10.0 ** log10_normal_tail(first.joint_z),
            "sure_z": first.sure_z,
            "facing": float(facing.mean()) - offset,
            "others": float(others.mean()) - offset,
            "best_rows": int((best == np.arange(len(r))).sum()),
        },
        grids=(
            FactTable(
                key="together",
                columns=("norm", "mean_pearson", "naive_z", "joint_z", "sure_z", "autocorrelation"),
                rows=rows,
                formats=("", "+.4f", "+.1f", "+.2f", "+.2f", ".2f"),
            ),
        ),
        checks=(
            facts.check("norms.input.pearson", r.mean()),
            facts.check("norms.input.pearson_std", r.std()),
            facts.check("norms.input.pearson_least", r.min()),
            facts.check("norms.input.pearson_most", r.max()),
            facts.check("norms.post.pearson", facts.norms["post"].pearson.mean()),
            facts.check("norms.post.pearson_std", facts.norms["post"].pearson.std()),
            # The figure's own means count the prediction layer of GLM as a decoder layer.
            facts.check("figure.diagonal", as_drawn.diagonal().mean()),
            facts.check("figure.others", off_diagonal.mean()),
        ),
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
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (pair, relation, cosines.get(pair), known[pair], float(facts.abs_pearson[pair].decoders.max()))
        for pair, relation in pairs.items()
    )
    void = facts.single["void_controls"]
    return Chapter(
        key="controls",
        values={
            "asked": known["Solar-GLM"],
            "control": max(known[pair] for pair, relation in pairs.items() if relation == "independent"),
            "asked_most": float(facts.abs_pearson["Solar-GLM"].decoders.max()),
            "control_most": float(facts.abs_pearson["GLM-Phi"].decoders.max()),
            "siblings": known["GLM-INTELLECT"],
            "least_cosine": min(cosines.values()),
            "void": ", ".join(item["model"] for item in void),
            "void_widths": ", ".join(str(item["width"]) for item in void),
            "void_told": void[0]["told_as"],
            "width": WIDTH,
        },
        grids=(
            FactTable(
                key="controls",
                columns=("pair", "relation", "cosine_10", "mean_pearson", "most_pearson"),
                rows=rows,
                formats=("", "", ".4f", "+.3f", ".3f"),
            ),
        ),
        checks=(facts.check("figure.solar_glm", facts.norms["input"].pearson.mean()),),
    )


def autocorrelation(values: Floats) -> float:
    """Return how much a value resembles that of the next layer."""
    centred = values - values.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def named(facts: PublishedFacts, table: str) -> dict[str, float]:
    """Return single numbers by the pair they are about."""
    return {pair: value for pair, value in facts.single[table].items() if pair != "source"}
