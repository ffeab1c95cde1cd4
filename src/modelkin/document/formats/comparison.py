"""A comparison in the formats of other programs: code scanning, bills of materials, model cards, badges."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from modelkin.comparison import Comparison
from modelkin.document.blocks import Bullets, Paragraph, Section, table
from modelkin.document.codec import dumps
from modelkin.document.language import ENGLISH
from modelkin.document.markdown import render_markdown
from modelkin.document.numbers import effect_text, p_text
from modelkin.document.views.words import basis_text, effect_measure
from modelkin.untrusted import visible

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


# -- a snippet for a model card ------------------------------------------------------------------------


def model_card(result: Comparison) -> str:
    """Write a section of Markdown, below front matter for the Hub if a common origin was found."""
    verdict, base = result.verdict, result.base
    rows = [("compared with", base.ref + (f" at commit {base.revision}" if base.revision else ""))]
    rows.append(("conclusion", verdict.conclusion.value))
    if verdict.log10_p is not None:
        rows.append(("strength", p_text(verdict.log10_p)))
        rows.append(("basis", basis_text(result, ENGLISH) or ENGLISH.say("word.exact")))
    if verdict.effect is not None:
        rows.append(("effect", f"{effect_text(verdict.effect)} ({effect_measure(result, ENGLISH)})"))
    about = result.environment
    rows.append(("made by", f"modelkin {about.modelkin}, depth {about.depth}, seed {about.seed}"))
    section = Section(
        title="Origin of the weights",
        blocks=(
            Paragraph(str(verdict.summary)),
            table(("", ""), rows),
            Bullets(tuple(str(item) for item in verdict.limitations)),
        ),
    )
    return _front_matter(result) + render_markdown((section,)).rstrip()


def _front_matter(result: Comparison) -> str:
    base = result.base
    if not result.verdict.related or base.kind != "hub":
        return ""
    name = base.origin.rstrip("/").split("/")[-2:]
    return f"---\nbase_model: {json.dumps('/'.join(name))}\n---\n\n"


# -- a badge -------------------------------------------------------------------------------------------

_BADGE = "common origin"
_BADGE_WORDS = {
    True: ("found", "#b35900"),
    False: ("no evidence", "#2b6a4d"),
    None: ("not testable", "#5f6670"),
}
_LETTER = 6.6
"""Average width of a letter in pixels at eleven points."""
_HEIGHT = 20


def badge_svg(result: Comparison) -> str:
    """Draw the badge. What it cannot say (limits, strength) is in its title."""
    word, colour = _BADGE_WORDS[result.verdict.related]
    if result.verdict.conclusion.value == "identical":
        word = "identical"
    left, right = (int(len(text) * _LETTER) + 14 for text in (_BADGE, word))
    title = escape(visible(f"{_BADGE}: {word}. {result.verdict.summary}"), quote=True)
    font = 'font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="{_HEIGHT}" fill="#444c56"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{colour}"/>'
        f'<g {font}><text x="{left / 2:g}" y="14">{_BADGE}</text>'
        f'<text x="{left + right / 2:g}" y="14">{word}</text></g></svg>'
    )


# -- all of them ---------------------------------------------------------------------------------------

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
