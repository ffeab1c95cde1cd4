"""Figures of the replay: drawn from the shipped facts by the functions that draw any models."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from modelkin.casework import catalogue as draw
from modelkin.figures import Chance, Figure, pearson_chance
from modelkin.figures.comparison import z_histogram
from modelkin.message import phrase

from .facts import EXPERTS, WIDTH, Floats, PublishedFacts, load_facts
from .matrices import DRAWS, SEED, full_z, random_matchings
from .norms import claimed_gap, explained_gap
from .steps import step_size

_PAIR = ("Solar-Open-100B", "GLM-4.5-Air")
_KINDS: Mapping[str, str] = {"input": phrase("catalogue.input-norm"), "post": phrase("catalogue.post-norm")}
_THREE = ("Solar", "GLM", "Phi")
_DARKEST = 0.9
"""Where the colours of the published figure of GLM and INTELLECT begin."""
CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "claim": ("norm_cosines",),
    "expectation": ("shuffle_summary",),
    "sigma": ("claimed_evidence",),
    "layer_zero": ("layer_zero",),
    "answers": ("confusion_pearson",),
    "together": ("pearson_by_layer", "pearson_matrix"),
    "controls": ("pair_matrices",),
    "projections": ("z_histogram", "cosine_by_type"),
    "matching": ("matched_rows",),
    "steps": ("changed_values",),
}
"""Which figures belong to which chapter."""


def replay_figures() -> dict[str, Figure]:
    """Describe all figures, by name."""
    facts = load_facts()
    makers = (_norm_figures, _sigma_figures, _pair_figures, _tensor_figures)
    return {name: figure for make in makers for name, figure in make(facts).items()}


def _norm_figures(facts: PublishedFacts) -> dict[str, Figure]:
    norms = {kind: facts.norms[role] for role, kind in _KINDS.items()}
    layers = facts.norms["input"].layers
    spread = {kind: item.room / math.sqrt(WIDTH - 1) for kind, item in norms.items()}
    return {
        "norm_cosines": draw.norm_cosines(
            layers,
            {kind: item.cosine for kind, item in norms.items()},
            {kind: item.expected for kind, item in norms.items()},
            names=_PAIR,
            spread_of_shuffles=spread,
        ),
        "shuffle_summary": draw.shuffle_summary(
            {
                kind: draw.ShuffleCurves(
                    layers=tuple(item.layers.tolist()),
                    cosine=tuple(item.cosine.tolist()),
                    shuffled=tuple(item.shuffled.tolist()),
                    pearson=tuple(item.pearson.tolist()),
                )
                for kind, item in norms.items()
            },
            names=_PAIR,
            n=WIDTH,
        ),
        "pearson_by_layer": draw.layer_curves(
            layers,
            {kind: item.pearson for kind, item in norms.items()},
            measure="Pearson r",
            chance=pearson_chance(WIDTH),
        ),
    }


def _sigma_figures(facts: PublishedFacts) -> dict[str, Figure]:
    gap, chance = claimed_gap(facts), explained_gap(facts)
    norms, known = facts.norms["input"], facts.single["layer_zero"]
    far = np.array(known["layers"])
    claims = (
        draw.Claim(
            label=phrase("catalogue.layer-zero-others", model="Solar"),
            cosine=float(np.mean(known["solar"])),
            expected=float((norms.rho_a[0] * norms.rho_a[far]).mean()),
            served="baseline",
        ),
        draw.Claim(
            label=phrase("catalogue.layer-zero-others", model="GLM"),
            cosine=float(gap.low.mean()),
            expected=float(chance.low.mean()),
            served="baseline",
        ),
        draw.Claim(
            label=phrase("catalogue.pair-same-layer", a="Solar", b="GLM"),
            cosine=float(gap.high.mean()),
            expected=float(chance.high.mean()),
            served="evidence",
            pearson=float(norms.pearson[far].mean()),
        ),
    )
    pairs = [f"0 - {layer}" for layer in known["layers"]]
    return {
        "claimed_evidence": draw.claimed_evidence(
            claims, difference=gap.gap, expected_difference=chance.gap, sigmas=gap.sigmas
        ),
        "layer_zero": draw.layer_pairs(
            pairs,
            {"Solar": known["solar"], "GLM": known["glm"]},
            {"Solar": norms.rho_a[0] * norms.rho_a[far], "GLM": norms.rho_b[0] * norms.rho_b[far]},
            title=phrase("catalogue.layer-zero"),
        ),
    }


def _pair_figures(facts: PublishedFacts) -> dict[str, Figure]:
    def three(role: str) -> list[list[float]]:
        values = [
            facts.three_models["pearson", "20", role, pair] for pair in ("solar-glm", "solar-phi", "glm-phi")
        ]
        return [[1.0, values[0], values[1]], [values[0], 1.0, values[2]], [values[1], values[2], 1.0]]

    names = {**_KINDS, "k": phrase("catalogue.keys"), "v": phrase("catalogue.values")}
    return {
        "confusion_pearson": draw.confusion(
            {name: three(role) for role, name in names.items()},
            _THREE,
            measure="Pearson r",
            where=phrase("catalogue.layer-number", layer=20),
        ),
        "pearson_matrix": draw.pair_matrices({"Solar | GLM": facts.pearson.decoders}),
        "pair_matrices": draw.pair_matrices(
            {
                pair.replace("-", " | "): _legible(pair, table.decoders)
                for pair, table in facts.abs_pearson.items()
            },
            measure=phrase("catalogue.read-from-figure"),
            limits={
                pair.replace("-", " | "): 1.0 if pair == "GLM-INTELLECT" else 0.1
                for pair in facts.abs_pearson
            },
            signed=False,
        ),
    }


def _legible(pair: str, matrix: Floats) -> Floats:
    """Leave out cells at the end of the published colours: 0.9 and anything below look the same there."""
    return np.where(matrix <= _DARKEST, np.nan, matrix) if pair == "GLM-INTELLECT" else matrix


def _tensor_figures(facts: PublishedFacts) -> dict[str, Figure]:
    tensors = {"keys": "k", "values": "v", "queries-first": "q", "router": "router"}
    names: dict[str, str] = {phrase(f"catalogue.{key}"): tensor for key, tensor in tensors.items()}
    kinds = {kind: facts.window(tensor, "cosine") for kind, tensor in names.items()}
    counts = {
        kind: float(np.median((facts.window(tensor, "z") / facts.window(tensor, "cosine")) ** 2))
        for kind, tensor in names.items()
    }
    rows = phrase("catalogue.embedding")
    kinds[rows], counts[rows] = facts.embedding_rows["cosine"], float(WIDTH)
    null = random_matchings(EXPERTS, WIDTH, draws=DRAWS, seed=SEED)
    return {
        "z_histogram": z_histogram(full_z(facts), title=phrase("catalogue.z-entries")),
        "cosine_by_type": draw.distribution_by_type(
            {kind: {"Solar, GLM": values} for kind, values in kinds.items()},
            measure=draw.COSINE,
            chance={kind: _entries_chance(count) for kind, count in counts.items()},
        ),
        # Not `matched_rows`: its null shuffles the rows themselves, which were not published.
        "matched_rows": draw.layer_curves(
            facts.router["layer"],
            {"Solar, GLM": facts.router["matched"]},
            measure=phrase("catalogue.matched-cosine"),
            title=phrase("catalogue.matched-noise"),
            chance=Chance(
                label=phrase("catalogue.search-normal", draws=DRAWS),
                value=float(null.mean()),
                low=float(null.min()),
                high=float(null.max()),
            ),
        ),
        "changed_values": _changed(facts),
    }


def _entries_chance(count: float) -> Chance:
    reach = 1.96 / math.sqrt(count)
    return Chance(label=phrase("catalogue.entries-chance", reach=reach), value=0.0, low=-reach, high=reach)


def _changed(facts: PublishedFacts) -> Figure:
    known, norms = facts.single["changed"], facts.norms["input"]
    differences = dict(zip(known["difference_layers"], known["mean_difference"], strict=True))
    steps = [step_size(float(norms.mean_b[layer])) for layer in known["layers"]]
    mean = [differences.get(layer) for layer in known["layers"]]
    ulps = [
        None if value is None else value / (share / 100.0) / step
        for value, share, step in zip(mean, known["per_cent"], steps, strict=True)
    ]
    return draw.changed_values(
        known["layers"],
        known["per_cent"],
        mean,
        ulps,
        one_ulp=steps,
        names=("GLM-4.5-Air", "INTELLECT-3"),
        what=phrase("catalogue.input-norms"),
    )
