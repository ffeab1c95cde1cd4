"""A snippet for a model card: what was compared, and what that says."""

from __future__ import annotations

import json

from modelkin.comparison import Comparison
from modelkin.document.blocks import Bullets, Paragraph, Section, table
from modelkin.document.language import ENGLISH
from modelkin.document.markdown import render_markdown
from modelkin.document.numbers import effect_text, p_text
from modelkin.document.views.words import basis_text, effect_measure


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
