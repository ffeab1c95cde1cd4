"""The story of the dispute, put together: every number is computed from the shipped facts when it is told."""

from __future__ import annotations

from . import _beside, _matrices, _norms, _steps, _together
from ._cases import all_cases, conclusion, verdict
from ._contradictions import all_contradictions
from ._facts import load_facts
from ._record import Chapter, Replay

SCHEMA = "modelkin.replay/1"
_CHAPTERS = (
    _norms.claim,
    _norms.identity,
    _norms.expectation,
    _norms.sigma,
    _norms.layer_zero,
    _beside.answers,
    _together.together,
    _together.controls,
    _matrices.projections,
    _matrices.matching,
    _steps.steps,
    _beside.beside,
)


def replay_solar_glm() -> Replay:
    """Tell whether Solar-Open-100B was derived from GLM-4.5-Air, as far as published measurements go.

    Nothing is downloaded, and no weight is read: the facts are a few small tables that come with the package.
    """
    facts = load_facts()
    cases = all_cases(facts)
    chapters: list[Chapter] = [make(facts) for make in _CHAPTERS]
    chapters.append(verdict(facts, cases))
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
