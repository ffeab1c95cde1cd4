"""Figures of the replay: drawn from the shipped facts by the functions that draw any models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from modelkin.casework.catalogue import claim, models, pair, pairs, rows
from modelkin.casework.catalogue.parts import Curve
from modelkin.figures import Chance, Figure, numbers
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
    tables = {
        kind: {
            "layer": item.layers,
            "cosine": item.cosine,
            "cosine_shuffled": item.shuffled,
            "cosine_centered": item.pearson,
        }
        for kind, item in norms.items()
    }
    curves: dict[str, dict[str, Curve]] = {"cosine": {}, "pearson": {}}
    for kind, item in norms.items():
        cosine = Curve(
            layers=numbers(item.layers),
            values=numbers(item.cosine),
            expected=numbers(item.expected),
            sd=numbers(item.room / math.sqrt(WIDTH - 1)),
            n=WIDTH,
        )
        curves["cosine"][kind] = cosine
        curves["pearson"][kind] = replace(cosine, values=numbers(item.pearson))
    known = pair.TwoModels(names=_PAIR, measure="pearson", label="Pearson r", curves=curves)
    by_layer = phrase("catalogue.by-layer", what="Pearson r")
    return {
        "norm_cosines": pair.norm_cosines(known),
        "shuffle_summary": rows.shuffle_summary(tables, names=_PAIR, n=WIDTH),
        "pearson_by_layer": pair.layer_curves(known, title=by_layer),
    }


def _sigma_figures(facts: PublishedFacts) -> dict[str, Figure]:
    gap, chance = claimed_gap(facts), explained_gap(facts)
    norms, known = facts.norms["input"], facts.single["layer_zero"]
    far = np.array(known["layers"])
    claims = (
        claim.Claim(
            label=phrase("catalogue.layer-zero-others", model="Solar"),
            cosine=float(np.mean(known["solar"])),
            expected=float((norms.rho_a[0] * norms.rho_a[far]).mean()),
            served="baseline",
        ),
        claim.Claim(
            label=phrase("catalogue.layer-zero-others", model="GLM"),
            cosine=float(gap.low.mean()),
            expected=float(chance.low.mean()),
            served="baseline",
        ),
        claim.Claim(
            label=phrase("catalogue.pair-same-layer", a="Solar", b="GLM"),
            cosine=float(gap.high.mean()),
            expected=float(chance.high.mean()),
            served="evidence",
            pearson=float(norms.pearson[far].mean()),
        ),
    )
    labels = [f"0 - {layer}" for layer in known["layers"]]
    within = {
        name: Curve(layers=(), values=numbers(values), expected=numbers(rho[0] * rho[far]))
        for name, values, rho in (("Solar", known["solar"], norms.rho_a), ("GLM", known["glm"], norms.rho_b))
    }
    return {
        "claimed_evidence": claim.claimed_evidence(
            claims, difference=gap.gap, expected_difference=chance.gap, sigmas=gap.sigmas
        ),
        "layer_zero": models.layer_pairs(labels, within, title=phrase("catalogue.layer-zero")),
    }


def _pair_figures(facts: PublishedFacts) -> dict[str, Figure]:
    def three(role: str) -> list[list[float]]:
        values = [
            facts.three_models["pearson", "20", role, pair] for pair in ("solar-glm", "solar-phi", "glm-phi")
        ]
        return [[1.0, values[0], values[1]], [values[0], 1.0, values[2]], [values[1], values[2], 1.0]]

    names = {**_KINDS, "k": phrase("catalogue.keys"), "v": phrase("catalogue.values")}
    return {
        "confusion_pearson": models.confusion(
            {name: models.Square(names=_THREE, values=three(role)) for role, name in names.items()},
            measure="Pearson r",
            where=phrase("catalogue.layer-number", layer=20),
        ),
        "pearson_matrix": pairs.pair_matrices({"Solar | GLM": facts.pearson.decoders}),
        "pair_matrices": pairs.pair_matrices(
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
    return {
        "z_histogram": z_histogram(full_z(facts), title=phrase("catalogue.z-entries")),
        "cosine_by_type": pairs.distribution_by_type(
            {
                kind: {
                    "Solar, GLM": Curve(
                        layers=(), values=numbers(values), chance=_entries_chance(counts[kind])
                    )
                }
                for kind, values in kinds.items()
            },
            measure="cosine",
        ),
        "matched_rows": _matched(facts),
        "changed_values": _changed(facts),
    }


def _matched(facts: PublishedFacts) -> Figure:
    """Draw matched routers; the null of `router_matches` shuffles their rows, which were not published."""
    null = random_matchings(EXPERTS, WIDTH, draws=DRAWS, seed=SEED)
    chance = Chance(
        label=phrase("catalogue.search-normal", draws=DRAWS),
        value=float(null.mean()),
        low=float(null.min()),
        high=float(null.max()),
    )
    layers, values = (numbers(facts.router[name]) for name in ("layer", "matched"))
    matched = {"cosine": {"Solar, GLM": Curve(layers=layers, values=values, chance=chance)}}
    known = pair.TwoModels(names=_PAIR, label=phrase("catalogue.matched-cosine"), curves=matched)
    return pair.layer_curves(known, title=phrase("catalogue.matched-noise"))


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
    columns = {
        "layer": known["layers"],
        "percent": known["per_cent"],
        "mean_absolute_difference": mean,
        "mean_ulps": ulps,
        "one_ulp": steps,
    }
    names = ("GLM-4.5-Air", "INTELLECT-3")
    return rows.changed_values(columns, names=names, what=phrase("catalogue.input-norms"))
