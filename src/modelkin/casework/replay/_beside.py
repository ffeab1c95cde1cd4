"""What is told besides the norms: what others computed, tokenizers, embedding rows, configs."""

from __future__ import annotations

import math

import numpy as np

from modelkin.describe.measures import gaussian_cosine
from modelkin.tokenizer import known_pairs

from .facts import WIDTH, PublishedFacts
from .record import Chapter, grid

_THREE = ("solar-glm", "solar-phi", "glm-phi")


def answers(facts: PublishedFacts) -> Chapter:
    """Tell what those who answered computed: other pairs, other measures, other baselines."""
    groups = {name: value for name, value in facts.single["layer_10_groups"].items() if name != "source"}
    rows = (
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
    means = ((name, mean, pairs) for name, (mean, _, pairs) in groups.items())
    return facts.chapter(
        "answers",
        {
            "least": min(cosines),
            "most": max(cosines),
            "groups_least": min(value[0] for value in groups.values()),
            "groups_most": max(value[0] for value in groups.values()),
            "models": 8,
            "overall": np.mean(overall["mean"]),
            "twice": twice,
            "narrow": toy["narrow"],
            "wide": toy["wide"],
        },
        grid(
            "answers",
            rows,
            pair="",
            **dict.fromkeys(("cosine_input", "cosine_post"), ".4f"),
            **dict.fromkeys(("r_input", "r_post", "r_k", "r_v"), "+.4f"),
        ),
        grid("groups", means, group="", mean_cosine=".4f", pairs="d"),
    )


def beside(facts: PublishedFacts) -> Chapter:
    """Tell what tokenizers, embedding rows and configs say."""
    tokens = facts.single["tokenizers"]
    union = tokens["solar_tokens"] + tokens["glm_tokens"] - tokens["shared"]
    jaccard = tokens["shared"] / union
    of_smaller = tokens["shared"] / min(tokens["solar_tokens"], tokens["glm_tokens"])
    fewer = tokens["shared_merges"] / min(tokens["solar_merges"], tokens["glm_merges"])
    separate = [pair for pair in known_pairs() if pair.relation == "separate"]
    merged = [pair.merges_of_smaller for pair in separate if pair.merges_of_smaller is not None]
    overlaps = (
        ("jaccard", jaccard, *_reach([pair.jaccard for pair in separate]), len(separate)),
        ("of_smaller", of_smaller, *_reach([pair.of_smaller for pair in separate]), len(separate)),
        ("merges_of_fewer", fewer, *_reach(merged), len(merged)),
    )
    rows = facts.embedding_rows["cosine"]
    expected_sd = 1.0 / math.sqrt(WIDTH)
    mine, theirs = facts.configs["solar"], facts.configs["glm"]
    fields = sorted(
        name for name in mine.keys() | theirs.keys() if name not in ("model_type", "architectures")
    )
    sizes = [name for name in fields if mine.get(name) != theirs.get(name)]
    different = ((name, _told(mine.get(name)), _told(theirs.get(name))) for name in sizes)
    return facts.chapter(
        "beside",
        {
            "jaccard": jaccard,
            "of_smaller": of_smaller,
            "merges": tokens["shared_merges"] / tokens["glm_merges"],
            "only_solar": tokens["solar_tokens"] - tokens["shared"],
            "only_glm": tokens["glm_tokens"] - tokens["shared"],
            "same_id": tokens["same_id"],
            "run": tokens["byte_run"],
            "rows": len(rows),
            "mean": rows.mean(),
            "std": rows.std(),
            "expected_std": expected_sd,
            # Three standard deviations: one in 370 by chance.
            "beyond": (np.abs(rows) > 3.0 * expected_sd).sum(),
            "fields": len(fields),
            "different": len(sizes),
        },
        grid("tokens", overlaps, what="", here=".3f", separate_least=".3f", separate_most=".3f", pairs="d"),
        grid("configs", different, field="", solar="", glm=""),
        more={
            "tokens.union": union,
            "tokens.only_solar_merges": tokens["solar_merges"] - tokens["shared_merges"],
            "tokens.only_glm_merges": tokens["glm_merges"] - tokens["shared_merges"],
            "embedding.least": rows.min(),
            "embedding.most": rows.max(),
        },
    )


def _same(item: dict[str, float]) -> dict[str, float]:
    return {"mean_a": item["mean"], "mean_b": item["mean"], "sd_a": item["std"], "sd_b": item["std"]}


def _reach(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def _told(value: object) -> str | None:
    return None if value is None else str(value)
