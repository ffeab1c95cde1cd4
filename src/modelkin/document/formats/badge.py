"""A badge: the verdict in a few letters, as an SVG that loads nothing."""

from __future__ import annotations

from html import escape

from modelkin.comparison import Comparison
from modelkin.untrusted import visible

_LABEL = "common origin"
_WORDS = {True: ("found", "#b35900"), False: ("no evidence", "#2b6a4d"), None: ("not testable", "#5f6670")}
_LETTER = 6.6
"""Average width of a letter in pixels at eleven points."""
_HEIGHT = 20


def badge_svg(result: Comparison) -> str:
    """Draw the badge. What it cannot say (limits, strength) is in its title."""
    word, colour = _WORDS[result.verdict.related]
    if result.verdict.conclusion.value == "identical":
        word = "identical"
    left, right = (int(len(text) * _LETTER) + 14 for text in (_LABEL, word))
    title = escape(visible(f"{_LABEL}: {word}. {result.verdict.summary}"), quote=True)
    font = 'font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="{_HEIGHT}" fill="#444c56"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{colour}"/>'
        f'<g {font}><text x="{left / 2:g}" y="14">{_LABEL}</text>'
        f'<text x="{left + right / 2:g}" y="14">{word}</text></g></svg>'
    )
