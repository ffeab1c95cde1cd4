"""The story of the dispute, put together: every number is computed from the shipped facts when it is told."""

from __future__ import annotations

from . import _beside, matrices, norms, steps, together
from ._contradictions import all_contradictions
from .cases import all_cases, conclusion, verdict
from .facts import load_facts
from .record import Chapter, Replay

SCHEMA = "modelkin.replay/1"
_CHAPTERS = (
    norms.claim,
    norms.identity,
    norms.expectation,
    norms.sigma,
    norms.layer_zero,
    _beside.answers,
    together.together,
    together.controls,
    matrices.projections,
    matrices.matching,
    steps.steps,
    _beside.beside,
)


def replay_solar_glm() -> Replay:
    """Tell whether Solar-Open-100B was derived from GLM-4.5-Air, as far as published measurements go.

    Nothing is downloaded, and no weight is read: the facts are a few small tables that come with the package.
    """
    facts = load_facts()
    cases = all_cases(facts)
    chapters: list[Chapter] = [make(facts) for make in _CHAPTERS]
    chapters.append(verdict(cases))
    return Replay(
        schema=SCHEMA,
        candidate="Solar-Open-100B",
        base="GLM-4.5-Air",
        conclusion=conclusion(cases),
        chapters=tuple(chapters),
        cases=cases,
        contradictions=all_contradictions(facts),
        sources=facts.single["sources"],
        files=facts.single["files"],
    )
