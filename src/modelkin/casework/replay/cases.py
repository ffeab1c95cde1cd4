"""The cases of the dispute, each judged from what was published about it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modelkin.comparison.verdict import Conclusion, load_rule
from modelkin.stats import NotTestable, needed_z
from modelkin.tokenizer import known_pairs

from .facts import WIDTH, PublishedFacts
from .matrices import router_z, same_bytes
from .record import Case, Chapter, plain_number, plain_numbers
from .together import joint_mean, named

Values = dict[str, Any]


def judged(key: str, effect: float | None, values: Values, *, looks: int = 1) -> Case:
    """Judge one case by modelkin's rule, as far as published numbers allow.

    What is published are correlations and their averages, over tensors that depend on each other in unknown
    ways. Shuffle the dimensions of the residual stream, the same in all tensors: whatever the dependence, the
    deviation of such an average is at most ``1 / sqrt(n - 1)`` for n dimensions. So ``|r| sqrt(n - 1)`` is
    the smallest z that it can have, and only that is compared with the z that the rule requires, which is
    computed for the number of values among which the largest was chosen (`looks`). An effect that passes is
    shared; one that does not is no evidence. Without an effect nothing can be tested: it is None if nothing
    was published that is zero by chance and says something about weights.
    """
    rule = load_rule()
    needed = needed_z(n_units=WIDTH, log10_alpha=rule.log10_p - math.log10(looks))
    assert not isinstance(needed, NotTestable)  # 4096 dimensions have enough orders
    z = None if effect is None else abs(float(effect)) * math.sqrt(WIDTH - 1)
    if effect is None or z is None:
        answer = Conclusion.NOT_TESTABLE
    else:
        found = z >= needed and abs(effect) > rule.effect_floor
        answer = Conclusion.SHARED if found else Conclusion.NO_EVIDENCE
    return Case(
        key=key,
        conclusion=answer,
        effect=plain_number(effect),
        sure_z=z,
        needed_z=None if effect is None else needed,
        values=plain_numbers(values),
    )


def detectable() -> float:
    """Return the smallest published average correlation that would be a finding here."""
    needed = needed_z(n_units=WIDTH, log10_alpha=load_rule().log10_p)
    assert not isinstance(needed, NotTestable)
    return needed / math.sqrt(WIDTH - 1)


def all_cases(facts: PublishedFacts) -> tuple[Case, ...]:
    """Judge V1 to V14."""
    return (*_norm_cases(facts), *_tensor_cases(facts), *_control_cases(facts), *_other_cases(facts))


def _norm_cases(facts: PublishedFacts) -> tuple[Case, ...]:
    cases = []
    for key, role in (("V1", "input"), ("V2", "post")):
        norms = facts.norms[role]
        most = norms.pearson[abs(norms.pearson).argmax()]
        values: Values = {
            "cosine": norms.cosine.mean(),
            "expected": norms.expected.mean(),
            "pearson": norms.pearson.mean(),
            "most": most,
            "control": named(facts, "diagonal_pearson")["GLM-Phi"],
        }
        cases.append(judged(key, most, values, looks=len(norms.layers)))
    return tuple(cases)


def _tensor_cases(facts: PublishedFacts) -> tuple[Case, ...]:
    sampled, z = (
        np.concatenate([facts.window(name, column) for name in ("k", "v")]) for column in ("cosine", "z")
    )
    largest, router = abs(sampled).max(), facts.router
    rows = facts.embedding_rows["cosine"]
    windows: Values = {"naive_z": abs(z).max(), "cosine": largest, "tensors": len(sampled)}
    routers: Values = {
        "pearson": router["pearson"].mean(),
        "naive_z": router_z(facts).max(),
        "matched": router["matched"].mean(),
    }
    tokens: Values = {"mean": rows.mean(), "std": rows.std(), "chance": 1.0 / math.sqrt(WIDTH)}
    return (
        judged("V3", largest, windows, looks=len(sampled)),
        judged("V4", router["pearson"].max(), routers, looks=len(router["pearson"])),
        judged("V5", rows.mean(), tokens),
    )


def _control_cases(facts: PublishedFacts) -> tuple[Case, ...]:
    related = facts.abs_pearson["GLM-INTELLECT"].facing.mean()
    changed = facts.single["changed"]["per_cent"]
    cosines = named(facts, "layer_10_cosine")
    within = {model: facts.three_models["pearson", "10-20", "input", model] for model in ("solar", "glm")}
    near = facts.three_models["cosine", "10-20", "input", "solar"]
    norms = facts.norms["input"]
    first = {"cosine": norms.cosine[0], "expected": norms.expected[0], "pearson": norms.pearson[0]}
    return (
        judged("V6", related, {"pearson": related, "first": changed[0], "last": changed[-1]}),
        judged("V7", None, {"yi": cosines["Yi-6B-Yi-9B"], "mistral": cosines["Mixtral-Mistral"]}),
        judged("V8", within["solar"], {**within, "cosine": near}),
        judged("V9", first["pearson"], first),
    )


def _other_cases(facts: PublishedFacts) -> tuple[Case, ...]:
    random = facts.single["random_baseline"]
    void = facts.single["void_controls"][0]
    equal, compared = same_bytes(facts)
    tokens = facts.single["tokenizers"]
    vocabularies: Values = {
        "jaccard": tokens["shared"] / (tokens["solar_tokens"] + tokens["glm_tokens"] - tokens["shared"]),
        "separate": max(pair.jaccard for pair in known_pairs() if pair.relation == "separate"),
        "merges": tokens["first_1000_merges_in_place"],
        "run": tokens["byte_run"],
    }
    joint = joint_mean(facts, "input")
    layers = {name: getattr(joint, name) for name in ("naive_z", "joint_z", "sure_z", "mean")}
    return (
        judged("V10", random["pearson"], {"cosine": random["cosine"], "pearson": random["pearson"]}),
        judged("V11", None, {"model": void["model"], "width": void["width"], "wanted": WIDTH}),
        judged("V12", None, {"equal": equal, "compared": compared}),
        judged("V13", None, vocabularies),
        judged("V14", joint.mean, layers),
    )


def verdict(cases: tuple[Case, ...]) -> Chapter:
    """Summarise the question: Solar and GLM."""
    asked = [case for case in cases if case.key in ASKED]
    return Chapter(
        key="verdict",
        values={
            "tested": sum(case.conclusion is not Conclusion.NOT_TESTABLE for case in asked),
            "found": sum(case.conclusion.related is True for case in asked),
            "detectable": detectable(),
            "width": WIDTH,
        },
    )


ASKED = ("V1", "V2", "V3", "V4", "V5", "V9", "V14")
"""Cases about weights of Solar and GLM; the others are controls, or not about weights."""


def conclusion(cases: tuple[Case, ...]) -> Conclusion:
    """Return the answer to the question, from the cases about it."""
    found = [case.conclusion for case in cases if case.key in ASKED]
    if any(item.related for item in found):
        return Conclusion.SHARED_PARTIAL
    return Conclusion.NO_EVIDENCE if Conclusion.NO_EVIDENCE in found else Conclusion.NOT_TESTABLE
