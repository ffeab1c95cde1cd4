"""What is told besides the norms: what others computed, tokenizers, embedding rows, configs."""

from __future__ import annotations

import math

import numpy as np

from modelkin.describe.measures import gaussian_cosine
from modelkin.tokenizer import known_pairs

from .facts import WIDTH, PublishedFacts
from .record import Chapter, FactTable

_THREE = ("solar-glm", "solar-phi", "glm-phi")


def answers(facts: PublishedFacts) -> Chapter:
    """Tell what those who answered computed: other pairs, other measures, other baselines."""
    groups = {name: value for name, value in facts.single["layer_10_groups"].items() if name != "source"}
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (
            pair,
            *(facts.three_models["cosine", "20", role, pair] for role in ("input", "post")),
            *(facts.three_models["pearson", "20", role, pair] for role in ("input", "post", "k", "v")),
        )
        for pair in _THREE
    )
    cosines = [facts.three_models["cosine", "20", "input", pair] for pair in _THREE]
    twice = max(
        abs(value - facts.three_models["pearson", layers, tensor, models])
        for (measure, layers, tensor, models), value in facts.three_models.items()
        if measure == "centered_cosine"
    )
    narrow, wide = facts.single["random_baseline"], facts.single["wider_random_baseline"]
    toy = {name: float(gaussian_cosine(**_same(item))) for name, item in (("narrow", narrow), ("wide", wide))}
    overall = facts.single["moe_layer_means"]
    return Chapter(
        key="answers",
        values={
            "least": min(cosines),
            "most": max(cosines),
            "groups_least": min(value[0] for value in groups.values()),
            "groups_most": max(value[0] for value in groups.values()),
            "models": 8,
            "overall": float(np.mean(overall["mean"])),
            "twice": twice,
            "narrow": toy["narrow"],
            "wide": toy["wide"],
        },
        grids=(
            FactTable(
                key="answers",
                columns=("pair", "cosine_input", "cosine_post", "r_input", "r_post", "r_k", "r_v"),
                rows=rows,
                formats=("", ".4f", ".4f", "+.4f", "+.4f", "+.4f", "+.4f"),
            ),
            FactTable(
                key="groups",
                columns=("group", "mean_cosine", "pairs"),
                rows=tuple((name, value[0], value[2]) for name, value in groups.items()),
                formats=("", ".4f", "d"),
            ),
        ),
        checks=(
            facts.check("toy.random", toy["wide"]),
            facts.check("toy.narrow", toy["narrow"]),
        ),
    )


def beside(facts: PublishedFacts) -> Chapter:
    """Tell what tokenizers, embedding rows and configs say."""
    tokens = facts.single["tokenizers"]
    union = tokens["solar_tokens"] + tokens["glm_tokens"] - tokens["shared"]
    jaccard = tokens["shared"] / union
    of_smaller = tokens["shared"] / min(tokens["solar_tokens"], tokens["glm_tokens"])
    merges = tokens["shared_merges"] / tokens["glm_merges"]
    fewer = tokens["shared_merges"] / min(tokens["solar_merges"], tokens["glm_merges"])
    separate = [pair for pair in known_pairs() if pair.relation == "separate"]
    merged = [pair.merges_of_smaller for pair in separate if pair.merges_of_smaller is not None]
    rows = facts.embedding_rows["cosine"]
    expected_sd = 1.0 / math.sqrt(WIDTH)
    mine, theirs = facts.configs["solar"], facts.configs["glm"]
    fields = sorted(
        name for name in mine.keys() | theirs.keys() if name not in ("model_type", "architectures")
    )
    sizes = [name for name in fields if mine.get(name) != theirs.get(name)]
    return Chapter(
        key="beside",
        values={
            "jaccard": jaccard,
            "of_smaller": of_smaller,
            "merges": merges,
            "only_solar": tokens["solar_tokens"] - tokens["shared"],
            "only_glm": tokens["glm_tokens"] - tokens["shared"],
            "same_id": tokens["same_id"],
            "run": tokens["byte_run"],
            "rows": len(rows),
            "mean": float(rows.mean()),
            "std": float(rows.std()),
            "expected_std": expected_sd,
            # Three standard deviations: one in 370 by chance.
            "beyond": int((np.abs(rows) > 3.0 * expected_sd).sum()),
            "fields": len(fields),
            "different": len(sizes),
        },
        grids=(
            FactTable(
                key="tokens",
                columns=("what", "here", "separate_least", "separate_most", "pairs"),
                rows=(
                    ("jaccard", jaccard, *_reach([pair.jaccard for pair in separate]), len(separate)),
                    (
                        "of_smaller",
                        of_smaller,
                        *_reach([pair.of_smaller for pair in separate]),
                        len(separate),
                    ),
                    ("merges_of_fewer", fewer, *_reach(merged), len(merged)),
                ),
                formats=("", ".3f", ".3f", ".3f", "d"),
            ),
            FactTable(
                key="configs",
                columns=("field", "solar", "glm"),
                rows=tuple((name, _told(mine.get(name)), _told(theirs.get(name))) for name in sizes),
            ),
        ),
        checks=(
            facts.check("tokens.union", union),
            facts.check("tokens.jaccard", jaccard),
            facts.check("tokens.of_smaller", of_smaller),
            facts.check("tokens.only_solar", tokens["solar_tokens"] - tokens["shared"]),
            facts.check("tokens.only_glm", tokens["glm_tokens"] - tokens["shared"]),
            facts.check("tokens.merges_of_glm", merges),
            facts.check("tokens.only_solar_merges", tokens["solar_merges"] - tokens["shared_merges"]),
            facts.check("tokens.only_glm_merges", tokens["glm_merges"] - tokens["shared_merges"]),
            facts.check("embedding.mean", rows.mean()),
            facts.check("embedding.std", rows.std()),
            facts.check("embedding.least", rows.min()),
            facts.check("embedding.most", rows.max()),
        ),
    )


def _same(item: dict[str, float]) -> dict[str, float]:
    return {"mean_a": item["mean"], "mean_b": item["mean"], "sd_a": item["std"], "sd_b": item["std"]}


def _reach(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _told(value: object) -> str | None:
    return None if value is None else str(value)
