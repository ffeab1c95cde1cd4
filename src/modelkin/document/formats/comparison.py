"""A comparison in the formats of other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modelkin.comparison import Comparison
from modelkin.document.codec import dumps

from .badge import badge_svg
from .card import model_card
from .cyclonedx import ml_bom
from .sarif import SarifFinding, SarifRule, sarif_log

_RULES = (
    SarifRule(
        id="MK001",
        name="CommonOrigin",
        text="The candidate and the base share weights of common origin.",
        help_text="A technical finding, not a finding of wrongdoing; it does not say who came first.",
    ),
    SarifRule(
        id="MK002",
        name="LookCloser",
        text="Nothing was found, but the models look alike or not everything was tested.",
        help_text="The verdict must not be read without this; more controls or a larger budget may tell.",
        level="note",
    ),
)


def comparison_sarif(result: Comparison) -> dict[str, Any]:
    """Return a comparison as a SARIF log: one result for its verdict, one for each strong flag."""
    verdict = result.verdict
    kinds: dict[bool | None, str] = {True: "fail", False: "pass", None: "notApplicable"}
    kind = kinds[verdict.related]
    about: dict[str, object] = {
        "conclusion": verdict.conclusion.value,
        "log10_p": verdict.log10_p,
        "basis": verdict.basis,
        "effect": None if verdict.effect is None else verdict.effect.value,
        "base": result.base.ref,
        "limitations": [str(item) for item in verdict.limitations],
    }
    findings = [
        SarifFinding(
            rule="MK001",
            kind=kind,  # type: ignore[arg-type]
            text=str(verdict.summary),
            model=result.candidate.ref,
            properties=about,
        )
    ]
    findings += [
        SarifFinding(rule="MK002", kind="review", text=str(flag), model=result.candidate.ref, key=flag.code)
        for flag in result.strong_flags
    ]
    environment = result.environment
    properties = {"depth": environment.depth, "seed": environment.seed, "stage": verdict.stage}
    return sarif_log(_RULES, findings, properties=properties)


FORMATS: Mapping[str, Callable[[Comparison], str]] = {
    "sarif": lambda result: dumps(comparison_sarif(result)),
    "cyclonedx": lambda result: dumps(ml_bom(result)),
    "card": model_card,
    "badge": badge_svg,
}
"""Word of ``--format`` -> what writes it."""


def comparison_as(result: Comparison, name: str) -> str:
    """Write a comparison in a format of another program."""
    return FORMATS[name](result)
